"""Plan, apply, approve, refresh and import; two that apply at once; and an apply that dies at every step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

import omnigraph as og
from omnigraph._internal.failpoints import Failpoint
from omnigraph.cluster import applying
from omnigraph.cluster.applying import apply, approve, import_state, refresh
from omnigraph.cluster.config import ClusterConfig, read_config
from omnigraph.cluster.ledger import LedgerStore
from omnigraph.cluster.policies import read_applied
from omnigraph.errors import ClusterConflict, ConfigurationError, GraphNotFound
from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.testing import failpoints
from omnigraph.testing.stores import Operation, WrappedStore

T = TypeVar("T")

SCHEMA = "node Person { name: String @key }\n"
MORE = "node Person { name: String @key age: I32? }\n"
QUERY = "query everyone() { match { $p: Person } return { $p.name as name } }\n"
POLICY = "version: 1\ngroups: {devs: [ada]}\nrules: [{id: r, allow: {actors: {group: devs}, actions: [read]}}]\n"


def write(folder: Path, graphs: dict[str, str], *, extra: str = "") -> ClusterConfig:
    (folder / "queries").mkdir(parents=True, exist_ok=True)
    (folder / "queries" / "q.gq").write_text(QUERY)
    (folder / "p.yaml").write_text(POLICY)
    lines = ["version: 1", "metadata: {name: demo}", "storage: store", "graphs:"]
    for name, schema in graphs.items():
        (folder / f"{name}.pg").write_text(schema)
        lines.append(f"  {name}: {{schema: {name}.pg, queries: queries}}")
    if graphs:
        lines.append(f"policies: {{data: {{file: p.yaml, applies_to: [{', '.join(graphs)}]}}}}")
    (folder / "cluster.yaml").write_text("\n".join(lines) + "\n" + extra)
    return read_config(folder)


def said(plan: Any) -> dict[str, tuple[str, str]]:
    return {each.address: (each.operation, each.disposition) for each in plan.operations}


def test_an_apply_makes_graphs_and_catalogue_and_is_done(tmp_path: Path) -> None:
    config = write(tmp_path, {"people": SCHEMA})
    assert said(applying.plan(config)) == {
        "graph.people": ("create", "applied"),
        "schema.people": ("create", "derived"),
        "query.people.everyone": ("create", "applied"),
        "policy.data": ("create", "applied"),
    }
    done = apply(config, actor="ada")
    assert done.converged
    assert og.open(config.graphs["people"].uri).head().actor == "ada"
    applied = read_applied(config.root)
    assert applied.graphs["people"].queries == {"queries/q.gq": QUERY}
    assert applied.graphs["people"].policy == {"p.yaml": POLICY}
    assert (applied.revision, applied.digest) == (1, config.digest)
    assert applying.plan(config).converged
    again = apply(config)
    assert (again.operations, again.ledger.revision, again.converged) == ((), 1, True)


def test_a_schema_is_migrated_without_loss(tmp_path: Path) -> None:
    config = write(tmp_path, {"people": SCHEMA})
    apply(config)
    g = og.open(config.graphs["people"].uri)
    g.mutate('query add() { insert Person { name: "Ada" } }')
    config = write(tmp_path, {"people": MORE})
    (schema,) = [each for each in applying.plan(config).operations if each.address == "schema.people"]
    assert (schema.operation, schema.migration) == ("update", ("add property 'Person.age' (I32?) to node 'Person'",))
    assert apply(config).converged
    assert g.entity("Person", "Ada") == {"id": "Ada", "name": "Ada", "age": None}


def test_a_schema_that_cannot_be_migrated_is_blocked_and_the_rest_is_applied(tmp_path: Path) -> None:
    apply(write(tmp_path, {"people": MORE, "cities": SCHEMA}))
    config = write(tmp_path, {"people": MORE.replace("I32?", "Bool?"), "cities": MORE})
    done = apply(config)
    assert said(done)["schema.people"] == ("update", "blocked")
    assert said(done)["schema.cities"] == ("update", "applied")
    assert not done.converged
    assert done.ledger.statuses["schema.people"]["status"] == "blocked"
    assert "age" in og.open(config.graphs["cities"].uri).schema.catalog.nodes["Person"].properties


def test_a_graph_that_is_there_is_taken_over(tmp_path: Path) -> None:
    config = write(tmp_path, {"people": MORE})
    before = og.init(config.graphs["people"].uri, SCHEMA)
    assert apply(config).converged
    assert og.open(config.graphs["people"].uri).id == before.id


def test_a_graph_elsewhere_must_be_there_and_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "far.pg").write_text(SCHEMA)
    folder = tmp_path / "cluster"
    extra = "  far: {schema: far.pg, uri: ../far}\n"
    write(folder, {})
    (folder / "far.pg").write_text(SCHEMA)
    (folder / "cluster.yaml").write_text((folder / "cluster.yaml").read_text() + extra)
    config = read_config(folder)
    assert said(apply(config))["graph.far"] == ("create", "blocked")
    og.init(tmp_path / "far", SCHEMA)
    assert apply(config).converged
    assert apply(write(folder, {})).converged
    og.open(tmp_path / "far")


def test_a_graph_is_removed_only_with_an_approval_of_exactly_this(tmp_path: Path) -> None:
    config = write(tmp_path, {"people": SCHEMA, "cities": SCHEMA})
    apply(config)
    with pytest.raises(ClusterConflict, match="needs an approval"):
        approve(config, "graph.people", "ada")
    fewer = write(tmp_path, {"cities": SCHEMA})
    refused = apply(fewer)
    assert said(refused)["graph.people"] == ("delete", "blocked")
    kept = read_applied(config.root).graphs["people"]  # until it goes, what limits it stays
    assert (kept.policy, kept.queries) == ({"p.yaml": POLICY}, {"queries/q.gq": QUERY})
    og.open(config.graphs["people"].uri)
    approve(fewer, "graph.people", "ada")
    changed = write(tmp_path, {"cities": MORE})
    stale = [each for each in applying.plan(changed).operations if each.address == "graph.people"]
    assert (stale[0].disposition, str(stale[0].reason)[:14]) == ("blocked", "approval_stale")
    approve(changed, "graph.people", "ada")
    done = apply(changed)
    assert done.converged
    assert done.ledger.approvals == ()
    with pytest.raises(GraphNotFound):
        og.open(config.graphs["people"].uri)
    og.open(config.graphs["cities"].uri)


def test_refresh_notes_what_is_not_as_it_was_applied(tmp_path: Path) -> None:
    config = write(tmp_path, {"people": SCHEMA, "cities": SCHEMA})
    with pytest.raises(ClusterConflict, match="nothing was applied yet"):
        refresh(config)
    apply(config)
    assert {each["status"] for each in refresh(config).statuses.values()} == {"applied"}
    og.open(config.graphs["people"].uri).schema.apply(MORE)
    digest = config.resources["query.cities.everyone"]["digest"].removeprefix("sha256:")
    payload = Path(config.root) / "__cluster" / "catalogue" / digest
    payload.write_text("something else")
    statuses = refresh(config).statuses
    assert statuses["schema.people"]["status"] == "drifted"
    assert statuses["query.cities.everyone"]["message"].startswith("catalog_payload_digest_mismatch")
    assert statuses["graph.people"] == {"status": "applied"}
    with pytest.raises(ConfigurationError, match="the catalogue has another text for"):
        read_applied(config.root)
    apply(write(tmp_path, {"people": MORE, "cities": SCHEMA}))
    assert payload.read_text() == QUERY


def test_import_makes_the_first_ledger_from_graphs_that_are_there(tmp_path: Path) -> None:
    config = write(tmp_path, {"people": SCHEMA, "cities": SCHEMA})
    og.init(config.graphs["people"].uri, SCHEMA)
    assert set(import_state(config).resources) == {"graph.people", "schema.people"}
    with pytest.raises(ClusterConflict, match="has a ledger already"):
        import_state(config)
    assert said(applying.plan(config))["graph.cities"] == ("create", "applied")
    assert apply(config).converged


def test_a_lock_keeps_others_out_until_it_is_taken_by_its_exact_id(tmp_path: Path) -> None:
    config = write(tmp_path, {"people": SCHEMA})
    books = LedgerStore(open_store(config.root))
    books.lock("01A", "apply", "ada", applying.utc_now())
    with pytest.raises(ClusterConflict) as held:
        apply(config)
    assert held.value.details() == {"reason": "state_lock_held"}
    assert "force-unlock 01A" in str(held.value.hint)
    with pytest.raises(ClusterConflict, match="'01A', not '01B'"):
        books.unlock("01B")
    books.unlock("01A")
    with pytest.raises(ClusterConflict, match="not locked"):
        books.unlock("01A")
    assert apply(config).converged
    assert books.holder() is None


class Overtaken(WrappedStore):
    """Before our ledger gets there, somebody else's does."""

    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        if operation == "create" and "/ledger/" in key:
            self.inner.create(key, data.replace(b'"demo"', b'"other"'))
        return call()


