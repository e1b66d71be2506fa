"""What transcripts cannot show: prepared loads, the demo, the shape of the commit graph, consent on a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli.transcript import RunCli

from omnigraph.cli.commit_graph import draw_commits
from omnigraph.history.values import Commit, CommitRef
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, raising

LOAD = ["load", "--data", "more.jsonl", "--mode", "append", "--engine", "local", "--quiet"]


def prepared(run_cli: RunCli) -> str:
    """A load that died right before its publish; the id of its commit."""
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(FailpointReached("died")))
    with pytest.raises(FailpointReached):
        run_cli(LOAD)
    (plan,) = json.loads(run_cli(["recovery", "--json"]).out)["prepared"]
    assert (plan["branch"], plan["kind"], plan["total_entities"]) == ("main", "load", 2)
    return str(plan["graph_commit_id"])


@pytest.mark.usefixtures("stores_every_commit")
def test_a_prepared_load_is_listed_and_resumed(run_cli: RunCli) -> None:
    commit = prepared(run_cli)
    assert commit in run_cli(["recovery"]).out
    assert run_cli(["recovery", commit, "--resume"]).out == f"published {commit} on main\n"
    assert json.loads(run_cli(["show", commit, "--json"]).out)["kind"] == "load"
    assert run_cli(["recovery"]).out == "(none)\n"


@pytest.mark.usefixtures("stores_every_commit")
def test_a_prepared_load_is_discarded(run_cli: RunCli) -> None:
    commit = prepared(run_cli)
    assert json.loads(run_cli(["recovery", commit, "--discard", "--json"]).out) == {"discarded": commit}
    assert run_cli(["recovery"]).out == "(none)\n"
    assert run_cli(["show", commit]).code == 1


def test_export_and_load_give_the_same_graph(run_cli: RunCli) -> None:
    exported = run_cli(["export"]).out
    run_cli(["init", "--schema", "people.pg", "copy", "--quiet"])
    Path("copy.jsonl").write_text(exported, encoding="utf-8")
    assert run_cli(["load", "copy", "--data", "copy.jsonl", "--mode", "append", "--engine", "local"]).code == 0
    assert run_cli(["export", "copy"]).out == exported


def test_optimize(run_cli: RunCli) -> None:
    found = json.loads(run_cli(["optimize", "--json", "--as", "ada"]).out)
    assert set(found) - {"commit"} == {"uri", "branch", "dry_run", "tables"}
    assert run_cli(["optimize", "--quiet"]).out == ""
    assert run_cli(["optimize"]).out == "nothing to do\n"


def test_optimize_says_what_it_would_do_and_does_nothing(run_cli: RunCli) -> None:
    head = run_cli(["log", "--limit", "1"]).out
    found = json.loads(run_cli(["optimize", "--dry-run", "--json"]).out)
    assert found["dry_run"]
    assert "commit" not in found
    assert any(table["actions"] for table in found["tables"])
    assert {"rows", "fragments", "deleted_rows", "bytes", "indexes", "pending"} == set(found["tables"][0]["before"])
    assert "would be done" in run_cli(["optimize", "--dry-run"]).out
    assert run_cli(["log", "--limit", "1"]).out == head


def test_a_clone_is_pushed_to_and_pulled_from(run_cli: RunCli) -> None:
    members = {"source", "target", "commits", "tags", "objects", "bytes", "present"}
    assert set(json.loads(run_cli(["clone", "people", "copy", "--json"]).out)) == members
    assert run_cli(["clone", "people", "copy"]).code == 1
    run_cli(["branch", "create", "mine", "--store", "copy"])
    assert run_cli(["push", "people", "mine", "--store", "copy"]).out.startswith("pushed 0 commits")
    assert "mine" in run_cli(["branch", "list"]).out
    assert json.loads(run_cli(["pull", "people", "--store", "copy", "--json"]).out)["commits"] == {"main": 0}
    run_cli(["optimize", "--store", "copy"])
    run_cli(["branch", "create", "theirs", "--store", "copy"])
    refused = run_cli(["push", "people", "theirs", "--store", "copy"])
    assert (refused.code, "builds on commit" in refused.err, "hint: bring 'main' there first" in refused.err) == (
        1,
        True,
        True,
    )


def test_explain(run_cli: RunCli) -> None:
    arguments = ["query", "near", "--query", "people.gq", "--params-file", "params.json", "--explain"]
    assert "$a" in run_cli(arguments).out
    assert json.loads(run_cli([*arguments, "--json"]).out)


@pytest.mark.parametrize("answer", [True, False])
def test_consent_on_a_terminal(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda *_args, **_kwargs: answer)
    ran = run_cli(["branch", "delete", "review", "--store", "memory://"])
    said = "there is no graph at memory://" if answer else "not confirmed; nothing was done"
    assert f"error: {said}" in ran.err


def test_small_demo(run_cli: RunCli, folder: Path) -> None:
    ran = run_cli(["demo", "--small", "--keep", "demo", "--json"])
    value = json.loads(ran.out)
    assert (value["nodes"], value["edges"]) == (2_000, 10_000)
    assert len(value["steps"]) == 12
    found = run_cli(
        ["query", "profile", "--store", "demo/graph", "--query", "demo/social.gq", "--params", '{"who": "newcomer"}']
    )
    assert "Nia Newcomer" in found.out


def test_demo_tells_its_story(run_cli: RunCli) -> None:
    told = run_cli(["demo", "--small"]).out
    assert "$ omnigraph branch merge review\n   merged\n" in told
    assert "   loaded: nobody\n   main: Nia Newcomer\n" in told
    assert "|\\" in told
    assert "Done in" in told


def commit(name: str, at: int, *parents: str) -> Commit:
    def ref(id: str) -> CommitRef:
        return CommitRef(id, "main", "line", 0, 0)

    return Commit(ref(name), tuple(map(ref, parents)), "mutation", at)


def drawing(*commits: Commit) -> list[str]:
    """The lines and the first letter of each commit."""
    return [row.split(" 1970")[0].split(" (")[0] for row in draw_commits(commits, {}).splitlines()]


def test_two_branches_that_left_the_same_commit() -> None:
    a, b, c = commit("A", 1), commit("B", 2, "A"), commit("C", 3, "A")
    assert drawing(c, a, b) == ["* C", "| * B", "|/", "* A"]


def test_three_lanes_and_a_merge_across_one() -> None:
    a = commit("A", 1)
    b, c, d = commit("B", 2, "A"), commit("C", 3, "A"), commit("D", 4, "A")
    e = commit("E", 5, "D", "B")
    assert drawing(e, d, a, c, b) == ["* E", "|\\", "* | D", "| | * C", "| * | B", "|/  |", "|--/", "* A"]


def test_what_a_commit_changed_stands_under_it() -> None:
    a, b, c = commit("A", 1), commit("B", 2, "A"), commit("C", 3, "A")
    drawn = draw_commits([a, b, c], {"C": ["main", "tag: v1"]}, lambda each: [f"{each.id} +1"]).splitlines()
    assert drawn[0].startswith("* C (main, tag: v1) 1970")
    assert drawn[1] == "|     C +1"
    assert drawn[3] == "| |     B +1"


def test_exit_codes_and_receipts_tell_a_scheduler_what_happened(run_cli: RunCli) -> None:
    load = ["load", "--data", "more.jsonl", "--mode", "append", "--engine", "local", "--json"]
    first, again = (run_cli([*load, "--once", "day-1"]) for _ in range(2))
    assert (first.code, again.code) == (0, 0)
    made, found = json.loads(first.out), json.loads(again.out)
    assert found["commit"] == made["commit"]
    assert ("repeated" in made, found["repeated"]) == (False, True)
    reused = run_cli(["load", "--data", "people.jsonl", *load[3:], "--once", "day-1"])
    without_key = run_cli(load)
    for ran, code, name in (
        (reused, 1, "write_key_reused"),
        (without_key, 1, "key_conflict"),
        (run_cli([*load, "--once", ""]), 2, "usage_error"),
        (run_cli(["mutate", "-e", ADD, "--if-commit", "nope", "--json"]), 4, "precondition_failed"),
    ):
        error = json.loads(ran.out or ran.err)["error"]
        assert (ran.code, error["code"], error["retry"]) == (code, name, False), ran
    assert (
        json.loads(run_cli(["log", "--json"]).out)["commits"][0]["graph_commit_id"]
        == (made["commit"]["graph_commit_id"])
    )


ADD = 'query add() { insert Person { name: "Zoe" } }'


def test_conflicts_are_decided_at_the_terminal(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cli(["branch", "create", "review"])
    for branch, age in (("main", "40"), ("review", "41")):
        for who in ("Ada", "Bo"):
            change = ["mutate", "set_age", "--query", "people.gq", "--param", f"who={who}", "--param", f"age={age}"]
            run_cli([*change, "--branch", branch])
    answers = iter(["t", "p", "v", "42"])
    asked: list[str] = []
    monkeypatch.setattr("click.prompt", lambda question, **_: asked.append(question) or next(answers))
    ran = run_cli(["branch", "merge", "review", "--interactive", "--quiet"])
    assert (ran.code, ran.err) == (0, "")
    assert [line.split() for line in ran.out.splitlines() if "divergent_update" in line] == [
        ["divergent_update", "Person", "Ada", "age", "36", "40", "41"],
        ["divergent_update", "Person", "Bo", "age", "27", "40", "41"],
    ]
    assert asked[3] == "age (JSON)"
    assert next(answers, None) is None
    rows = run_cli(["query", "everyone", "--query", "people.gq", "--format", "csv"]).out.splitlines()
    assert rows[1:3] == ["Ada,41", "Bo,42"]
    message = json.loads(run_cli(["show", "--json"]).out)["message"]
    assert message == "merge review\n\nresolved: Person 'Ada' (theirs), Person 'Bo' (value)"


def test_debug_lists_the_requests_to_the_store(run_cli: RunCli) -> None:
    written = run_cli(["mutate", "-e", 'insert Person { name: "Dee" }', "--debug", "--json"])
    assert written.code == 0
    store = json.loads(written.out)["store"]
    *requests, total = [line for line in written.err.splitlines() if line.startswith("store: ")]
    assert len(requests) == store["requests"]
    assert requests[-1].split()[5] == "create"
    assert total.startswith(f"store: {store['requests']} requests in {store['hops']} hops")
    assert "store: " not in run_cli(["mutate", "-e", 'insert Person { name: "Eve" }']).err
