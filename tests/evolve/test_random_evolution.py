"""Random evolution: schema changes, writes, branches and merges in any order, against plain Python values.

A run begins where values are easily lost: with two branches, a property that was added to a type that has rows, and rows on either
side that are inline, stored or folded. Values are lost where a merge adopts a fragment that was written under another type. Single
rows under the default bound never make one: they stay in their commits, or `optimize` writes them under the newest type. Hence the
small bounds, and commits of several rows. After every step each branch has the entities of its model, under its names. At the end
every commit is read again with the schema of its time, and a reader that followed the feed of main has what main has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from evolve.evolution_model import FIRST, Branch, Conflict, Identity, Property, Type, Value, merged, same
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import omnigraph as og
from omnigraph.changes.feed import CommitChanges
from omnigraph.errors import MergeConflicts, SchemaChangeRefused, ValueViolation
from omnigraph.write.inlining import ENVIRONMENT as INLINE_BOUND

RUNS, STEPS = 60, 6
BRANCH = st.sampled_from(["main", "work"])
BOUNDS = st.sampled_from(["3", "1", "3", "1", "0", "64"])
KINDS = st.sampled_from(["I32", "F32", "U32", "I32", "String", "enum"])
CHANGES = ["widen", "widen", "widen", "nullable", "default", "drop"]
WIDER = {
    "I32": ["I64", "F64", "[I32]"],
    "I64": ["F64", "[I64]"],
    "U32": ["U64", "I64"],
    "F32": ["F64", "[F64]"],
    "String": ["[String]"],
    "[I32]": ["[I64]"],
    "[I64]": ["[F64]"],
}
PROPERTY_NAMES, TYPE_NAMES = st.sampled_from(["p", "q", "r"]), st.sampled_from(["A", "B", "C"])
IDS = st.sampled_from(["a", "b", "c"])
PLACES = st.integers(0, 5)
WORDS = ("x", "y", "z")


class Evolution(RuleBasedStateMachine):
    @initialize(
        bound=BOUNDS, is_edge=st.booleans(), kind=KINDS, required=st.booleans(), rows=st.lists(st.sampled_from([5, 1, 0]), min_size=4, max_size=4),
        branch=BRANCH, change=st.sampled_from(CHANGES), far=PLACES, direction=st.booleans(),
    )  # fmt: skip
    def begin(
        self,
        bound: str,
        is_edge: bool,
        kind: str,
        required: bool,
        rows: list[int],
        branch: str,
        change: str,
        far: int,
        direction: bool,
    ) -> None:
        self.previous_bound = os.environ.get(INLINE_BOUND)
        os.environ[INLINE_BOUND] = bound
        id: Identity = ("edge", "E", FIRST) if is_edge else ("node", "A", FIRST)
        main = Branch({id: Type(id[1], {(id, "p", FIRST): Property("p", "I32")}, is_edge)}, {id: {}})
        self.graph = og.init("memory://", schema=main.text())
        if is_edge:
            with self.graph.transaction() as tx:
                tx.insert("X", name="x")
        self.branches: dict[str, Branch] = {"main": main}
        self.seen: dict[str, dict[str, Any]] = {}
        self.is_edge = is_edge
        self.put_many("main", 0, rows[0], 1)
        self.add_property("main", 0, "q", kind, required, 1)
        self.put_many("main", 0, rows[1], 4)
        self.graph.branches.create("work")
        self.branches["work"] = main.copy()
        self.base: tuple[str, Branch] = (self.head("main"), main.copy())
        self.put_many("work", 0, rows[2], 2)
        if change == "widen":
            self.widen_property(branch, 0, 1, far)
        elif change == "nullable":
            self.make_nullable(branch, 0, 1)
        elif change == "default":
            self.change_default(branch, 0, 1, 0)
        elif change == "drop":
            self.drop_property(branch, 0, 1, False)
        self.put_many("main", 0, rows[3], 3)
        self.merge(direction, "theirs")

    def head(self, branch: str) -> str:
        return self.graph.show(branch).id

    def pick(self, branch: str, place: int) -> tuple[Branch, Identity, Type]:
        model = self.branch(branch)
        id = sorted(model.types, key=str)[place % len(model.types)]
        return model, id, model.types[id]

    def branch(self, name: str) -> Branch:
        return self.branches[name if name in self.branches else "main"]

    def name(self, branch: str) -> str:
        return branch if branch in self.branches else "main"

    # ------------------------------------------------------------ writes

    @rule(branch=BRANCH, place=PLACES, key=IDS, number=st.integers(0, 12))
    def put(self, branch: str, place: int, key: str, number: int) -> None:
        self.upsert(branch, place, [key], number)

    @rule(branch=BRANCH, place=PLACES, count=st.integers(2, 6), number=st.integers(0, 12))
    def put_many(self, branch: str, place: int, count: int, number: int) -> None:
        """More rows than stay inline with most bounds."""
        self.upsert(branch, place, [f"{branch[0]}{each}" for each in range(number, number + count)], number)

    def upsert(self, branch: str, place: int, keys: list[str], number: int) -> None:
        model, id, declared = self.pick(branch, place)
        properties = sorted(declared.properties.items(), key=str)
        rows = {
            key: {at: _value(said, (number + 5 * each + other) % 13) for each, (at, said) in enumerate(properties)}
            for other, key in enumerate(keys)
        }
        refused = any(not said.allows(row[at]) for row in rows.values() for at, said in properties)
        try:
            with self.graph.transaction(self.name(branch)) as tx:
                for key, row in rows.items():
                    entity = {"id": key, "from_": "x", "to": "x"} if declared.is_edge else {"name": key}
                    tx.upsert(declared.name, {**entity, **{said.name: row[at] for at, said in properties}})
        except ValueViolation:
            assert refused
        else:
            assert not refused
            model.rows.setdefault(id, {}).update(rows)

    @rule(branch=BRANCH, place=PLACES, which=PLACES, number=st.integers(0, 12))
    def update(self, branch: str, place: int, which: int, number: int) -> None:
        """One property of one node; the others stay, and so does what nobody sees."""
        model, id, declared = self.pick(branch, place)
        keys = sorted(model.rows.get(id, {}))
        if declared.is_edge or not keys or not declared.properties:
            return
        key = keys[which % len(keys)]
        at, said = sorted(declared.properties.items(), key=str)[which % len(declared.properties)]
        value = _value(said, number)
        if said.allows(value):
            with self.graph.transaction(self.name(branch)) as tx:
                assert tx.update(declared.name, key, {said.name: value})
            model.rows[id][key][at] = value

    @rule(branch=BRANCH, place=PLACES, key=IDS)
    def delete(self, branch: str, place: int, key: str) -> None:
        model, id, declared = self.pick(branch, place)
        with self.graph.transaction(self.name(branch)) as tx:
            assert tx.delete(declared.name, key) == (key in model.rows.get(id, {}))
        model.rows.get(id, {}).pop(key, None)

    @rule(branch=BRANCH)
    def optimize(self, branch: str) -> None:
        self.graph.maintenance.optimize(self.name(branch))

    # ------------------------------------------------------------ schema changes

    @rule(branch=BRANCH, place=PLACES, name=PROPERTY_NAMES, kind=KINDS, required=st.booleans(), default=st.integers(0, 1))  # fmt: skip
    def add_property(self, branch: str, place: int, name: str, kind: str, required: bool, default: int) -> None:
        model, id, declared = self.pick(branch, place)
        if name in [said.name for said in declared.properties.values()]:
            return
        words = frozenset(WORDS[:2]) if kind == "enum" else frozenset[str]()
        value: Value = None if not required else WORDS[default] if kind in ("enum", "String") else default
        at = model.new_identity(id, name)
        added = Property(name, kind, words, required, value)
        value = added.seen(value)
        declared.properties[at] = replace(added, fill=value)
        for row in model.rows.get(id, {}).values():
            row[at] = value
        self.apply(branch)

    @rule(branch=BRANCH, place=PLACES, which=PLACES, name=PROPERTY_NAMES)
    def rename_property(self, branch: str, place: int, which: int, name: str) -> None:
        _, _, declared = self.pick(branch, place)
        if not declared.properties or name in [said.name for said in declared.properties.values()]:
            return
        at = sorted(declared.properties, key=str)[which % len(declared.properties)]
        before = declared.properties[at].name
        declared.properties[at] = replace(declared.properties[at], name=name)
        self.apply(branch, {at: before})

    @rule(branch=BRANCH, place=PLACES, which=PLACES, hard=st.booleans())
    def drop_property(self, branch: str, place: int, which: int, hard: bool) -> None:
        model, id, declared = self.pick(branch, place)
        if not declared.properties:
            return
        at = sorted(declared.properties, key=str)[which % len(declared.properties)]
        del declared.properties[at]
        if hard:
            for row in model.rows.get(id, {}).values():
                row.pop(at)
            model.hard.add(at)
        self.apply(branch, hard=hard)

    @rule(branch=BRANCH, place=PLACES, which=PLACES, far=PLACES)
    def widen_property(self, branch: str, place: int, which: int, far: int) -> None:
        def wider(said: Property) -> Property:
            if said.kind == "enum":
                return replace(said, words=frozenset(WORDS))
            kinds = [kind for kind in WIDER.get(said.kind, ()) if said.range is None or not kind.startswith("[")]
            return said.widened(kinds[far % len(kinds)]) if kinds else said

        self.redeclare(branch, place, which, wider)

    @rule(branch=BRANCH, place=PLACES, which=PLACES)
    def make_nullable(self, branch: str, place: int, which: int) -> None:
        self.redeclare(branch, place, which, lambda said: replace(said, required=False, default=None))

    @rule(branch=BRANCH, place=PLACES, which=PLACES)
    def make_required(self, branch: str, place: int, which: int) -> None:
        self.redeclare(branch, place, which, lambda said: replace(said, required=True))

    @rule(branch=BRANCH, place=PLACES, which=PLACES, default=st.sampled_from([None, 0, 1]))
    def change_default(self, branch: str, place: int, which: int, default: int | None) -> None:
        def other(said: Property) -> Property:
            if not said.required or said.is_list:
                return said
            is_text = said.kind in ("enum", "String")
            return replace(said, default=WORDS[default] if is_text and default is not None else default)

        self.redeclare(branch, place, which, other)

    def redeclare(self, branch: str, place: int, which: int, change: Callable[[Property], Property]) -> None:
        """Another declaration of the same property, refused if rows are in the way."""
        model, id, declared = self.pick(branch, place)
        if not declared.properties:
            return
        at = sorted(declared.properties, key=str)[which % len(declared.properties)]
        before = declared.properties[at]
        declared.properties[at] = change(before)
        if model.breaks_rules():
            with pytest.raises(SchemaChangeRefused):
                self.apply(branch)
            declared.properties[at] = before
            return
        self.apply(branch)
        for row in model.rows.get(id, {}).values():
            row[at] = declared.properties[at].seen(row[at])

    @rule(branch=BRANCH, place=PLACES, which=PLACES, range=st.sampled_from([None, (0, 9), (0, 12)]))  # fmt: skip
    def change_range(self, branch: str, place: int, which: int, range: tuple[int, int] | None) -> None:
        model, _, declared = self.pick(branch, place)
        numbers = sorted(
            (at for at, said in declared.properties.items() if said.kind in ("I32", "I64", "F64")), key=str
        )
        if not numbers or declared.is_edge:
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

    @rule(branch=BRANCH, name=TYPE_NAMES, kind=st.sampled_from(["I32", "I64"]))
    def add_type(self, branch: str, name: str, kind: Any) -> None:
        model = self.branch(branch)
        if name in [each.name for each in model.types.values()]:
            return
        id = model.new_identity("node", name)
        model.types[id] = Type(name, {model.new_identity(id, "p"): Property("p", kind)})
        model.rows[id] = {}
        self.apply(branch)

    @rule(branch=BRANCH, place=PLACES, name=TYPE_NAMES)
    def rename_type(self, branch: str, place: int, name: str) -> None:
        model, id, declared = self.pick(branch, place)
        if declared.is_edge or name in [each.name for each in model.types.values()]:
            return
        model.types[id] = replace(declared, name=name)
        self.apply(branch, {id: declared.name})

    @rule(branch=BRANCH, place=PLACES, hard=st.booleans())
    def drop_type(self, branch: str, place: int, hard: bool) -> None:
        model, id, declared = self.pick(branch, place)
        if declared.is_edge or len(model.types) == 1:
            return
        del model.types[id]
        model.rows.pop(id, None)
        model.hard |= {id, *declared.properties} if hard else set()
        self.apply(branch, hard=hard)

    def apply(self, branch: str, renamed: dict[Identity, str] | None = None, *, hard: bool = False) -> None:
        text = self.branch(branch).text(renamed)
        self.graph.schema.apply(text, branch=self.name(branch), allow_data_loss=hard)

    # ------------------------------------------------------------ branches

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
            found = self.entities(name)
            model.settle(found)
            assert same(_sorted(found), _sorted(model.entities()))
            self.seen[self.head(name)] = model.entities()

    def entities(self, revision: str) -> dict[str, dict[str, dict[str, Value]]]:
        view = self.graph._repository.resolve(revision)
        found: dict[str, dict[str, dict[str, Value]]] = {}
        for key, entity in view.catalog.tables.items():
            table = view.table(key)
            if entity.name != "X":
                rows = [] if table is None else table.read().to_pylist()
                found[entity.name] = {row["id"]: _properties(row) for row in rows}
        return found

    def teardown(self) -> None:
        for direction in (True, False):
            self.merge(direction, "theirs")
            self.every_branch_has_its_entities()
        for commit, entities in self.seen.items():
            assert same(_sorted(self.entities(commit)), _sorted(entities))
        followed: dict[str, dict[str, dict[str, Value]]] = {name: {} for name in ("A", "E")[self.is_edge :][:1]}
        page = self.graph.changes("main", start="beginning", limit=3)
        while True:
            for block in page.blocks:
                follow(followed, block)
            if page.next_page_token is None:
                break
            page = self.graph.changes("main", page_token=page.next_page_token, limit=3)
        assert page.caught_up
        assert same(_sorted(followed), _sorted(self.branches["main"].entities()))
        list(self.graph.diff("main", "work"))
        self.graph.close()
        if self.previous_bound is None:
            del os.environ[INLINE_BOUND]
        else:
            os.environ[INLINE_BOUND] = self.previous_bound


def _value(said: Property, number: int) -> Value:
    if number == 12 and not said.required:
        return None
    if said.kind == "enum":
        return sorted(said.words)[number % len(said.words)]
    scalar = said.kind.strip("[]")
    value: Value = f"s{number}" if scalar == "String" else number + 0.1 if scalar.startswith("F") else number
    if said.range is None and scalar in ("I64", "U64"):
        value += 2**40
    return said.seen(value)


def _as(type: str, value: Value) -> Value:
    return Property("", type.rstrip("?")).seen(value)


def _properties(row: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in row.items() if name not in ("id", "name", "src", "dst", "from", "to")}


def _sorted(types: dict[str, dict[str, dict[str, Value]]]) -> list[Any]:
    return sorted((name, key, sorted(row.items())) for name, rows in types.items() for key, row in rows.items())


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
        wider = {step.property_name: str(step.to) for step in own if step.kind == "widen_property"}
        added = {
            step.property_name: _as(str(step.property_type), step.default) if not step.property_type.nullable else None
            for step in own
            if step.kind == "add_property"
        }
        for key, row in entities.items():
            kept = {
                renamed.get(each, each): value for each, value in row.items() if each in renamed or each not in gone
            }
            widened = {each: _as(wider[each], value) if each in wider else value for each, value in kept.items()}
            entities[key] = {**widened, **added}
    held.clear()
    held.update(types)
    for change in sorted(block.changes, key=lambda change: change.op != "delete"):
        if change.op == "delete":
            held.get(change.type_name, {}).pop(change.id, None)
        elif change.type_name != "X":
            assert change.after is not None
            held[change.type_name][change.id] = _properties(change.after)


def test_schema_changes_writes_branches_and_merges_in_any_order_are_what_plain_values_are() -> None:
    evolve(RUNS, STEPS)


@pytest.mark.soak
def test_thousands_of_long_histories_are_what_plain_values_are() -> None:
    evolve(3_000, 14)


def evolve(runs: int, steps: int) -> None:
    run_state_machine_as_test(
        Evolution,
        settings=settings(
            max_examples=runs, stateful_step_count=steps, suppress_health_check=list(HealthCheck), deadline=None
        ),
    )
