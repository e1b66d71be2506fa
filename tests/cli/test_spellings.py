"""Other spellings than the documented ones: those of the reference's command line, and former ones, still work."""

from __future__ import annotations

import shlex

import click
import pytest
from cli.test_help import EVERY, LEAVES
from cli.transcript import RunCli

import omnigraph as og
from omnigraph.cli.main import DEPRECATED, SPELLINGS, cli, documented
from omnigraph.cli.options import GraphCommand, Spelled, with_flags
from omnigraph.cli.reference import spelling_reference
from omnigraph.errors import UsageError

FORMER = """
blob get ./photos Photo sea image
blob get ./photos Photo sea image --offset 1024 --length 512
blob stat ./photos Photo sea image
change ./people -e 'insert Person { name: "Ada" }'
changes baseline ./people --out people.ndjson
changes poll ./people --start beginning
changes poll --uri ./people --branch main --cursor eyJ... --limit 3
changes show ./people 01J... --kind node --op update
check --query people.gq --schema people.pg
cluster apply --config ./company --as ada
cluster approve graph.people --config ./company --as ada
cluster force-unlock 01J... --config ./company
cluster import --config ./company
cluster plan --config ./company
cluster refresh --config ./company --as ada
cluster status --config ./company
cluster validate --config ./company
commit changes --uri ./people 01J... --limit 10 --page-token T --kind edge --type Knows --op delete
commit list ./people --branch review --filter actor=ada --filter kind=load
commit show --uri ./people 01J...
commit show 01J... ./people
diff main review ./people
export ./people --jsonl --branch review --type Person
graphs list --server production
ingest ./people --data people.jsonl
init --schema people.pg ./people
log ./people --filter actor=ada
mcp --store ./people --queries ./queries --as assistant
mutate --name promote --query people.gq
picture ./people Person ada --hops 2 --output ada.html
policy test --cluster ./company --graph people --tests policy-tests.yaml --coverage
policy explain --cluster ./company --actor ada --action change --branch main
policy validate --cluster ./company
profile list
profile show
profile show production
queries list --cluster ./company --graph people
queries validate --cluster ./company
query adults --query people.gq --snapshot 01J... --output adults.parquet
query check --query people.gq
query lint ./people --query people.gq
query --query-string 'match { $p: Person } return { $p.name }'
read ./people -e 'match { $p: Person } return { $p.name }' --at 2026-07-01
recovery discard ./people 01J...
recovery list ./people
recovery resume ./people 01J... --engine spark
repair ./people --confirm
schema diff ./people main~3 main
schema get ./people
shell ./people --branch review --as ada
skill
snapshot ./people --branch review
snapshot --snapshot v1
sql ./people 'FROM Person' --output people.parquet
storage ./people --branch review
tag create ./people v1 --at main
token new ada --note laptop
version
"""
LINES = FORMER.strip().splitlines()


def command_of(words: list[str]) -> tuple[str, click.Command, list[str]]:
    """The documented command that these words begin with, and the words after it."""
    words = documented(words)
    name = next(name for name in (" ".join(words[:2]), words[0]) if name in EVERY)
    return name, EVERY[name], words[len(name.split()) :]


@pytest.mark.parametrize("line", LINES)
def test_a_former_spelling_is_accepted(line: str) -> None:
    """Parsed, not run: the transcripts ran with these spellings until the documented ones replaced them."""
    name, command, arguments = command_of(shlex.split(line))
    command.make_context(name, arguments).close()


def test_every_other_spelling_is_among_them() -> None:
    begun = {" ".join(line.split()[:length]) for line in LINES for length in (1, 2)}
    assert {*SPELLINGS} - begun == set()
    flags = {
        spelling
        for command in EVERY.values()
        for parameter in command.params
        if isinstance(parameter, Spelled)
        for spelling in parameter.spellings
    }
    assert flags - {word for line in LINES for word in line.split()} == {"--current", "--force", "--revision"}


def test_they_lead_to_documented_commands_and_are_on_one_page() -> None:
    page = spelling_reference()
    for spelling, words in SPELLINGS.items():
        name, command, options = command_of(words.split())
        assert name in LEAVES
        known = {text for parameter in command.params for text in parameter.opts}
        assert {option for option in options if option.startswith("--")} <= known
        assert f"| `omnigraph {spelling}` | `omnigraph {words}` |" in page
    hidden = {name: command for name, command in EVERY.items() if name not in LEAVES}
    assert {name: command.instead for name, command in hidden.items() if isinstance(command, GraphCommand)} == {
        "version": "--version"
    }


