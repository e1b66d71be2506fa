"""Random evolution: schema changes, writes, branches and merges in any order, against plain Python values.

After every step each branch has the entities of its model, under its names. At the end every commit is read again with the
schema of its time, and a reader that followed the feed of main has what main has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evolve.evolution_model import FIRST, Branch, Conflict, Identity, Property, Type, Value, merged
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import omnigraph as og
from omnigraph.changes import CommitChanges
from omnigraph.errors import MergeConflicts, SchemaChangeRefused, ValueViolation

RUNS, STEPS = 200, 14
PROPERTY_NAMES, TYPE_NAMES = st.sampled_from(["p", "q", "r"]), st.sampled_from(["A", "B", "C"])
IDS = st.sampled_from(["a", "b", "c"])
PLACES = st.integers(0, 5)
WORDS = ("x", "y", "z")


class Evolution(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        type_id: Identity = ("node", "A", FIRST)
        first = Type("A", {(type_id, "p", FIRST): Property("p", "I32")})
        main = Branch({type_id: first}, {type_id: {}})
        self.graph = og.init("memory://", schema=main.text())
        self.branches: dict[str, Branch] = {"main": main}
        self.base: tuple[str, Branch] = (self.head("main"), main)
        self.seen: dict[str, dict[str, Any]] = {self.head("main"): main.entities()}

    def head(self, branch: str) -> str:
        return self.graph.commit(branch).id

    def pick(self, branch: str, place: int) -> tuple[Branch, Identity, Type]:
        model = self.branch(branch)
        id = sorted(model.types, key=str)[place % len(model.types)]
        return model, id, model.types[id]

    def branch(self, name: str) -> Branch:
        return self.branches[name if name in self.branches else "main"]

    def name(self, branch: str) -> str:
        return branch if branch in self.branches else "main"

    # ------------------------------------------------------------ writes

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, key=IDS, numbers=st.lists(st.integers(0, 12), min_size=4, max_size=4))  # fmt: skip
    def put(self, branch: str, place: int, key: str, numbers: list[int]) -> None:
        model, id, declared = self.pick(branch, place)
        row = {
            at: _value(said, numbers[number % 4]) for number, (at, said) in enumerate(sorted(declared.properties.items(), key=str))
        }  # fmt: skip
        values = {said.name: row[at] for at, said in declared.properties.items()}
        refused = any(not said.allows(row[at]) for at, said in declared.properties.items())
        try:
            with self.graph.transaction(self.name(branch)) as tx:
                tx.upsert(declared.name, {"name": key, **values})
        except ValueViolation:
            assert refused
        else:
            assert not refused
            model.rows.setdefault(id, {})[key] = row

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, key=IDS)
    def delete(self, branch: str, place: int, key: str) -> None:
        model, id, declared = self.pick(branch, place)
        with self.graph.transaction(self.name(branch)) as tx:
            assert tx.delete(declared.name, key) == (key in model.rows.get(id, {}))
        model.rows.get(id, {}).pop(key, None)

    @rule(branch=st.sampled_from(["main", "work"]))
    def optimize(self, branch: str) -> None:
        self.graph.optimize(self.name(branch))

    # ------------------------------------------------------------ schema changes

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, name=PROPERTY_NAMES, kind=st.sampled_from(["I32", "enum"]), required=st.booleans(), default=st.integers(0, 1))  # fmt: skip
    def add_property(self, branch: str, place: int, name: str, kind: Any, required: bool, default: int) -> None:
        model, id, declared = self.pick(branch, place)
        if name in [said.name for said in declared.properties.values()]:
            return
        words = frozenset(WORDS[:2]) if kind == "enum" else frozenset[str]()
        value: Value = None if not required else WORDS[default] if kind == "enum" else default
        at = model.new_identity(id, name)
        declared.properties[at] = Property(name, kind, words, required, value, value)
        for row in model.rows.get(id, {}).values():
            row[at] = value
        self.apply(branch)

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, which=PLACES, name=PROPERTY_NAMES)
    def rename_property(self, branch: str, place: int, which: int, name: str) -> None:
        _, _, declared = self.pick(branch, place)
        if not declared.properties or name in [said.name for said in declared.properties.values()]:
            return
        at = sorted(declared.properties, key=str)[which % len(declared.properties)]
        before = declared.properties[at].name
        declared.properties[at] = replace(declared.properties[at], name=name)
        self.apply(branch, {at: before})

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, which=PLACES, hard=st.booleans())
    def drop_property(self, branch: str, place: int, which: int, hard: bool) -> None:
        model, id, declared = self.pick(branch, place)
        if not declared.properties:
            return
        at = sorted(declared.properties, key=str)[which % len(declared.properties)]
        del declared.properties[at]
        for row in model.rows.get(id, {}).values():
            row.pop(at)
        model.hard |= {at} if hard else set()
        self.apply(branch, hard=hard)

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, which=PLACES)
    def widen_property(self, branch: str, place: int, which: int) -> None:
        _, _, declared = self.pick(branch, place)
        if not declared.properties:
            return
        at = sorted(declared.properties, key=str)[which % len(declared.properties)]
        said = declared.properties[at]
        wider = replace(said, words=frozenset(WORDS)) if said.kind == "enum" else replace(said, kind="I64")
        declared.properties[at] = wider
        self.apply(branch)

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, which=PLACES, range=st.sampled_from([None, (0, 9), (0, 12)]))  # fmt: skip
    def change_range(self, branch: str, place: int, which: int, range: tuple[int, int] | None) -> None:
        model, _, declared = self.pick(branch, place)
        numbers = sorted((at for at, said in declared.properties.items() if said.kind != "enum"), key=str)
        if not numbers:
            return
        at = numbers[which % len(numbers)]
        before = declared.properties[at]
        declared.properties[at] = replace(before, range=range)
        if not model.breaks_rules():
            self.apply(branch)
            return
        with pytest.raises(SchemaChangeRefused):
            self.apply(branch)
        declared.properties[at] = before

    @rule(branch=st.sampled_from(["main", "work"]), name=TYPE_NAMES, kind=st.sampled_from(["I32", "I64"]))
    def add_type(self, branch: str, name: str, kind: Any) -> None:
        model = self.branch(branch)
        if name in [each.name for each in model.types.values()]:
            return
        id = model.new_identity("node", name)
        model.types[id] = Type(name, {model.new_identity(id, "p"): Property("p", kind)})
        model.rows[id] = {}
        self.apply(branch)

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, name=TYPE_NAMES)
    def rename_type(self, branch: str, place: int, name: str) -> None:
        model, id, declared = self.pick(branch, place)
        if name in [each.name for each in model.types.values()]:
            return
        model.types[id] = replace(declared, name=name)
        self.apply(branch, {id: declared.name})

    @rule(branch=st.sampled_from(["main", "work"]), place=PLACES, hard=st.booleans())
    def drop_type(self, branch: str, place: int, hard: bool) -> None:
        model, id, declared = self.pick(branch, place)
        if len(model.types) == 1:
            return
        del model.types[id]
        model.rows.pop(id, None)
        model.hard |= {id, *declared.properties} if hard else set()
        self.apply(branch, hard=hard)

    def apply(self, branch: str, renamed: dict[Identity, str] | None = None, *, hard: bool = False) -> None:
        text = self.branch(branch).text(renamed)
        self.graph.apply_schema(text, branch=self.name(branch), allow_data_loss=hard)

    # ------------------------------------------------------------ branches

    @precondition(lambda self: "work" not in self.branches)
    @rule()
    def create_branch(self) -> None:
        self.graph.branches.create("work")
        self.branches["work"] = self.branches["main"].copy()
        self.base = (self.head("main"), self.branches["main"].copy())

    @precondition(lambda self: "work" in self.branches)
    @rule(direction=st.booleans(), strategy=st.sampled_from(["fail", "fail", "ours", "theirs"]))
    def merge(self, direction: bool, strategy: Any) -> None:
        source, target = ("work", "main") if direction else ("main", "work")
        theirs, ours = self.branches[source], self.branches[target]
        base_id, base = self.base
        head = self.head(source)
        expected: Branch | Conflict
        try:
            expected = merged(base, ours, theirs, strategy)
        except Conflict as conflict:
            expected = conflict
        is_fast_forward = self.head(target) == base_id
        if is_fast_forward:
            expected = theirs.copy()
        if isinstance(expected, Conflict):
            if expected.on == "schema":
                strategy = "fail"
            with pytest.raises(MergeConflicts) as caught:
                self.graph.branches.merge(source, target, strategy=strategy)
            found = (bool(caught.value.schema_conflicts), bool(caught.value.conflicts))
            assert found == (expected.on == "schema", expected.on == "rows")
            return
        outcome = self.graph.branches.merge(source, target, strategy=strategy).outcome
        if head == base_id:
            assert outcome == "already_up_to_date"
            return
        assert outcome == ("fast_forward" if is_fast_forward else "merged")
        self.branches[target] = expected
        self.base = (head, theirs.copy())

    # ------------------------------------------------------------ what is there

    @invariant()
    def every_branch_has_its_entities(self) -> None:
        for name, model in self.branches.items():
            assert self.entities(name) == model.entities()
            self.seen[self.head(name)] = model.entities()

    def entities(self, revision: str) -> dict[str, dict[str, dict[str, Value]]]:
        view = self.graph._repository.resolve(revision)
        found: dict[str, dict[str, dict[str, Value]]] = {}
        for key, entity in view.catalog.tables.items():
            table = view.table(key)
            rows = [] if table is None else table.read().to_pylist()
            found[entity.name] = {row.pop("id"): row for row in rows}
            for row in rows:
                row.pop("name")
        return found

    def teardown(self) -> None:
        for commit, entities in self.seen.items():
            assert self.entities(commit) == entities
        followed: dict[str, dict[str, dict[str, Value]]] = {"A": {}}
        page = self.graph.changes("main", start="beginning", limit=3)
        while True:
            for block in page.blocks:
                follow(followed, block)
            if page.next_page_token is None:
                break
            page = self.graph.changes("main", page_token=page.next_page_token, limit=3)
        assert page.caught_up
        assert followed == self.branches["main"].entities()
        if "work" in self.branches:
            list(self.graph.diff("main", "work"))
        self.graph.close()


def _value(said: Property, number: int) -> Value:
    if number == 12 and not said.required:
        return None
    return sorted(said.words)[number % len(said.words)] if said.kind == "enum" else number


def follow(held: dict[str, dict[str, dict[str, Value]]], block: CommitChanges) -> None:
    """What a reader of the feed makes of one commit. All names that steps start from are those before it."""
    steps = block.schema_steps
    renamed_types = {step.from_: step.to for step in steps if step.kind == "rename_type"}
    gone_types = {step.name for step in steps if step.kind == "drop_type"}
    types = {
        renamed_types.get(name, name): entities
        for name, entities in held.items()
        if name in renamed_types or name not in gone_types
    }
    for step in steps:
        if step.kind == "add_type":
            types[step.name] = {}
    for name, entities in types.items():
        own = [step for step in steps if getattr(step, "type_name", None) == name]
        renamed = {step.from_: step.to for step in own if step.kind == "rename_property"}
        gone = {step.property_name for step in own if step.kind == "drop_property"}
        added = {
            step.property_name: step.default if not step.property_type.nullable else None
            for step in own
            if step.kind == "add_property"
        }
        for key, row in entities.items():
            kept = {
                renamed.get(each, each): value for each, value in row.items() if each in renamed or each not in gone
            }
            entities[key] = {**kept, **added}
    held.clear()
    held.update(types)
    for change in sorted(block.changes, key=lambda change: change.op != "delete"):
        if change.op == "delete":
            held.get(change.type_name, {}).pop(change.id, None)
        else:
            assert change.after is not None
            values = {name: value for name, value in change.after.items() if name not in ("id", "name")}
            held[change.type_name][change.id] = values  # type: ignore[assignment]


def test_schema_changes_writes_branches_and_merges_in_any_order_are_what_plain_values_are() -> None:
    run_state_machine_as_test(
        Evolution,
        settings=settings(
            max_examples=RUNS, stateful_step_count=STEPS, suppress_health_check=list(HealthCheck), deadline=None
        ),
    )