def test_of_two_that_apply_at_once_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"people": SCHEMA})
    (tmp_path / "cluster.yaml").write_text((tmp_path / "cluster.yaml").read_text() + "state: {lock: false}\n")
    config = read_config(tmp_path)
    with pytest.raises(ClusterConflict) as lost:
        apply(config, books=LedgerStore(Overtaken(open_store(config.root))))
    assert lost.value.details() == {"reason": "state_cas_mismatch"}
    assert applying.plan(config).ledger.name == "other"
    assert apply(config).converged


class Died(BaseException):
    pass


class Dying(WrappedStore):
    """A process that ends before, or right after, its nth change; nothing that it does afterwards reaches the store."""

    def __init__(self, inner: Store, nth: int, *, before: bool) -> None:
        super().__init__(inner)
        self.left, self.before = nth, before

    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        if self.left <= 0:
            raise Died
        if operation not in ("create", "put", "delete"):
            return call()
        self.left -= 1
        if self.left == 0 and self.before:
            raise Died
        result = call()
        if self.left == 0:
            raise Died
        return result


def unlock(config: ClusterConfig) -> None:
    books = LedgerStore(open_store(config.root))
    held = books.holder()
    if held is not None:
        books.unlock(held["id"])


@pytest.mark.parametrize("before", [True, False])
def test_an_apply_that_died_anywhere_is_finished_by_the_next(tmp_path: Path, before: bool) -> None:
    for nth in range(1, 30):
        folder = tmp_path / f"{nth}"
        apply(write(folder, {"people": SCHEMA, "cities": SCHEMA}))
        fewer = write(folder, {"people": MORE, "new": SCHEMA})
        approve(fewer, "graph.cities", "ada")
        root = Path(fewer.root) / "graphs"
        books = LedgerStore(Dying(open_store(fewer.root), nth, before=before))
        try:
            apply(fewer, books=books)
        except Died:
            unlock(fewer)
            if applying.plan(fewer).ledger.recoveries:  # it died in the middle of removing the files
                for file in [each for each in (root / "cities.omni").rglob("*") if each.is_file()][:1]:
                    file.unlink()
            assert apply(fewer).converged
        else:
            break
        applied = read_applied(fewer.root)
        assert set(applied.graphs) == {"people", "new"}
        assert "age" in og.open(applied.graphs["people"].uri).schema.catalog.nodes["Person"].properties
        with pytest.raises(GraphNotFound):
            og.open(root / "cities.omni")
    else:
        pytest.fail("the apply never came to its end")
    assert nth > 5


