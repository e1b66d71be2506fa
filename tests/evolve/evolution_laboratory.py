"""A graph with the history of one property, its model, and the operations on it.

What is done to the graph is the text of a program, which is run as it is written: a case that fails can print it.
"""

from __future__ import annotations

import io
import itertools
import json
import operator
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evolve.evolution_model import FIRST, Branch, Conflict, Identity, Property, Type, Value, holds, merged, same
from maintenance.aging import age

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, MergeConflicts, SchemaChangeRefused, UsageError
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising
from omnigraph.write.inlining import ENVIRONMENT as INLINE_BOUND

APPLY = """def apply(g, schema, branch):
    try:
        g.schema.apply(schema, branch=branch)
    except og.errors.SchemaChangeRefused as error:
        if "'omnigraph optimize' stores it" not in str(error): raise
        g.maintenance.optimize(branch)
        g.schema.apply(schema, branch=branch)
"""
"""A property with a default is made nullable where every row has its value stored."""

MODES = ("none", "inline", "stored", "folded", "touch", "other", "delete")
"""What a line of commits does between two changes of the schema: insert one row, more rows than stay inline, or rows that the next
commit folds; upsert a row, update its other property, or delete one."""
READERS = ("query", "sql", "export", "entity", "filter")
LINES = ("base", "main", "work")


@dataclass(frozen=True)
class History:
    """`changes`: how many happen before the branches part, and how many of the others on main and on the other branch. `modes`:
    for each line, what is written before its changes (and between them) and after."""

    life: tuple[str, ...]
    changes: tuple[int, int, int]
    modes: tuple[tuple[str, str], tuple[str, str], tuple[str, str]]
    is_edge: bool = False
    bound: int = 3
    on_disk: bool = False
    work_first: bool = False
    """Whether main is written to after the other branch, which may then be the one that creates the table."""
    is_indexed: bool = False


def declared(form: str) -> Property | None:
    if not form:
        return None
    name, _, rest = form.partition(": ")
    type, _, default = rest.partition(" = ")
    return Property(name, type.rstrip("?"), required=not type.endswith("?"), default=json.loads(default) if default else None)  # fmt: skip


class Mismatch(AssertionError):
    """The graph does not have what the model has."""


@dataclass(frozen=True)
class Made:
    """A commit, its name in the program, and the state before it."""

    ref: str
    id: str
    model: Branch
    before: Branch | None
    line: str


