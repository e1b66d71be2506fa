"""Values of every kind that is stored, always the same: their bytes are the format."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.history.encoding import decode_entry, decode_records, encode_entry, encode_records
from omnigraph.history.envelope import seal, unseal
from omnigraph.history.genesis import Identity, first_entry
from omnigraph.history.plan import PreparedPlan, PublishPlan, Recovery, TableChange
from omnigraph.history.values import Ancestry, Commit, CommitRef, CommitStep, Entry, LogSegment, Snapshot, TableState
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.snapshot import encode_catalog
from omnigraph.storage.options import open_store

AT = 1_780_000_000_000_000
SCHEMA = "5c" * 32
MAIN, WORK = "main@0.01MAIN00000000000000000000", "work/a@2.01WORK00000000000000000000"
IDENTITY = Identity("01GRAPH0000000000000000000", AT, SCHEMA, "01MAIN00000000000000000000", "ada")


def ref(number: int, incarnation: str = MAIN) -> CommitRef:
    return CommitRef(f"01C{number:023d}", incarnation.partition("@")[0], incarnation, number, number)


def commit(number: int, *, incarnation: str = MAIN, **members: object) -> Commit:
    parents = (ref(number - 1, incarnation),)
    return Commit(ref(number, incarnation), parents, "mutation", AT + number, **members)  # type: ignore[arg-type]


def state(number: int, digest: str | None = "0123456789abcdef") -> TableState:
    return TableState("nodes/Person-0a1b2c3d4e", 2**63 + number, number, 10 * number, digest)


PERSON, KNOWS = "node:Person", "edge:Knows"
MERGE = Commit(ref(14), (ref(13), ref(7, WORK)), "merge", AT + 14, "bob", "größe ☃\n")
ENTRY = Entry(
    id="01E00000000000000000000000",
    op="commit",
    branch="main",
    incarnation=MAIN,
    position=15,
    before=Snapshot(MERGE, SCHEMA, {PERSON: state(3), KNOWS: state(1, None)}),
    steps=(
        CommitStep(commit(15, actor="ada"), SCHEMA, {PERSON: state(4)}),
        CommitStep(commit(16, message="why", _extra={"key": "order-17"}), "6d" * 32, {PERSON: state(5), KNOWS: None}),
    ),
    ancestry=Ancestry({MAIN: 16, WORK: 7}, "history/01A00000000000000000000000.ancestry.json"),
    write_features=(),
    tail=(commit(12), commit(13, actor="ada"), MERGE),
    segments=(
        LogSegment("01S00000000000000000000000", 1, 0, 11, ref(0).id, ref(11).id, AT, AT + 11, extra={"later": True}),
    ),
)
OPENING = Entry(
    id="01WORK00000000000000000000",
    op="create",
    branch="work/a",
    incarnation=WORK,
    position=2,
    before=Snapshot(commit(12), SCHEMA, {PERSON: state(3)}),
    steps=(CommitStep(Commit(CommitRef("01F00000000000000000000000", "work/a", WORK, 13, 2), (ref(12),), "load", AT), SCHEMA, {PERSON: state(4)}),),
    ancestry=Ancestry({MAIN: 12, WORK: 13}),
    write_features=("later-writers",),
)  # fmt: skip
PLAN = PublishPlan(
    commit_id="01P00000000000000000000000",
    branch="main",
    incarnation=MAIN,
    base=ref(16),
    schema=SCHEMA,
    changes=(TableChange(PERSON, "insert", state(5), state(6), {"fragments": ["{}"]}),),
    reads=(KNOWS,),
    read_states={KNOWS: state(1)},
    kind="load",
    actor="ada",
    opening=OPENING,
    new_branch=True,
)
GRAPH = """
interface Named { name: String }
node Person implements Named {
  name: String @key
  age: I32?
  @range(age, 0..150)
  role: enum(admin, user) @default("user")
  near: Vector(3)? @index @metric(cosine)
  tags: [String]?
  born: Date?
}
edge Knows: Person -> Person @card(0..9) { since: DateTime? }
"""


def stored() -> dict[str, bytes]:
    """The bytes of each value, under the name of the file that holds it."""
    store = open_store("memory://")
    Recovery(store).keep(PreparedPlan(PLAN, AT, {"total_entities": 1}), lambda: None)
    ids = iter(f"t{number}" for number in range(100))
    return {
        "graph.json": seal(IDENTITY.to_json()),
        "first-entry.json": encode_entry(first_entry(IDENTITY)),
        "entry.json": encode_entry(ENTRY),
        "opening-entry.json": encode_entry(OPENING),
        "log-segment.json": encode_records((commit(12), commit(13, actor="ada"), MERGE, commit(15))),
        "plan.json": store.get(f"recovery/{PLAN.commit_id}.json"),
        "schema.json": encode_catalog(compile_schema(GRAPH, None, new_table_id=lambda key: next(ids))),
    }


READ_BACK: dict[str, Callable[[bytes], object]] = {
    "graph.json": lambda data: Identity.from_json(unseal("", data)) == IDENTITY,
    "first-entry.json": lambda data: decode_entry(data, "") == first_entry(IDENTITY),
    "entry.json": lambda data: decode_entry(data, "") == ENTRY,
    "opening-entry.json": lambda data: decode_entry(data, "") == OPENING,
    "log-segment.json": lambda data: decode_records(data, "")[2] == MERGE,
    "plan.json": lambda data: PublishPlan.from_json(unseal("", data)["plan"]) == PLAN,
}
