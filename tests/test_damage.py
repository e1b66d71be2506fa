"""Every kind of stored file, deleted, cut short or with one bit flipped: the error names it, and nothing else ever leaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from history.sweeping import sweep
from s3_server import S3Server

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.errors import (
    CommitNotFound,
    Damaged,
    GraphNotFound,
    HistoryGap,
    OmnigraphError,
    PreconditionFailed,
    UsageError,
)
from omnigraph.history import lineage
from omnigraph.history.plan import PreparedPlan, PublishPlan
from omnigraph.maintenance.repair.commits import reset_to
from omnigraph.maintenance.repair.job import RepairJob
from omnigraph.read.search import candidates
from omnigraph.tables import verifying
from omnigraph.tasks.engines import Lost
from omnigraph.tasks.runner import LocalRunner
from omnigraph.write.inlining import ENVIRONMENT as INLINE_BOUND

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "damage.md"
Repaired = Literal["cannot be opened", "named", "rebuilt", "built again", "reset", "dropped"]

SCHEMA = "node Person { name: String @key  age: I32?  body: String? @index }\nedge Knows: Person -> Person"
PEOPLE = 50
TAIL = 8
"""Records that are rolled up into a segment."""
ALL = "query all() { match { $p: Person } return { $p } }"
AGED = 'query aged($age: I32) { update Person set { age: $age } where name = "p3" }'
FOUND = 'query found() { match { $p: Person  search($p.body, "word7") } return { $p.name } }'


@pytest.fixture(scope="module", autouse=True)
def _searches_go_through_the_index() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "MIN_TEXT_ROWS", 1)
        yield


@pytest.fixture(scope="module", autouse=True)
def _few_questions_to_an_index() -> Iterator[None]:
    """Here files are damaged; that an index which answers wrongly is found is shown in tests/health."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "SAMPLES", 1)
        patch.setattr(verifying, "MAX_RANGES", 2)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with every kind of file in it, and with more of each than its newest snapshot needs."""
    folder = tmp_path_factory.mktemp("damage") / "graph"
    graph = og.init(folder, SCHEMA, durability="process")
    graph._repository.history.log.max_tail = TAIL
    with graph.transaction() as tx:
        people = [{"name": f"p{number}", "age": number, "body": f"word{number} and more"} for number in range(PEOPLE)]
        tx.insert_many("Person", people)
        tx.insert("Knows", from_="p1", to="p2")
    graph.maintenance.optimize()
    graph.tags.create("before", "main")
    graph.branches.create("old")
    for number in range(2):
        with graph.transaction("old") as tx:
            tx.insert("Person", name=f"old{number}")
    sweep(graph._repository.history, "old")
    graph.branches.create("work")
    for number in range(TAIL + 3):
        graph.mutate(AGED, {"age": number}, branch="work", once=f"age {number}" if number % 2 else ("ages", number))
    with graph.transaction() as tx:
        tx.delete("Person", "p5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lineage, "ANCESTRY_INLINE", 1)
        patch.setenv(INLINE_BOUND, "0")  # What was deleted is then in a file.
        graph.branches.merge("work")
    history = graph._repository.history
    head = history.chain.head("main")
    plan = PublishPlan(history.new_id(), "main", head.incarnation, head.head.commit.ref, head.head.schema, ())
    history.recovery.keep(PreparedPlan(plan, 0, {"total_entities": 0}), lambda: None)
    history.retention.raise_cutoff(1.0)
    history.leases.renew(history.leases.begin(head.head.commit.ref, history.clock()))
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "graph")
    return tmp_path / "graph"


def entry(folder: Path, branch: str, newest: int) -> Path:
    return sorted((folder / "branches" / branch).iterdir())[newest]


def of_table(folder: Path, kind: str, revision: str = "main") -> Path:
    """A file of the table of Person that a revision needs."""
    repository = og.open(folder)._repository
    state = repository.resolve(revision).snapshot.tables["node:Person"]
    table = repository.tables.open(state.path, state.version)
    match kind:
        case "manifest":
            return folder / state.path / f"_versions/d{state.version}.manifest"
        case "data":
            return folder / state.path / "data" / table.fragments[0].files[0]
        case "deletions":
            return folder / state.path / next(f.deletions for f in table.fragments if f.deletions)
    index = next(each for each in table.dataset.describe_indices() if each.name.startswith("body.inverted"))
    return folder / state.path / "_indices" / str(index.segments[0].uuid) / "metadata.lance"


FILES: dict[str, Callable[[Path], Path]] = {
    "graph.json": lambda folder: folder / "graph.json",
    "newest entry": lambda folder: entry(folder, "main", 0),
    "older entry": lambda folder: entry(folder, "main", 1),
    "first entry": lambda folder: entry(folder, "main", -1),
    "schema": lambda folder: next((folder / "schemas").iterdir()),
    "tag": lambda folder: folder / "tags" / "before.json",
    "log segment": lambda folder: next(f for f in (folder / "history").iterdir() if f.name.count(".") == 1),
    "write keys": lambda folder: next((folder / "history").glob("*.keys.json")),
    "ancestry": lambda folder: next((folder / "history").glob("*.ancestry.json")),
    "prepared plan": lambda folder: next((folder / "recovery").iterdir()),
    "watermark": lambda folder: next((folder / "retention" / "old").iterdir()),
    "cutoff": lambda folder: next((folder / "cutoffs").iterdir()),
    "lease": lambda folder: next((folder / "leases").iterdir()),
    "manifest": lambda folder: of_table(folder, "manifest"),
    "data file": lambda folder: of_table(folder, "data"),
    "deletion file": lambda folder: of_table(folder, "deletions"),
    "index": lambda folder: of_table(folder, "index", "before"),
}


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


SETTING = b"max_ngram_length"
"""A setting of an index that searches here do not need. Lance writes them in an order that differs from run to run, so what is in
the middle of that file may be one that they need."""


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[data.find(SETTING) if SETTING in data else len(data) // 2] ^= 4
    file.write_bytes(data)


HARMS = {"deleted": Path.unlink, "cut short": cut_short, "one bit flipped": flip_a_bit}

CALLS: dict[str, Callable[[Path], object]] = {
    "open": og.open,
    "open in full": lambda folder: og.open(folder, verify="full"),
    "query": lambda folder: og.open(folder).query(ALL).rows,
    "search": lambda folder: og.open(folder).query(FOUND, revision="before").rows,
    "query the tag": lambda folder: og.open(folder).query(ALL, revision="before").rows,
    "query the first commit": lambda folder: og.open(folder).query(ALL, revision="main~4").rows,
    "query an older commit": lambda folder: og.open(folder).query(ALL, revision="main~1").rows,
    "export": lambda folder: og.open(folder).export(folder.parent / "out.jsonl", overwrite=True),
    "log": lambda folder: [commit.id for commit in og.open(folder).commits("work", limit=1_000)],
    "diff": lambda folder: [change.id for change in og.open(folder).diff("before", "main")],
    "entity": lambda folder: og.open(folder).entity("Person", "p7"),
    "history": lambda folder: len(og.open(folder).history("Person", "p3")),
    "merge": lambda folder: og.open(folder).branches.merge("main", "work", dry_run=True).outcome,
    "repeat a keyed write": lambda folder: og.open(folder).mutate(AGED, {"age": 1}, branch="work", once="age 1").commit,
    "list prepared writes": lambda folder: og.open(folder).recovery.list(),
    "cleanup": lambda folder: og.open(folder).maintenance.cleanup(dry_run=True).files,
    "storage": lambda folder: len(og.open(folder).maintenance.storage().types),
}

NEEDED_BY = {
    "graph.json": {"open", "query", "export", "log", "diff"},
    "newest entry": {"query", "export", "diff"},
    "older entry": {"query an older commit", "history", "cleanup", "storage"},
    "first entry": {"query the first commit", "cleanup", "storage"},
    "schema": {"query", "export", "diff", "entity"},
    "tag": {"query the tag", "diff"},
    "log segment": {"log"},
    "write keys": {"repeat a keyed write"},
    "ancestry": {"merge"},
    "prepared plan": set(),
    "lease": {"cleanup", "storage"},
    "manifest": {"query", "export", "diff", "entity"},
    "data file": {"query", "export"},
    "deletion file": {"query", "export", "diff", "entity"},
    "index": {"search"},
}
"""The calls that cannot do without a file."""

UNSEEN = {(kind, "deleted") for kind in ("newest entry", "tag", "prepared plan", "cutoff", "lease")}
"""Nothing else names these files: without them the graph is what it was before they were made."""

FOUND_BY_VERIFY_ONLY = {
    ("data file", "one bit flipped"),
    ("index", "one bit flipped"),
    ("watermark", "cut short"),
    ("watermark", "one bit flipped"),
    ("cutoff", "cut short"),
    ("cutoff", "one bit flipped"),
}
"""What is in large files is looked at on demand, and of a watermark or cutoff everybody reads the name only."""

FOUND_AS_OTHERS = {("watermark", "deleted")}
"""Without its watermark swept history is missing history."""


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", FILES)
def test_damage_names_the_file(kind: str, harm: str, folder: Path, answers: dict[str, object]) -> None:
    file = FILES[kind](folder)
    HARMS[harm](file)
    outcomes = {name: outcome(call, folder, file, answers[name]) for name, call in CALLS.items()}
    named = {name for name, said in outcomes.items() if said == "names it"}
    others = {name: said for name, said in outcomes.items() if said not in ("names it", "the same")}
    if (kind, harm) in UNSEEN:
        assert not named
        return
    if (kind, harm) in FOUND_BY_VERIFY_ONLY:
        assert named == {"open in full"}
        return
    if (kind, harm) in FOUND_AS_OTHERS:
        assert not named
        assert others.keys() == {"open in full", "cleanup", "storage"}
        return
    assert named >= NEEDED_BY[kind] | {"open in full"}
    assert others.keys() == ({"list prepared writes"} if kind == "prepared plan" else set())


@pytest.fixture(scope="module")
def answers(whole: Path) -> dict[str, object]:
    return {name: shown(call(whole)) for name, call in CALLS.items()}


def outcome(call: Callable[[Path], object], folder: Path, file: Path, expected: object) -> str:
    """No error but ours ever leaves."""
    try:
        answer = shown(call(folder))
    except Damaged as damage:
        return "names it" if damage.hint and folder / damage.file in (file, file.parent) else damage.message
    except GraphNotFound as error:
        return "names it" if file.name == "graph.json" else error.message
    except OmnigraphError as error:
        return error.message
    return "the same" if answer == expected else "another answer"


def shown(answer: object) -> object:
    return None if isinstance(answer, og.Graph) else answer


# ---------------------------------------------------------------- verify and repair

REPAIRS: dict[str, tuple[Repaired, ...]] = {
    "graph.json": ("cannot be opened",),
    "newest entry": ("reset",),
    "older entry": ("named",),
    "first entry": ("rebuilt",),
    "schema": ("named",),
    "tag": ("named",),
    "log segment": ("rebuilt",),
    "write keys": ("rebuilt",),
    "ancestry": ("rebuilt",),
    "prepared plan": ("named",),
    "watermark": ("rebuilt",),
    "cutoff": ("rebuilt",),
    "lease": ("named",),
    "manifest": ("reset", "dropped"),
    "data file": ("reset", "dropped"),
    "deletion file": ("reset", "dropped"),
    "index": ("built again",),
}
"""What a repair does about each kind of file."""
LOST_ROWS = {"manifest": 49, "data file": 48, "deletion file": 48}
"""Rows of Person that main loses with the file."""


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", FILES)
def test_verify_finds_damage_and_repair_does_what_can_be_done(kind: str, harm: str, folder: Path) -> None:
    file = FILES[kind](folder)
    written = file.read_bytes()
    HARMS[harm](file)
    if kind == "graph.json":
        with pytest.raises((Damaged, GraphNotFound)):
            og.open(folder)
        return
    findings = og.open(folder).maintenance.verify(all=True).findings
    assert og.open(folder).maintenance.verify(all=True, deep=True).findings == findings
    if (kind, harm) in UNSEEN:
        assert findings == ()
        return
    found = folder / findings[0].object
    assert len(findings) == (2 if (kind, harm) in FOUND_AS_OTHERS else 1)
    if (kind, harm) in FOUND_AS_OTHERS:
        assert {finding.object_kind for finding in findings} == {"entry"}
        return
    assert found in (file, file.parent)
    for repaired in REPAIRS[kind]:
        copy = folder.parent / repaired
        shutil.copytree(folder, copy)
        check_repair(copy, repaired, copy / file.relative_to(folder), written, LOST_ROWS.get(kind))


def check_repair(folder: Path, repaired: Repaired, file: Path, written: bytes, lost_rows: int | None) -> None:
    graph = og.open(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lost: Lost = "reset" if repaired == "reset" else "drop" if repaired == "dropped" else "report"
    outline = graph.maintenance.repair(lost=lost)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    report = graph.maintenance.repair(lost=lost, dry_run=False, actor="ada")
    assert [(step.kind, step.object) for step in report.steps] == [(step.kind, step.object) for step in outline.steps]
    kinds = [step.kind for step in report.steps]
    match repaired:
        case "named":
            assert kinds == []
            assert report.remaining == report.findings
        case "rebuilt":
            assert kinds == ["rebuild_object"]
            assert file.read_bytes() == written
            assert report.is_whole
        case "built again":
            assert set(kinds) == {"rebuild_indexes"}
            assert graph.maintenance.verify("main~0", deep=True).is_whole
            assert [row["name"] for row in graph.query(FOUND.replace("p.name }", "p.name as name }")).rows] == ["p7"]
        case "reset" | "dropped":
            assert kinds == ["reset_branch" if repaired == "reset" else "drop_rows"]
            newest = graph.head()
            assert (newest.kind, newest.actor, newest.id) == ("repair", "ada", report.steps[0].commit.id)  # type: ignore[union-attr]
            assert graph.maintenance.verify("main~0", deep=True).is_whole
            # The commits that are lost stay lost.
            assert newest.id not in {commit for finding in report.remaining for commit in finding.commits}
            assert {finding.object for finding in report.remaining} == {finding.object for finding in report.findings}
            rows = len(graph.query(ALL).rows)
            if repaired == "dropped":
                assert rows == PEOPLE - 1 - (lost_rows or 0)
                entities = {type.name: type.entities for type in graph.snapshot().types}
                assert entities["Knows"] == 0  # Its only edge had lost an end.
            with graph.transaction() as tx:
                tx.upsert("Person", name="Zed")
            assert len(graph.query(ALL).rows) == rows + 1
            assert graph.maintenance.repair(lost=lost, dry_run=False).steps == ()


HEAD = """# Damage to each kind of file