@pytest.mark.parametrize("name", LEAVES)
def test_no_help_shows_another_spelling(name: str) -> None:
    command = LEAVES[name]
    shown = command.get_help(click.Context(command, info_name=name, parent=click.Context(cli, info_name="omnigraph")))
    words = set(shown.replace(",", " ").split())
    for parameter in command.params:
        if isinstance(parameter, Spelled) and parameter.instead is None:
            documented_ones = {text for other in command.params for text in other.opts} - set(parameter.also)
            assert not words & (set(parameter.also) - documented_ones)
    assert not [line for line in shown.splitlines() for old in SPELLINGS if f"omnigraph {old} " in f"{line} "]


def test_a_deprecated_word_comes_with_a_warning(run_cli: RunCli) -> None:
    text = ["-e", "match { $p: Person } return { count($p) as n }", "--format", "csv"]
    plain, former = run_cli(["query", *text]), run_cli(["read", *text])
    assert (former.code, former.out) == (0, plain.out)
    assert former.err == "warning: 'read' is called 'query' now\n"
    assert set(DEPRECATED) < set(SPELLINGS)


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("snapshot people --branch main --json", "show people --types --json"),
        ("changes show main", "show main --changes"),
        ("commit list --limit 1", "log --limit 1"),
        ("schema get", "schema show"),
        ("schema diff main~1 main", "diff main~1 main --schema"),
        ("storage --json", "status --storage --json"),
        ("blob stat Person Ada name", "blob Person Ada name --stat"),
        ("blob get Person Ada name", "blob Person Ada name"),
        ("recovery list", "recovery"),
        ("skill", "examples skill"),
        ("cluster validate --config company", "cluster plan company --offline"),
        ("queries list --cluster company", "graphs --cluster company"),
        ("show main people", "show people main"),
        ("blame Person Ada people", "blame people Person Ada"),
    ],
)
def test_both_print_the_same(former: str, now: str, run_cli: RunCli) -> None:
    assert run_cli(shlex.split(former)) == run_cli(shlex.split(now))


def test_ingest_merges_and_may_create_the_branch(run_cli: RunCli) -> None:
    ran = run_cli(["ingest", "people", "--data", "more.jsonl", "--branch", "inbox"])
    assert (ran.code, "into branch inbox of people (merge)" in ran.out) == (0, True)


@pytest.mark.parametrize(
    ("name", "of_the_library", "on_the_command_line"),
    [
        ("load", "missing='skip' sets such edges aside", "--missing skip sets such edges aside"),
        ("load", "for example columns=['name', 'age']", "for example --columns name,age"),
        ("load", "conf={'spark.jars': 'driver.jar'}, and", "--conf spark.jars=driver.jar, and"),
        ("load", "pass delimiter=';', or delimiter='\\t'", "pass --delimiter ';', or --delimiter $'\\t'"),
        ("load", "leave out rejects= and once=, or dry_run=", "leave out --rejects and --once, or --dry-run"),
        ("load", "from_='main' makes the branch", "--from main makes the branch"),
        ("schema infer", "key=['TYPE.column']; the types are", "--key TYPE.column; the types are"),
        ("export", "replace it with overwrite=True, or", "replace it with --overwrite, or"),
        ("branch delete", "all the same with force=True", "all the same with --force"),
        ("run", 'sources=["Ada", "Bo"], the ids of nodes', "--source Ada --source Bo, the ids of nodes"),
        ("query", 'og.connect("http://x", graph="NAME") in Python', 'og.connect("http://x", graph="NAME") in Python'),
    ],
)
def test_hints_name_flags_where_the_library_names_arguments(
    name: str, of_the_library: str, on_the_command_line: str
) -> None:
    assert with_flags(of_the_library, LEAVES[name]) == on_the_command_line


def test_the_same_error_speaks_to_whoever_called(run_cli: RunCli) -> None:
    with pytest.raises(UsageError) as called:
        og.open("people").load("cities.csv", mode="append", engine="local")
    assert (called.value.hint or "").startswith("pass type='TYPE'; the schema has: ")
    typed = run_cli(["load", "--data", "cities.csv", "--mode", "append", "--engine", "local"])
    as_json = run_cli(["load", "--data", "cities.csv", "--mode", "append", "--engine", "local", "--json"])
    assert "hint: pass --type TYPE; the schema has: " in typed.err
    assert '"hint": "pass --type TYPE; the schema has: ' in as_json.out
