"""A process that may open no more files: every call ends, with an error that says what to do, and works again afterwards."""

from __future__ import annotations

import json
from pathlib import Path

from children import Child

PROGRAM = """
import contextlib, json, os, resource, sys
import omnigraph as og
from omnigraph.errors import OmnigraphError

folder = sys.argv[1]
SCHEMA = "node P { name: String @key  age: I32? @index }\\nedge Knows: P -> P"
records = os.path.join(folder, "records.jsonl")


@contextlib.contextmanager
def free_descriptors(count):
    held = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for handle in held[:count]:
            os.close(handle)
        del held[:count]
        yield
    finally:
        for handle in held:
            os.close(handle)


numbers = iter(range(1000))
insert = lambda graph, **where: graph.mutate(
    "query m($n: String) { insert P { name: $n } }", {"n": f"x{next(numbers)}"}, **where
)
CALLS = {
    "read": lambda g: g.query("query q() { match { $p: P  $p knows $q } return { $q.name, $p.age } }"),
    "sql": lambda g: g.sql("select sum(age) from P"),
    "insert": insert,
    "update": lambda g: g.mutate("query m() { update P set { age: 5 } where age > 2 }"),
    "load": lambda g: g.load(records, mode="merge", engine="local"),
    "export": lambda g: g.export(os.path.join(folder, f"{next(numbers)}.jsonl")),
    "branch": lambda g: g.branches.create(f"b{next(numbers)}"),
    "merge": lambda g: (insert(g, branch="side"), g.branches.merge("side")),
    "optimize": lambda g: g.maintenance.optimize(),
    "cleanup": lambda g: g.maintenance.cleanup(keep=1, dry_run=True),
    "verify": lambda g: g.maintenance.verify(),
    "open": lambda g: og.open(os.path.join(folder, "graph")),
    "clone": lambda g: og.clone(os.path.join(folder, "graph"), os.path.join(folder, f"copy{next(numbers)}")),
}


def outcome(call):
    try:
        call()
    except OmnigraphError as error:
        return "advice" if "ulimit -n" in (error.hint or "") else f"{type(error).__name__}: {error} ({error.hint})"
    except BaseException as error:
        return f"raw {type(error).__name__}: {error}"
    return "done"


resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
graph = og.init(os.path.join(folder, "graph"), SCHEMA)
# Lance and the client of object stores start with the first call that needs them, and never again if that fails.
seen = []
for free in (2, 5):
    with free_descriptors(free):
        seen.append(("first load", free, outcome(lambda: CALLS["load"](graph))))
        seen.append(("memory", free, outcome(lambda: og.init("memory://", SCHEMA))))
graph.load(records, mode="append", engine="local")
graph.branches.create("side")
for name, call in CALLS.items():
    seen.append((name, "many", outcome(lambda: call(graph))))
    for free in (0, 2):
        used = og.open(os.path.join(folder, "graph")) if free else graph
        with free_descriptors(free):
            seen.append((name, free, outcome(lambda: call(used))))
        seen.append((name, "again", outcome(lambda: call(used))))
print(json.dumps(seen))
"""


def test_without_descriptors_every_call_ends_with_advice_and_works_again(tmp_path: Path) -> None:
    people = [{"type": "P", "data": {"name": f"p{number}", "age": number}} for number in range(60)]
    edges = [{"edge": "Knows", "from": f"p{number}", "to": f"p{number // 2}"} for number in range(60)]
    (tmp_path / "records.jsonl").write_text("\n".join(map(json.dumps, people + edges)))
    child = Child(PROGRAM, str(tmp_path))
    try:
        line = child.stdout.readline()
        assert child.wait() == 0
    finally:
        child.close()
    outcomes: list[tuple[str, str | int, str]] = json.loads(line)
    wrong = [entry for entry in outcomes if entry[2] not in ("done", "advice")]
    assert not wrong
    assert not [entry for entry in outcomes if entry[1] in ("many", "again") and entry[2] != "done"]
    refused = {name for name, _, result in outcomes if result == "advice"}
    assert {"first load", "memory", "load", "merge", "cleanup", "clone"} <= refused