What the loss of a file, or of a part of it, does on local disk, and what [`omnigraph repair`](../operations.md#repair) does about it.
*error*: every command that needs the file ends in `damaged`, which names it, and `verify` finds it; *`verify`*: only verification looks
at it; *unseen*: nothing else names the file, so without it the graph is what it was before the file was written. A lost watermark shows
as lost entries below it. A lease that cannot be read remains in force until it is an hour old. Generated from the tests that do each
of these damages.

"""


def page() -> str:
    """The page of the reference: what each kind of damage does, and what repair does about it."""
    words: dict[Repaired, str] = {
        "cannot be opened": "nothing: the graph cannot be opened without it",
        "named": "names it",
        "rebuilt": "writes it again, byte for byte",
        "reset": "`--lost reset`",
        "dropped": "`--lost drop`",
        "built again": "rebuilds it at the heads of branches",
    }
    lines = [f"| file | {' | '.join(HARMS)} | `repair` |", "|---" * (len(HARMS) + 2) + "|"]
    for kind in FILES:
        seen = [
            "unseen"
            if (kind, harm) in UNSEEN
            else "`verify`"
            if (kind, harm) in FOUND_BY_VERIFY_ONLY | FOUND_AS_OTHERS
            else "error"
            for harm in HARMS
        ]
        lines.append(f"| {kind} | {' | '.join(seen)} | {' or '.join(words[one] for one in REPAIRS[kind])} |")
    return HEAD + "\n".join(lines) + "\n"


def test_the_page_says_what_is_tested_here() -> None:
    """`PYTHONPATH=tests python -c 'import test_damage; print(test_damage.page(), end="")' > docs/reference/damage.md` makes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_a_repair_of_a_branch_is_refused_when_somebody_wrote_meanwhile(folder: Path) -> None:
    of_table(folder, "data").unlink()
    graph = og.open(folder)
    job = RepairJob.of(graph._repository, LocalRunner(), deep=False, actor=None)
    head = graph._repository.head()[0].head
    with og.open(folder).transaction() as tx:
        tx.insert("Person", name="Zed")
    with pytest.raises(PreconditionFailed):
        reset_to(graph._repository, "main", job._newest_intact("main"), head, None)


def test_what_was_lost_is_forgotten_when_cleanup_removes_it(folder: Path) -> None:
    cut_short(FILES["newest entry"](folder))
    graph = og.open(folder)
    graph.maintenance.repair(lost="reset", dry_run=False)
    assert not graph.maintenance.verify(all=True).is_whole
    for file in folder.rglob("*"):
        then = file.stat().st_mtime - 2 * 3600
        os.utime(file, (then, then))
    graph.maintenance.cleanup(keep=1)
    assert graph.maintenance.verify(all=True, deep=True).findings == ()
    assert len(graph.query(ALL).rows) == PEOPLE - 1


def test_a_damaged_tag_does_not_hide_commits(folder: Path) -> None:
    cut_short(FILES["tag"](folder))
    graph = og.open(folder)
    newest = graph.head().id
    assert graph.show(newest[:24]).id == newest
    with pytest.raises(CommitNotFound):
        graph.show("01" + "Z" * 24)


def test_a_graph_whose_schema_is_lost_is_not_reset(folder: Path) -> None:
    FILES["schema"](folder).unlink()
    with pytest.raises(UsageError, match="no commit that can be read in full"):
        og.open(folder).maintenance.repair(lost="reset", dry_run=False)


def test_a_flipped_bit_in_a_deletion_file_or_manifest_is_found_before_lance_reads_it(folder: Path) -> None:
    """Lance would give other rows, or end the process over what it takes for a length."""
    for kind in ("manifest", "deletions"):
        file = of_table(folder, kind)
        whole = file.read_bytes()
        for place in range(0, len(whole), 7):
            data = bytearray(whole)
            data[place] ^= 1 << place % 8
            file.write_bytes(data)
            with pytest.raises(Damaged) as caught:
                og.open(folder).query(ALL)
            assert folder / caught.value.file == file
            assert len(caught.value.commits) == 1
        file.write_bytes(whole)
    assert len(og.open(folder).query(ALL).rows) == PEOPLE - 1


def test_a_sound_graph_passes_every_check(folder: Path) -> None:
    report = og.open(folder, verify="full").maintenance.verify(all=True, deep=True)
    assert report.findings == ()
    assert report.commits > TAIL


def test_everything_that_is_damaged_is_found_in_one_go(folder: Path) -> None:
    graph = og.open(folder)
    kinds = FILES.keys() - {"graph.json", "newest entry", "schema", "manifest"}
    files = {kind: FILES[kind](folder) for kind in kinds}
    for file in files.values():
        flip_a_bit(file)
    files["index"] = files["index"].parent
    assert {folder / finding.object for finding in graph.maintenance.verify(all=True).findings} == set(files.values())


def test_a_damaged_tag_can_be_made_again_and_a_damaged_plan_discarded(folder: Path) -> None:
    for kind in ("tag", "prepared plan"):
        cut_short(FILES[kind](folder))
    graph = og.open(folder)
    graph.tags.delete("before")
    graph.tags.create("before", "main~1")
    plan = FILES["prepared plan"](folder).stem
    graph.recovery.discard(plan)
    assert graph.recovery.list() == []
    og.open(folder, verify="full")


def test_a_damaged_plan_is_listed_as_such_and_stops_nobody(folder: Path) -> None:
    file = FILES["prepared plan"](folder)
    flip_a_bit(file)
    graph = og.open(folder)
    (prepared,) = graph.recovery.list()
    assert (prepared.commit_id, prepared.state, prepared.branch) == (file.stem, "damaged", None)
    with pytest.raises(Damaged, match=f"recovery {file.stem} --discard"):
        graph.recovery.resume(file.stem)
    assert graph.maintenance.storage().types
    graph.maintenance.cleanup(keep=1)
    assert file.exists()
    for arguments in (["status", str(folder)], ["recovery", "list", "--store", str(folder)]):
        assert run(arguments) == 0


def test_a_swept_entry_is_a_gap_in_history_and_not_damage(folder: Path) -> None:
    chain = og.open(folder, verify="full")._repository.history.chain
    assert chain.floor("old") == 2
    with pytest.raises(HistoryGap):
        chain.read("old", 0)


@pytest.mark.parametrize("place", ["branches/main/.DS_Store", "branches/main/notes.txt"])
def test_a_file_of_somebody_else_in_the_way_is_named(place: str, folder: Path) -> None:
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_text("")
    with pytest.raises(Damaged, match="no file of a graph has this name") as caught:
        og.open(folder, verify="full")
    assert caught.value.file == place
    assert caught.value.hint == "move it out of the graph's folder"


@pytest.mark.parametrize("kind", ["tags", "recovery", "schemas", "history", "staging"])
def test_a_file_of_somebody_else_elsewhere_harms_nobody(kind: str, folder: Path) -> None:
    (folder / kind).mkdir(exist_ok=True)
    (folder / kind / ".DS_Store").write_text("")
    graph = og.open(folder)
    with graph.transaction() as tx:
        tx.insert("Person", name="Zed")
    assert len(graph.recovery.list()) == 1


def test_a_graph_in_memory_has_nothing_to_verify() -> None:
    graph = og.init("memory://damage", SCHEMA)
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada")
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


@pytest.mark.s3
def test_on_an_object_store_a_missing_or_shorter_data_file_is_named(s3: S3Server) -> None:
    uri = f"s3://{s3.new_bucket()}/graph"
    graph = og.init(uri, SCHEMA, storage_options=s3.options)
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada")
    store = graph._repository.store
    og.open(uri, storage_options=s3.options, verify="full")
    (data,) = (info.key for info in store.list("nodes") if "/data/" in info.key)
    whole = store.get(data)
    for harm, what in (
        (lambda: store.put(data, whole[:-9]), "bytes instead of"),
        (lambda: store.delete(data), "missing"),
    ):
        harm()
        for ask in (
            lambda: og.open(uri, storage_options=s3.options, verify="full"),
            lambda: og.open(uri, storage_options=s3.options).query(ALL),
        ):
            with pytest.raises(Damaged, match=what) as caught:
                ask()
            assert caught.value.file == data