def test_a_graph_that_comes_back_before_its_removal_was_finished_is_a_new_one(tmp_path: Path) -> None:
    both = write(tmp_path, {"people": SCHEMA, "cities": SCHEMA})
    apply(both)
    before = og.open(both.graphs["cities"].uri).id
    fewer = write(tmp_path, {"people": SCHEMA})
    approve(fewer, "graph.cities", "ada")
    changes = len(fewer.payloads) + 2  # the lock, the texts, the ledger
    with pytest.raises(Died):
        apply(fewer, books=LedgerStore(Dying(open_store(fewer.root), changes, before=False)))
    unlock(fewer)
    assert applying.plan(fewer).ledger.recoveries
    both = write(tmp_path, {"people": SCHEMA, "cities": SCHEMA})
    assert apply(both).converged
    assert og.open(both.graphs["cities"].uri).id != before


@pytest.mark.parametrize(
    "point", [Failpoint.INIT_BEFORE_GRAPH_JSON, Failpoint.INIT_BEFORE_FIRST_COMMIT, Failpoint.PUBLISH_AFTER_CREATE]
)
def test_an_apply_that_died_inside_a_graph_is_finished_by_the_next(tmp_path: Path, point: Failpoint) -> None:
    apply(write(tmp_path, {"people": SCHEMA}))
    config = write(tmp_path, {"people": MORE, "new": SCHEMA})
    failpoints.arm(point, failpoints.raising(Died()))
    try:
        with pytest.raises(Died):
            apply(config)
    finally:
        failpoints.disarm_all()
    assert apply(config).converged
    assert set(read_applied(config.root).graphs) == {"people", "new"}
