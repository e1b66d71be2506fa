"""Every public method asks the policy at its head, for the right action and branch."""

from __future__ import annotations

import contextlib
import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import PolicyDenied, UsageError
from omnigraph.graph import access
from omnigraph.policy.ask import ACTIONS

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person"
QUERIES = """
query everyone() { match { $p: Person } return { $p.name as name } }
query add($name: String) { insert Person { name: $name } }
query remove($name: String) { delete Person where name = $name }
"""
TABLES = {
    og.Graph: access.GRAPH,
    og.types.GraphBranches: access.BRANCHES,
    og.types.GraphTags: access.TAGS,
    og.types.GraphRecovery: access.RECOVERY,
    og.Transaction: access.TRANSACTION,
    og.types.GraphTables: access.FRAMES,
    og.types.GraphAlgorithms: access.ALGORITHMS,
}


class Recorder:
    """A gate that lets everything pass, or nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, og.AccessRequest]] = []
        self.closed = False

    def check(self, actor: str | None, ask: og.AccessRequest, /) -> None:
        self.asked.append((actor, ask))
        if self.closed:
            raise PolicyDenied(f"no {ask.action}", action=ask.action, branch=ask.branch)


@pytest.fixture
def gate() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "g"
    graph = og.init(folder, SCHEMA)
    graph.mutate(QUERIES, {"name": "Ada"}, name="add")
    graph.branches.create("review")
    graph.mutate(QUERIES, {"name": "Bo"}, name="add", branch="review")
    graph.tags.create("v1", "review")
    return folder


@pytest.fixture
def g(original: Path, tmp_path: Path, gate: Recorder) -> og.Graph:
    return og.open(shutil.copytree(original, tmp_path / "g"), policy=gate)


def public(kind: type) -> set[str]:
    return {
        name
        for base in kind.__mro__[:-1]
        for name, member in vars(base).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_every_public_member_has_an_entry_and_every_entry_a_member(kind: type) -> None:
    assert public(kind) == set(TABLES[kind])


A = "act-ada"
READ_MAIN = [og.AccessRequest("read", branch="main")]
ADMIN = [og.AccessRequest("admin")]
NONE: frozenset[str] = frozenset()
CHANGE_MAIN = og.AccessRequest("change", branch="main", types=NONE)
PERSON = frozenset(["Person"])

MATRIX: dict[str, tuple[Callable[[og.Graph, Path], Any], list[og.AccessRequest]]] = {
    "schema.catalog": (lambda g, t: g.schema.catalog, READ_MAIN),
    "query": (lambda g, t: g.query(QUERIES, name="everyone"), READ_MAIN),
    "query of a tag": (
        lambda g, t: g.query(QUERIES, name="everyone", revision="v1"),
        [og.AccessRequest("read", branch="review")],
    ),
    "query of an inherited commit": (
        lambda g, t: g.query(QUERIES, name="everyone", revision="review~1"),
        [og.AccessRequest("read", branch="review"), *READ_MAIN],
    ),
    "query of a branch": (
        lambda g, t: g.query(QUERIES, name="everyone", revision="review"),
        [og.AccessRequest("read", branch="review")],
    ),
    "query through another schema": (
        lambda g, t: g.query(QUERIES, name="everyone", schema_of="v1"),
        [*READ_MAIN, og.AccessRequest("read", branch="review")],
    ),
    "query of a time": (
        lambda g, t: g.query(QUERIES, name="everyone", revision="review", as_of=g.show("main").at),
        [*READ_MAIN, og.AccessRequest("read", branch="review"), *READ_MAIN],
    ),
    "query of nothing": (
        lambda g, t: g.query(QUERIES, name="everyone", revision=" nowhere "),
        [og.AccessRequest("read", branch="nowhere")],
    ),
    "explain": (lambda g, t: g.explain(QUERIES, name="everyone"), READ_MAIN),
    "sql": (lambda g, t: g.sql("SELECT 1 AS n"), READ_MAIN),
    "duckdb": (lambda g, t: g.duckdb().close(), READ_MAIN),
    "picture": (lambda g, t: g.picture(), READ_MAIN),
    "entity": (lambda g, t: g.entity("Person", "Ada"), READ_MAIN),
    "blame": (lambda g, t: g.blame("Person", "Ada"), READ_MAIN),
    "history": (lambda g, t: g.history("Person", "Ada"), READ_MAIN),
    "snapshot": (lambda g, t: g.snapshot("v1"), [og.AccessRequest("read", branch="review")]),
    "indexes": (lambda g, t: g.indexes("v1"), [og.AccessRequest("read", branch="review")]),
    "lint": (lambda g, t: g.lint(QUERIES), READ_MAIN),
    "spark": (lambda g, t: g.spark("local"), READ_MAIN),
    "algorithms": (
        lambda g, t: g.algorithms(revision="v1").pagerank("Knows"),
        [og.AccessRequest("read", branch="review")],
    ),
    "head": (lambda g, t: g.head(), READ_MAIN),
    "show": (lambda g, t: g.show(), READ_MAIN),
    "commits": (lambda g, t: g.commits(actor="bo"), READ_MAIN),
    "commit_changes": (lambda g, t: g.commit_changes("main"), [*READ_MAIN, *READ_MAIN]),
    "diff": (lambda g, t: list(g.diff("main", "review")), [*READ_MAIN, og.AccessRequest("read", branch="review")]),
    "diff_stat": (lambda g, t: g.diff_stat("main", "review"), [*READ_MAIN, og.AccessRequest("read", branch="review")]),
    "distance": (lambda g, t: g.distance("review"), [og.AccessRequest("read", branch="review"), *READ_MAIN]),
    "schema.diff": (
        lambda g, t: g.schema.diff("main", "review"),
        [*READ_MAIN, og.AccessRequest("read", branch="review")],
    ),
    "changes": (lambda g, t: g.changes(), READ_MAIN),
    "wait_for_change": (lambda g, t: g.wait_for_change(timeout=0), READ_MAIN),
    "schema.plan": (lambda g, t: g.schema.plan(SCHEMA), READ_MAIN),
    "explain_load": (lambda g, t: g.explain_load(people(t)), READ_MAIN),
    "schema.broken_queries": (lambda g, t: g.schema.broken_queries(SCHEMA, t), [*READ_MAIN, *READ_MAIN]),
    "maintenance.storage": (lambda g, t: g.maintenance.storage(), READ_MAIN),
    "export": (
        lambda g, t: g.export(t / "out.jsonl", types=["Person"]),
        [og.AccessRequest("export", branch="main", types=PERSON)],
    ),
    "baseline": (lambda g, t: g.baseline(t / "base.jsonl"), [og.AccessRequest("export", branch="main")]),
    "export_stream": (
        lambda g, t: list(g.export_stream(types=["Person"])),
        [og.AccessRequest("export", branch="main", types=PERSON)],
    ),
    "baseline_stream": (lambda g, t: list(g.baseline_stream()), [og.AccessRequest("export", branch="main")]),
    "blob": (lambda g, t: g.blob("Person", "Ada", "name"), READ_MAIN),
    "mutate": (
        lambda g, t: g.mutate(QUERIES, {"name": "Cy"}, name="add"),
        [*[CHANGE_MAIN] * 3, og.AccessRequest("change", branch="main", types=PERSON), CHANGE_MAIN],
    ),
    "mutation that takes edges along": (
        lambda g, t: g.mutate(QUERIES, {"name": "Ada"}, name="remove"),
        [
            *[CHANGE_MAIN] * 3,
            og.AccessRequest("change", branch="main", types=frozenset(["Person", "Knows"])),
            CHANGE_MAIN,
        ],
    ),
    "transaction": (lambda g, t: g.transaction(), [CHANGE_MAIN]),
    "stream_into": (lambda g, t: g.stream_into("Person", mode="append"), [CHANGE_MAIN]),
    "load": (
        lambda g, t: g.load(people(t), mode="merge", engine="local"),
        [og.AccessRequest("change", branch="main", types=types, mode="merge") for types in (NONE, PERSON)],
    ),
    "load that makes a branch": (
        lambda g, t: g.load(people(t), mode="merge", branch="inbox", from_="v1", engine="local"),
        [
            og.AccessRequest("change", branch="inbox", types=NONE, mode="merge"),
            og.AccessRequest("branch_create", branch="review", target_branch="inbox"),
            og.AccessRequest("change", branch="inbox", types=PERSON, mode="merge"),
        ],
    ),
    "load into a branch that is there": (
        lambda g, t: g.load(people(t), mode="merge", branch="review", from_="main", engine="local"),
        [og.AccessRequest("change", branch="review", types=types, mode="merge") for types in (NONE, PERSON)],
    ),
    "revert": (
        lambda g, t: g.revert("v1"),
        [og.AccessRequest("branch_merge", branch="review", target_branch="main")],
    ),
    "reset": (lambda g, t: g.reset("main", "v1"), [*ADMIN, og.AccessRequest("read", branch="review")]),
    "schema.apply": (
        lambda g, t: g.schema.apply(SCHEMA),
        [og.AccessRequest("schema_apply", target_branch="main", allow_data_loss=False)],
    ),
    "embed": (lambda g, t: g.embed(), [og.AccessRequest("change", branch="main", types=NONE)]),
    "maintenance.ensure_indexes": (lambda g, t: g.maintenance.ensure_indexes(), ADMIN),
    "maintenance.optimize": (lambda g, t: g.maintenance.optimize(dry_run=True), ADMIN),
    "maintenance.verify": (lambda g, t: g.maintenance.verify(), ADMIN),
    "maintenance.repair": (lambda g, t: g.maintenance.repair(), ADMIN),
    "maintenance.cleanup": (lambda g, t: g.maintenance.cleanup(dry_run=True), ADMIN),
    "push": (lambda g, t: g.push(t / "other"), ADMIN),
    "pull": (lambda g, t: g.pull(t / "other"), ADMIN),
    "branches.create": (
        lambda g, t: g.branches.create(" side ", "v1"),
        [og.AccessRequest("branch_create", branch="review", target_branch="side")],
    ),
    "branches.delete": (
        lambda g, t: g.branches.delete("review"),
        [og.AccessRequest("branch_delete", target_branch="review")],
    ),
    "branches.list": (lambda g, t: g.branches.list(), READ_MAIN),
    "branches.distances": (lambda g, t: g.branches.distances(), READ_MAIN),
    "branches.exists": (lambda g, t: g.branches.exists("review"), [og.AccessRequest("read", branch="review")]),
    "branches.merge": (
        lambda g, t: g.branches.merge("review", delete_branch=True),
        [
            og.AccessRequest("branch_merge", branch="review", target_branch="main"),
            og.AccessRequest("branch_delete", target_branch="review"),
        ],
    ),
    "tags.create": (lambda g, t: g.tags.create("v2", "v1"), [og.AccessRequest("tag_create", target_branch="review")]),
    "tags.delete": (lambda g, t: g.tags.delete("v1"), [og.AccessRequest("tag_delete", target_branch="review")]),
    "tags.list": (lambda g, t: g.tags.list(), READ_MAIN),
    "recovery.list": (lambda g, t: g.recovery.list(), ADMIN),
    "recovery.resume": (lambda g, t: g.recovery.resume("X"), ADMIN),
    "recovery.discard": (lambda g, t: g.recovery.discard("X"), ADMIN),
    "spark().diff": (
        lambda g, t: og.types.GraphTables(g._repository.head()[1], None, g._caller).diff("v1", "nowhere"),  # type: ignore[arg-type]
        [og.AccessRequest("read", branch="review"), og.AccessRequest("read", branch="nowhere")],
    ),
}


def people(folder: Path) -> Path:
    file = folder / "people.jsonl"
    file.write_text('{"type": "Person", "data": {"name": "Dee"}}\n')
    return file


def test_the_matrix_has_every_method_that_asks() -> None:
    asking = {
        f"{prefix}{name}"
        for prefix, table in (
            ("", access.GRAPH),
            ("schema.", access.SCHEMA),
            ("maintenance.", access.MAINTENANCE),
            ("branches.", access.BRANCHES),
            ("tags.", access.TAGS),
            ("recovery.", access.RECOVERY),
            ("spark().", access.FRAMES),
        )
        for name, asks in table.items()
        if asks is not access.no_permission
    }
    assert asking <= set(MATRIX)
    assert {ask.action for _, asks in MATRIX.values() for ask in asks} == {
        action for action, scope in ACTIONS.items() if scope != "server"
    } - {"invoke_query"}


@pytest.mark.parametrize("case", MATRIX)
def test_a_method_asks_for_its_action_and_branch(case: str, g: og.Graph, gate: Recorder, tmp_path: Path) -> None:
    call, expected = MATRIX[case]
    with contextlib.suppress(og.errors.OmnigraphError):  # some lead nowhere: this is about what is asked first
        call(g.as_(A), tmp_path)
    assert gate.asked == [(A, ask) for ask in expected]


@pytest.mark.parametrize("case", MATRIX)
def test_a_method_that_is_denied_does_nothing(case: str, g: og.Graph, gate: Recorder, tmp_path: Path) -> None:
    gate.closed = True
    heads = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    with pytest.raises(PolicyDenied):
        MATRIX[case][0](g.as_(A), tmp_path)
    people(tmp_path).unlink()
    assert {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*")) if path.is_file()} == heads


@pytest.mark.parametrize("case", MATRIX)
def test_nobody_is_denied(case: str, g: og.Graph, gate: Recorder, tmp_path: Path) -> None:
    with pytest.raises(PolicyDenied, match="a caller without a name"):
        MATRIX[case][0](g, tmp_path)
    assert gate.asked == []


def test_statements_of_a_transaction_ask_for_their_types(g: og.Graph, gate: Recorder) -> None:
    tx = g.as_(A).transaction("review")
    gate.asked.clear()
    tx.insert("Person", name="Cy")
    tx.upsert("Person", name="Cy", age=3)
    tx.insert_many("Knows", [{"from": "Cy", "to": "Bo"}])
    tx.update("Person", "Cy", age=4)
    tx.delete("Person", "Cy")
    change = [
        ask.types for who, ask in gate.asked if (who, ask.action, ask.branch) == (A, "change", "review") and ask.types
    ]
    assert change == [PERSON, PERSON, frozenset(["Knows"]), PERSON, frozenset(["Person", "Knows"])]
    gate.asked.clear()
    tx.get("Person", "Bo")
    tx.query(QUERIES, name="everyone")
    assert gate.asked == [(A, og.AccessRequest("read", branch="review"))] * 2
    gate.closed = True
    for statement in (
        lambda: tx.insert("Person", name="Dee"),
        lambda: tx.get("Person", "Bo"),
        tx.commit,
    ):
        with pytest.raises(PolicyDenied):
            statement()
    tx.rollback()


def test_a_write_may_name_its_actor_and_is_asked_for_it(g: og.Graph, gate: Recorder) -> None:
    receipt = g.mutate(QUERIES, {"name": "Cy"}, name="add", actor="act-bo")
    assert {who for who, _ in gate.asked} == {"act-bo"}
    assert receipt.commit is not None
    assert receipt.commit.actor == "act-bo"


def test_a_bound_graph_writes_in_its_own_name_only(g: og.Graph) -> None:
    bound = g.as_(A)
    receipt = bound.mutate(QUERIES, {"name": "Cy"}, name="add")
    assert receipt.commit is not None
    assert receipt.commit.actor == A
    with pytest.raises(UsageError, match="is used as 'act-ada', not as 'act-bo'"):
        bound.mutate(QUERIES, {"name": "Dee"}, name="add", actor="act-bo")
    with pytest.raises(UsageError, match="already"):
        bound.as_("act-bo")
    with pytest.raises(UsageError):
        g.as_("")


def test_a_graph_that_is_open_for_reading_only_changes_nothing(original: Path, tmp_path: Path) -> None:
    g = og.open(shutil.copytree(original, tmp_path / "g"), read_only=True)
    head, branches = g.head(), [branch.name for branch in g.branches.list()]
    changes: list[Callable[[], object]] = [
        lambda: g.mutate(QUERIES, {"name": "Dee"}, name="add"),
        lambda: g.as_(A).mutate(QUERIES, {"name": "Dee"}, name="add"),
        lambda: g.transaction(),
        lambda: g.load(tmp_path / "none.jsonl", mode="merge"),
        lambda: g.schema.apply("node Person { name: String @key }"),
        lambda: g.branches.create("more"),
        lambda: g.branches.merge("review"),
        lambda: g.branches.delete("review"),
        lambda: g.tags.create("v1"),
        lambda: g.revert(head.id),
        lambda: g.reset("main", to=head.id),
        lambda: g.maintenance.optimize(),
        lambda: g.maintenance.cleanup(),
        lambda: g.maintenance.repair(dry_run=False),
        lambda: g.recovery.resume(head.id),
    ]
    for change in changes:
        with pytest.raises(UsageError, match="reading only"):
            change()
    assert (g.head(), [branch.name for branch in g.branches.list()]) == (head, branches)
    assert g.maintenance.optimize(dry_run=True).commit is None
    assert g.maintenance.verify(all=True).is_whole
    assert g.recovery.list() == []
    assert g.as_(A).entity("Person", "Ada") is not None


def test_without_a_policy_a_name_is_a_name(original: Path, tmp_path: Path) -> None:
    plain = og.open(shutil.copytree(original, tmp_path / "g"))
    merged = plain.as_(A).branches.merge("review")
    assert merged.commit is not None
    assert merged.commit.actor == A
    assert plain.entity("Person", "Bo") is not None


def test_a_merge_stands_when_the_policy_keeps_its_source(g: og.Graph, gate: Recorder, monkeypatch: Any) -> None:
    def check(actor: str | None, ask: og.AccessRequest, /) -> None:
        if ask.action == "branch_delete":
            raise PolicyDenied("policy denied action 'branch_delete'", action=ask.action)

    monkeypatch.setattr(gate, "check", check)
    merged = g.as_(A).branches.merge("review", delete_branch=True)
    assert (merged.outcome, merged.branch_deleted) == ("fast_forward", False)
    assert merged.branch_delete_error == "policy denied action 'branch_delete'"
    assert g.as_(A).branches.exists("review")


def test_a_read_that_was_allowed_is_of_the_commit_it_was_allowed_for(g: og.Graph, gate: Recorder) -> None:
    bound = g.as_(A)

    def check(actor: str | None, ask: og.AccessRequest, /) -> None:
        # Between the answer and the read, the tag comes to name another branch's commit.
        other = og.open(g.uri)
        other.tags.delete("v1")
        other.tags.create("v1", "main")

    gate.check = check  # type: ignore[method-assign]
    assert {row["name"] for row in bound.query(QUERIES, name="everyone", revision="v1").rows} == {"Ada", "Bo"}


def test_what_is_no_gate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a gate, got str"):
        og.init(tmp_path / "g", SCHEMA, policy="policy.yaml")  # type: ignore[arg-type]
    assert not (tmp_path / "g").exists()


def test_a_write_to_a_type_that_is_not_allowed_is_refused_as_a_whole(original: Path, tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(
        """
version: 1
rules:
  - {id: people, allow: {actors: {actor: act-ada}, actions: [change], types: [Person]}}
  - {id: reads, allow: {actors: {actor: act-ada}, actions: [read]}}
"""
    )
    g = og.open(shutil.copytree(original, tmp_path / "g"), policy=og.load_policy(policy)).as_(A)
    head = g.head()
    both = people(tmp_path)
    both.write_text(both.read_text() + '{"edge": "Knows", "from": "Dee", "to": "Ada"}\n')
    with pytest.raises(PolicyDenied, match="'change' on branch 'main'"):
        g.load(both, mode="merge", engine="local")
    with pytest.raises(PolicyDenied):
        g.mutate(QUERIES, {"name": "Ada"}, name="remove")  # her edges would go with her
    assert g.head() == head
    assert og.open(g.uri).recovery.list() == []
    assert g.load(people(tmp_path), mode="merge", engine="local").total.inserted == 1