class Laboratory:
    """A graph with a history, its model, and the operations. Each operation works on branches of its own."""

    def __init__(self, history: History, folder: Path) -> None:
        self.history, self.folder = history, folder
        self.text: list[str] = []
        self.names: dict[str, Any] = {
            "og": og, "folder": folder, "arm": arm, "disarm_all": disarm_all, "raising": raising, "age": age,
            "Failpoint": Failpoint, "FailpointReached": FailpointReached, "Path": Path, "json": json,
        }  # fmt: skip
        self.type_name = "E" if history.is_edge else "A"
        self.id: Identity = ("edge" if history.is_edge else "node", self.type_name, FIRST)
        forms = [declared(form) for form in history.life]
        self.forms = [form and replace(form, is_indexed=history.is_indexed) for form in forms]
        self.has_all = any(form is not None and form.required and form.default is None for form in self.forms)
        self.made: list[Made] = []
        self.count = itertools.count(1)
        self.branches = itertools.count(1)
        self.graph: Any = None
        os.environ[INLINE_BOUND] = str(history.bound)
        exec(APPLY, self.names)
        self.build()

    # ------------------------------------------------------------ the program

    def run(self, text: str) -> None:
        self.text.append(text)
        exec(text, self.names)

    def program(self) -> str:
        head = [
            "import json, os, tempfile",
            f'os.environ["{INLINE_BOUND}"] = "{self.history.bound}"',
            "from pathlib import Path",
            "import omnigraph as og",
            "from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising",
            "folder = Path(tempfile.mkdtemp())",
            APPLY,
        ]
        if any("age(" in line for line in self.text):
            head.append("from maintenance.aging import age  # PYTHONPATH=tests")
        return "\n".join([*head, "", *self.text]) + "\n"

    def show(self, revision: str, graph: str = "g") -> None:
        """Text only: where the program prints what it has."""
        self.text.append(f'for row in {graph}.sql("SELECT * FROM {self.type_name} ORDER BY id", revision={revision!r}).rows: print(row)')  # fmt: skip

    # ------------------------------------------------------------ building

    def build(self) -> None:
        before, main, work = self.history.changes
        number: Identity = (self.id, "n", FIRST)
        first = Type(self.type_name, {number: Property("n", "I32")}, self.history.is_edge)
        model = Branch({self.id: first}, {self.id: {}})
        self.at: Identity = (self.id, "q", FIRST)
        if self.forms[0] is not None:
            first.properties[self.at] = self.forms[0]
        place = 'folder / "g"' if self.history.on_disk else '"memory://"'
        self.run(f'g = og.init({place}, schema="""{model.text()}""", durability="process")')
        self.graph = self.names["g"]
        if self.history.is_edge:
            self.run('with g.transaction() as tx: tx.insert("X", name="x")')
        self.note("main", model, None, "base")
        at = self.line("base", "main", model, self.at if self.forms[0] else None, range(before))
        self.fork = self.made[-1]
        if self.history.on_disk:
            self.run('og.clone(folder / "g", folder / "copy"); og.clone(folder / "g", folder / "other")')
        self.run('g.branches.create("work")')
        other = model.copy()
        self.models = {"main": model, "work": other}
        rest = range(before, len(self.forms) - 1)
        lines = [("main", model, rest[:main]), ("work", other, rest[:work])]
        for branch, own, steps in reversed(lines) if self.history.work_first else lines:
            self.line(branch, branch, own, at, steps)
        for branch in ("main", "work"):
            self.check(branch, self.models[branch])

    def note(self, branch: str, model: Branch, before: Branch | None, line: str) -> None:
        ref = f"c{len(self.made)}"
        self.run(f"{ref} = g.show({branch!r}).id")
        self.made.append(Made(ref, self.names[ref], model.copy(), before, line))

    def line(self, line: str, branch: str, model: Branch, at: Identity | None, steps: range) -> Identity | None:
        early, late = self.history.modes[LINES.index(line)]
        for number, step in enumerate(steps):
            if number == 0 or early != "none":
                self.write(line, branch, model, early)
            before = model.copy()
            try:
                at = self.change(branch, model, at, self.forms[step + 1])
            except SchemaChangeRefused:
                return at
            self.note(branch, model, before, line)
        if not steps:
            self.write(line, branch, model, early)
        self.write(line, branch, model, late)
        return at

    def change(self, branch: str, model: Branch, at: Identity | None, form: Property | None) -> Identity | None:
        """One change of the schema. SchemaChangeRefused if rows are in the way, as they then must be."""
        wanted = model.copy()
        at, renamed = step(wanted, self.id, at, form)
        text = f'apply(g, """{wanted.text(renamed)}""", {branch!r})'
        if wanted.breaks_rules():
            self.text.append(f"# refused: {text}")
            try:
                exec(text, self.names)
            except SchemaChangeRefused:
                raise
            raise Mismatch("rows are in the way of a schema change that was made")
        self.run(text)
        model.types, model.rows, model.used = wanted.types, wanted.rows, wanted.used
        return at

    # ------------------------------------------------------------ rows

    def row(self, model: Branch) -> tuple[dict[str, Value], Row]:
        """A new row: what is written, and what it is."""
        number = next(self.count)
        written: dict[str, Value] = {}
        held: dict[Identity, Value] = {}
        for at, said in model.types[self.id].properties.items():
            value = number if said.name == "n" else _value(said, number)
            is_empty = said.name != "n" and number % 7 == 0 and not self.has_all
            if is_empty and said.default is not None:
                held[at] = said.seen(said.default)
                continue
            held[at] = written[said.name] = None if is_empty and not said.required else value
        return written, held

    def entity(self, key: str) -> dict[str, Value]:
        return {"id": key, "from_": "x", "to": "x"} if self.history.is_edge else {"name": key}

    def insert(self, line: str, branch: str, model: Branch, count: int) -> None:
        before, rows = model.copy(), []
        for _ in range(count):
            written, held = self.row(model)
            key = f"{line[0]}{next(self.count)}"
            rows.append({**self.entity(key), **written})
            model.rows[self.id][key] = held
        self.run(f"with g.transaction({branch!r}) as tx: tx.insert_many({self.type_name!r}, {rows!r})")
        self.note(branch, model, before, line)

    def write(self, line: str, branch: str, model: Branch, mode: str) -> None:
        bound, rows = self.history.bound, model.rows[self.id]
        if mode == "inline":
            self.insert(line, branch, model, 1)
        elif mode == "stored":
            self.insert(line, branch, model, bound + 2)
        elif mode == "folded":
            for _ in range(2):
                self.insert(line, branch, model, bound // 2 + 1)
        elif mode != "none" and rows:
            place = {"touch": 0, "other": 1, "delete": 2}[mode] + (LINES.index(line) == 2 and len(rows) > 4)
            key = sorted(rows)[place % len(rows)]
            before = model.copy()
            if mode == "delete":
                self.run(f"with g.transaction({branch!r}) as tx: tx.delete({self.type_name!r}, {key!r})")
                del rows[key]
            elif mode == "touch":
                self.upsert(branch, model, key)
            else:
                self.update_other(branch, model, key)
            self.note(branch, model, before, line)

    def upsert(self, branch: str, model: Branch, key: str) -> None:
        written, held = self.row(model)
        row = {**self.entity(key), **written}
        self.run(f"with g.transaction({branch!r}) as tx: tx.upsert({self.type_name!r}, {row!r})")
        model.rows[self.id][key] = held

    def update_other(self, branch: str, model: Branch, key: str) -> None:
        """Another property than the one whose life it is."""
        (at,) = [at for at, said in model.types[self.id].properties.items() if said.name == "n"]
        value = next(self.count)
        row = {**model.rows[self.id][key], at: value}
        if self.history.is_edge:  # An edge is only ever replaced as a whole.
            properties = model.types[self.id].properties
            row = {at: row[at] for at in properties}
            written = {**self.entity(key), **{said.name: said.seen(row[at]) for at, said in properties.items()}}
            self.run(f"with g.transaction({branch!r}) as tx: tx.upsert('E', {written!r})")
        else:
            self.run(f"with g.transaction({branch!r}) as tx: tx.update('A', {key!r}, n={value})")
        model.rows[self.id][key] = row

    # ------------------------------------------------------------ reading

    def check(self, revision: str, model: Branch, graph: str = "g", reader: str = "table") -> None:
        found = self.read(revision, model, graph, reader)
        model.settle({self.type_name: found})
        expected = model.entities()[self.type_name]
        if reader == "entity":
            expected = {key: expected[key] for key in self.some(model)}
        if reader == "filter":
            self.check_filters(revision, model, expected, graph)
        if not same(_sorted(expected), _sorted(found)):
            self.show(revision, graph)
            raise Mismatch(f"{revision} by {reader}: {_difference(expected, found)}")

    def read(self, revision: str, model: Branch, graph: str, reader: str) -> dict[str, dict[str, Value]]:
        graph_: og.Graph = self.names[graph]
        names = [said.name for said in model.types[self.id].properties.values()]
        if reader == "table":
            view = graph_._repository.resolve(revision)
            table = view.table(self.id[0] + ":" + self.type_name)
            rows = [] if table is None else table.read().to_pylist()
        elif reader == "sql":
            rows = graph_.sql(f"SELECT * FROM {self.type_name}", revision=revision).rows
        elif reader in ("query", "filter"):
            rows = graph_.query(self.question(names), revision=revision).rows
        elif reader == "entity":
            found = [graph_.entity(self.type_name, key, revision=revision) for key in self.some(model)]
            rows = [entity for entity in found if entity is not None]
        else:
            out = io.BytesIO()
            graph_.export(out, revision=revision, types=[self.type_name])
            rows = []
            for line in out.getvalue().splitlines():
                record = json.loads(line)
                rows.append({**record["data"], "id": record["data"].get("id") or record["data"].get("name")})
            for row in rows:
                for name in names:
                    row.setdefault(name, None)
        return {row["id"]: {name: row[name] for name in row if name not in ("id", "name", "src", "dst", "from", "to")} for row in rows}  # fmt: skip

    def check_filters(self, revision: str, model: Branch, expected: dict[str, dict[str, Value]], graph: str) -> None:
        """Conditions on each property find the rows that have the value, in whichever column it is."""
        for said in model.types[self.id].properties.values():
            values = {key: row[said.name] for key, row in expected.items()}
            conditions: list[tuple[str, set[str], dict[str, Value]]] = [
                ("is null", {key for key, value in values.items() if value is None}, {}),
                ("is not null", {key for key, value in values.items() if value is not None}, {}),
            ]
            if not said.is_list:
                present = sorted({value for value in values.values() if value is not None})
                for value in present[:: max(1, len(present) - 1)]:
                    conditions += [
                        (f"{sign} $v", {key for key, each in values.items() if each is not None and holds(each, value)}, {"v": value})
                        for sign, holds in (("=", operator.eq), (">", operator.gt))
                    ]  # fmt: skip
            for condition, keys, parameters in conditions:
                variable = "$e" if self.history.is_edge else "$a"
                head = f"query q($v: {said.kind})" if parameters else "query q()"
                text = self.question([]).replace("query q()", head).replace(" } return", f"  {variable}.{said.name} {condition} }} return")  # fmt: skip
                rows = self.names[graph].query(text, parameters, revision=revision).rows
                if {row["id"] for row in rows} != keys:
                    self.text.append(f"print({graph}.query({text!r}, {parameters!r}, revision={revision!r}).rows)")
                    raise Mismatch(f"{said.name} {condition}: {sorted(keys)} are {sorted(row['id'] for row in rows)}")

    def some(self, model: Branch) -> list[str]:
        keys = sorted(model.rows[self.id])
        return keys[:: len(keys) // 4 + 1]

    def question(self, names: list[str]) -> str:
        variable = "$e" if self.history.is_edge else "$a"
        pattern = "$x: X  $y: X  $x $e:e $y" if self.history.is_edge else "$a: A"
        columns = [f"{variable}.{name} as {name}" for name in names]
        key = f"{variable}.id as id" if self.history.is_edge else "$a.name as id"
        return f"query q() {{ match {{ {pattern} }} return {{ {', '.join([key, *columns])} }} }}"

    # ------------------------------------------------------------ operations

    def operations(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for source, target in (("work", "main"), ("main", "work")):
            for strategy in ("fail", "ours", "theirs"):
                yield f"merge {source} into {target}, {strategy}", lambda s=source, t=target, u=strategy: self.merge(s, t, u)  # type: ignore[misc]  # fmt: skip
            yield f"merge {source} into {target}, by property", lambda s=source, t=target: self.merge(s, t, "theirs", "property")  # type: ignore[misc]  # fmt: skip
        for branch in ("main", "work"):
            yield f"load into {branch}", lambda b=branch: self.load(b)  # type: ignore[misc]
            yield f"patch, deletion and overwrite of {branch}", lambda b=branch: self.load_parts(b)  # type: ignore[misc]
            yield f"optimize {branch}", lambda b=branch: self.optimize(b)  # type: ignore[misc]
        for first in range(min(self.history.changes[0] + 1, len(self.forms) - 1)):
            yield f"append load that loses to change {first}", lambda f=first: self.race(f, "append", is_resumed=False)  # type: ignore[misc]  # fmt: skip
            yield f"merge load resumed after change {first}", lambda f=first: self.race(f, "merge", is_resumed=True)  # type: ignore[misc]  # fmt: skip
        for number, made in enumerate(self.made):
            is_schema_change = made.before is not None and made.before.types != made.model.types
            if made.before is not None and (is_schema_change or number % 3 == 0):
                yield f"revert commit {number}", lambda m=made: self.revert(m)  # type: ignore[misc]
            if is_schema_change or number % 3 == 1:
                yield f"reset to commit {number}", lambda m=made: self.reset(m)  # type: ignore[misc]
        yield "time travel", self.travel
        yield "older and newer schemas", self.look_through
        if self.history.on_disk:
            yield "clone", self.clone
            yield "push and pull", self.push_and_pull
            yield "push as one commit, and merge", self.push_as_one
        yield "optimize and cleanup", self.clean_up

    def branch_of(self, branch: str, made: Made | None = None) -> tuple[str, Branch]:
        name = f"{branch}{next(self.branches)}"
        self.run(
            f"g.branches.create({name!r}, {branch!r})" if made is None else f"g.branches.create({name!r}, {made.ref})"
        )
        return name, (self.models[branch] if made is None else made.model).copy()

    def afterwards(self, branch: str, model: Branch, graph: str = "g") -> None:
        """What was written stays, whatever is done to the rest."""
        self.check(branch, model, graph)
        keys = sorted(model.rows[self.id])
        if keys and graph == "g":
            self.update_other(branch, model, keys[next(self.count) % len(keys)])
            self.check(branch, model, graph, READERS[next(self.count) % len(READERS)])
        self.run(f"{graph}.maintenance.optimize({branch!r})")
        self.check(branch, model, graph)

    def merge(self, source: str, target: str, strategy: str, by: str = "row") -> None:
        other, theirs = self.branch_of(source)
        name, ours = self.branch_of(target)
        result = self.merge_into(name, ours, other, theirs, strategy, self.fork.model, by=by)
        if result is not None:
            self.afterwards(name, result)
            # And back again, which is a fast-forward unless the other side won something.
            self.run(f"g.branches.merge({name!r}, {other!r}, strategy='theirs')")
            self.check(other, result)

    def merge_into(
        self,
        name: str,
        ours: Branch,
        other: str,
        theirs: Branch,
        strategy: str,
        base: Branch,
        graph: str = "g",
        by: str = "row",
    ) -> Branch | None:
        is_fast_forward = self.head(name, graph) == self.fork.id
        is_up_to_date = self.head(other, graph) == self.fork.id
        expected: Branch | Conflict
        try:
            expected = merged(base, ours, theirs, strategy, by)
        except Conflict as conflict:
            expected = conflict
        if is_fast_forward or is_up_to_date:
            expected = theirs.copy() if is_fast_forward else ours.copy()
        return self.expect(f"{graph}.branches.merge({other!r}, {name!r}, strategy={strategy!r}, by={by!r})", expected)

    def expect(self, text: str, expected: Branch | Conflict) -> Branch | None:
        """What a merge or a revert must do: the model afterwards, None if it must refuse."""
        if isinstance(expected, Branch):
            self.run(text)
            return expected
        self.text.append(f"# conflicts of {expected.on}: {text}")
        try:
            exec(text, self.names)
        except MergeConflicts as error:
            found = (bool(error.schema_conflicts), bool(error.conflicts))
            if found != (expected.on == "schema", expected.on == "rows"):
                raise Mismatch(f"conflicts of {expected.on}, not {error}") from None
            return None
        raise Mismatch(f"merged, where there are conflicts of {expected.on}")

    def head(self, branch: str, graph: str = "g") -> str:
        return str(self.names[graph].show(branch).id)

    def load(self, branch: str) -> None:
        for mode in ("append", "merge"):
            name, model = self.branch_of(branch)
            self.run(f"g.load({self.file(model, mode)}, mode={mode!r}, branch={name!r}, engine='local')")
            self.afterwards(name, model)

    def load_parts(self, branch: str) -> None:
        """A load of one column, of ids to delete, and of all rows."""
        name, model = self.branch_of(branch)
        keys = sorted(model.rows[self.id])
        for at, said in model.types[self.id].properties.items():
            number = next(self.count)
            value = number if said.name == "n" else _value(said, number)
            lines = [self.record(key, {said.name: value}) for key in keys[:: len(keys) // 2 + 1]]
            if lines:
                self.run(f"g.load({self.lines(lines)}, mode='patch', branch={name!r}, engine='local')")
                for key in keys[:: len(keys) // 2 + 1]:
                    model.rows[self.id][key][at] = value
        self.check(name, model)
        if keys:
            self.run(
                f"g.load({self.lines([self.record(keys[0], {})])}, mode='delete', branch={name!r}, engine='local')"
            )
            del model.rows[self.id][keys[0]]
        self.afterwards(name, model)
        model.rows[self.id].clear()
        self.run(f"g.load({self.file(model, 'append')}, mode='overwrite', branch={name!r}, engine='local')")
        self.afterwards(name, model)

    def file(self, model: Branch, mode: str, count: int | None = None) -> str:
        """A file with rows, which the model then has: new ones, and for a merge one that is there."""
        keys = [f"l{next(self.count)}" for _ in range(self.history.bound + 2 if count is None else count)]
        if mode == "merge" and model.rows[self.id]:
            keys.append(min(model.rows[self.id]))
        lines = []
        for key in keys:
            written, held = self.row(model)
            lines.append(self.record(key, written))
            model.rows[self.id][key] = held
        return self.lines(lines)

    def record(self, key: str, values: dict[str, Value]) -> dict[str, Any]:
        if self.history.is_edge:
            return {"edge": "E", "from": "x", "to": "x", "data": {"id": key, **values}}
        return {"type": "A", "data": {"name": key, **values}}

    def lines(self, lines: list[dict[str, Any]]) -> str:
        """A file with these records."""
        name = f"f{next(self.count)}.jsonl"
        self.run(f'(folder / "{name}").write_text("".join(json.dumps(each) + "\\n" for each in {lines!r}))')
        return f'folder / "{name}"'

    def race(self, first: int, mode: str, *, is_resumed: bool) -> None:
        """A load is staged; then the changes from `first` on are made, and one more commit; then the load is published."""
        start = self.before_change(first)
        if start is None:
            return
        made, at = start
        name, model = self.branch_of("race", made)
        staged = model.copy()
        file = self.file(staged, mode)
        load = f"g.load({file}, mode={mode!r}, branch={name!r}, engine='local')"
        loaded = {key: row for key, row in staged.rows[self.id].items() if key not in model.rows[self.id] or row != model.rows[self.id][key]}  # fmt: skip
        program, expected = self.meanwhile(name, model, at, first)
        if is_resumed:
            self.run(f"""arm(Failpoint.RECOVERY_PLAN_WRITTEN, raising(FailpointReached()))
try: {load}
except FailpointReached: disarm_all()
{program}""")
            text = "for each in g.recovery.list(): g.recovery.resume(each.commit_id)"
        else:
            lines = "\n    ".join(["disarm_all()", *program.splitlines()])
            self.run(f"h = og.open(g.uri)\ndef meanwhile():\n    {lines}".replace("apply(g", "apply(h").replace("with g.", "with h."))  # fmt: skip
            text = f"arm(Failpoint.LOAD_BEFORE_PUBLISH, meanwhile)\n{load}"
        model = expected
        is_refused = self.sets_dropped(loaded, model) or self.lacks_required(loaded, model)
        self.text.append(text)
        try:
            exec(text, self.names)
        except ExpectedVersionMismatch as error:
            if not is_refused:
                raise Mismatch(f"the load was refused: {error}") from error
        else:
            if is_refused:
                raise Mismatch("the load was not refused")
            for key, row in loaded.items():
                model.rows[self.id][key] = row
                for property_at, said in model.types[self.id].properties.items():
                    row.setdefault(property_at, said.fill)
        finally:
            disarm_all()
            for each in self.graph.recovery.list():
                self.graph.recovery.discard(each.commit_id)
        self.afterwards(name, model)

    def before_change(self, first: int) -> tuple[Made, Identity | None] | None:
        """The last commit before a change on the base line, or where the branches parted; and the property there."""
        before = self.history.changes[0]
        if first > before:
            return None
        wanted = self.forms[first]
        for made in reversed(self.made[: self.made.index(self.fork) + 1]):
            properties = made.model.types[self.id].properties
            subject = [at for at, said in properties.items() if said.name != "n"]
            is_wanted = (not subject and wanted is None) or (
                bool(subject) and wanted is not None and _form(properties[subject[0]]) == _form(wanted)
            )
            if is_wanted:
                return made, subject[0] if subject else None
        return None

    def meanwhile(self, name: str, model: Branch, at: Identity | None, first: int) -> tuple[str, Branch]:
        """The changes from one on, as far as rows allow them, and one more row."""
        text, model = [], model.copy()
        for form in self.forms[first + 1 :]:
            wanted = model.copy()
            at, renamed = step(wanted, self.id, at, form)
            if wanted.breaks_rules():
                break
            text.append(f'apply(g, """{wanted.text(renamed)}""", {name!r})')
            model = wanted
        written, held = self.row(model)
        key = f"z{next(self.count)}"
        row = {**self.entity(key), **written}
        text.append(f"with g.transaction({name!r}) as tx: tx.insert({self.type_name!r}, {row!r})")
        model.rows[self.id][key] = held
        return "\n".join(text), model

    def sets_dropped(self, rows: dict[str, dict[Identity, Value]], model: Branch) -> bool:
        declared_now = model.types[self.id].properties
        return any(at not in declared_now and value is not None for row in rows.values() for at, value in row.items())

    def lacks_required(self, rows: dict[str, dict[Identity, Value]], model: Branch) -> bool:
        return any(
            not said.allows(row.get(at, said.fill))
            for row in rows.values()
            for at, said in model.types[self.id].properties.items()
        )

    def optimize(self, branch: str) -> None:
        name, model = self.branch_of(branch)
        self.afterwards(name, model)
        for reader in READERS:
            self.check(name, model, reader=reader)

    def revert(self, made: Made) -> None:
        branch = "main" if made.line == "base" else made.line
        assert made.before is not None
        for strategy in ("fail", "theirs"):
            name, ours = self.branch_of(branch)
            expected: Branch | Conflict
            try:
                expected = merged(made.model, ours, made.before, strategy)
            except Conflict as conflict:
                expected = conflict
            if self.head(name) == made.id:
                expected = made.before.copy()
            result = self.expect(f"g.revert({made.ref}, branch={name!r}, strategy={strategy!r})", expected)
            if result is not None:
                self.afterwards(name, result)
                return

    def reset(self, made: Made) -> None:
        name, _ = self.branch_of("main" if made.line == "work" else "work")
        self.run(f"g.reset({name!r}, {made.ref})")
        self.afterwards(name, made.model.copy())

    def travel(self) -> None:
        for number, made in enumerate(self.made):
            self.check(made.id, made.model.copy(), reader=("table", *READERS)[number % 6])
        for branch in ("main", "work"):
            self.check_diff(branch)

    def check_diff(self, branch: str) -> None:
        """What changed since the branches parted: which rows came and went, and what they have now."""
        before, after = self.fork.model.rows[self.id], self.models[branch].entities()[self.type_name]
        text = f"list(g.diff({self.fork.ref}, {branch!r}, types=[{self.type_name!r}]))"
        found: dict[str, Any] = {change.id: change for change in eval(text, self.names)}
        ops = {op: {id for id, change in found.items() if change.op == op} for op in ("insert", "delete")}
        rows = {id: {name: change.after[name] for name in after[id]} for id, change in found.items() if id in after}
        if ops != {"insert": after.keys() - before.keys(), "delete": before.keys() - after.keys()} or not same(
            _sorted({id: after[id] for id in rows}), _sorted(rows)
        ):
            self.text.append(f"for change in {text}: print(change, change.after)")
            raise Mismatch(f"the difference of {branch}: {ops}, {_difference({id: after[id] for id in rows}, rows)}")

    def look_through(self) -> None:
        """Every state through every schema that there was: never a null where there is a value."""
        schemas: list[Made] = []
        for made in self.made:
            if all(made.model.types != other.model.types for other in schemas):
                schemas.append(made)
        for made, other in itertools.product([*schemas, self.fork, self.made[-1]], schemas):
            if other.model.types != made.model.types:
                self.look(made, other)

    def look(self, made: Made, other: Made) -> None:
        """A state through the schema of another."""
        wanted = made.model.under(other.model).copy()
        names = [said.name for said in wanted.types[self.id].properties.values()]
        text = f"g.query({self.question(names)!r}, revision={made.ref}, schema_of={other.ref}).rows"
        try:
            rows = eval(text, self.names)
        except UsageError as error:
            if not self.may_lack(made.model, other.model):
                self.text.append(text)
                raise Mismatch(f"refused: {error}") from error
            return
        found = {row["id"]: {name: row[name] for name in names} for row in rows}
        own = made.model.types[self.id].properties
        for key, row in wanted.rows[self.id].items():
            for at, said in wanted.types[self.id].properties.items():
                if at not in own:  # Added later, or dropped before: what nobody sees any more may be gone.
                    wanted.open[self.id, key, at] = [row[at], said.fill]
                elif not holds(said.kind, own[at].kind):
                    row[at] = _narrowed(said, row[at])
        wanted.settle({self.type_name: found})
        expected = wanted.entities()[self.type_name]
        if not same(_sorted(expected), _sorted(found)):
            self.text.append(f"for row in {text}: print(row)")
            raise Mismatch(f"{made.ref} through the schema of {other.ref}: {_difference(expected, found)}")

    def may_lack(self, state: Branch, schema: Branch) -> bool:
        own = state.types[self.id].properties
        for at, said in schema.types[self.id].properties.items():
            if at not in own:
                if said.required and said.fill is None:
                    return True
            elif (said.required and not own[at].required) or not holds(said.kind, own[at].kind):
                return True
        return False

    # ------------------------------------------------------------ copies

    def clone(self) -> None:
        target = f"clone{next(self.count)}"
        self.run(f'og.clone(folder / "g", folder / "{target}"); c = og.open(folder / "{target}", durability="process")')
        for branch in ("main", "work"):
            self.afterwards(branch, self.models[branch].copy(), "c")

    def push_and_pull(self) -> None:
        self.run('c = og.open(folder / "copy", durability="process")')
        for branch, text in (("main", 'g.push(folder / "copy", "main")'), ("work", 'c.pull(folder / "g", "work")')):
            self.run(text)
            self.check(branch, self.models[branch].copy(), "c")

    def push_as_one(self) -> None:
        """The other copy has moved on from where the branches parted."""
        self.run('c = og.open(folder / "other", durability="process")')
        ours = self.fork.model.copy()
        written, held = self.row(ours)
        key = f"h{next(self.count)}"
        row = {**self.entity(key), **written}
        self.run(f"with c.transaction() as tx: tx.insert({self.type_name!r}, {row!r})")
        ours.rows[self.id][key] = held
        self.run('g.push(folder / "other", "main", to="incoming")')
        theirs = self.models["main"].copy()
        self.check("incoming", theirs, "c")
        result = self.merge_into("main", ours, "incoming", theirs, "fail", self.fork.model, "c")
        if result is not None:
            self.afterwards("main", result, "c")

    def clean_up(self) -> None:
        for branch in ("main", "work"):
            self.run(f"g.maintenance.optimize({branch!r})")
        if self.history.on_disk:
            self.run('age(folder / "g"); g = og.open(folder / "g", durability="process")')
        self.run("g.maintenance.cleanup(keep=1)")
        for branch in ("main", "work"):
            for reader in ("table", *READERS):
                self.check(branch, self.models[branch].copy(), reader=reader)
        report = self.names["g"].maintenance.verify(deep=True, all=True)
        if not report.is_whole:
            self.text.append("print(g.maintenance.verify(deep=True, all=True).findings)")
            raise Mismatch(f"verify: {report.findings}")


Row = dict[Identity, Value]


def step(model: Branch, id: Identity, at: Identity | None, form: Property | None) -> tuple[Identity | None, dict[Identity, str]]:  # fmt: skip
    """Change the declaration of the property in a model: its identity afterwards, and its name before if that changed."""
    properties, rows = model.types[id].properties, model.rows[id]
    if form is None:
        assert at is not None
        del properties[at]
        return None, {}
    if at is None:
        at = model.new_identity(id, form.name)
        properties[at] = replace(form, fill=form.seen(form.default) if form.required else None)
        for row in rows.values():
            row[at] = properties[at].fill
        return at, {}
    before = properties[at]
    for row in rows.values():
        row[at] = form.seen(row[at])
    properties[at] = replace(form, fill=form.seen(before.fill))
    return at, {} if before.name == form.name else {at: before.name}


def _form(said: Property) -> Property:
    return replace(said, fill=None)


def _value(said: Property, number: int) -> Value:
    scalar = said.kind.strip("[]")
    value = {
        "I32": number * 10,
        "I64": 2**40 + number,
        "U32": number * 10,
        "U64": 2**40 + number,
        "F32": number + 0.1,
        "F64": number + 1 / 3,
        "String": f"s{number}",
    }[scalar]
    alone = replace(said, kind=scalar).seen(value)
    return [alone, alone] if said.is_list else alone


def _narrowed(said: Property, value: Value) -> Value:
    """A value of a wider type as one of a narrower type, where it fits."""
    if isinstance(value, list) and not said.is_list:
        value = value[0]
    if isinstance(value, float) and said.kind.strip("[]")[0] in "IU":
        value = int(value)
    return value


def _sorted(entities: dict[str, dict[str, Value]]) -> dict[str, dict[str, Value]]:
    return {key: dict(sorted(row.items())) for key, row in sorted(entities.items())}


def _difference(expected: dict[str, dict[str, Value]], found: dict[str, dict[str, Value]]) -> str:
    keys = sorted(key for key in {*expected, *found} if not same(_sorted({key: expected.get(key, {})}), _sorted({key: found.get(key, {})})))  # fmt: skip
    shown = [f"{key}: {expected.get(key)} is {found.get(key)}" for key in keys[:3]]
    return f"{len(keys)} of {len(expected)} entities, such as {'; '.join(shown)}"
