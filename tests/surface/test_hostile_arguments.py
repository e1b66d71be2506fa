"""Every public method with values that nobody should give: OmnigraphError is all that leaves, and nothing is written."""

from __future__ import annotations

import contextlib
import datetime as dt
import inspect
import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import LanguageError, OmnigraphError, UsageError

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  seen: DateTime? }
edge Knows: Person -> Person { since: Date? }
"""
READ = "query all() { match { $p: Person } return { $p.name as name } }"


class Unspeakable:
    """Nothing can be asked of it."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


HOSTILE: list[Any] = [
    None,
    0,
    -1,
    True,
    1.5,
    float("nan"),
    10**5_000,
    -(10**5_000),
    "9" * 5_000,
    b"bytes",
    bytearray(b"bytes"),
    "",
    " ",
    "\0",
    "\ud800",
    "x\udfff",
    "漢" * 80,
    "a" * 10_000_000,
    "../x",
    "main~99999999999999999999",
    Path("a\0b"),
    Path("missing"),
    [],
    [1],
    [["a"]],
    {},
    {1: 2},
    {"\ud800": "\ud800"},
    iter([]),
    dt.datetime.min,
    dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-14))),
    object(),
    Unspeakable(),
    Unspeakable,
]
RIGHT: dict[str, Any] = {
    "gq": READ,
    "text": "SELECT 1 AS n",
    "schema": SCHEMA,
    "queries": "tests/language/query",
    "type": "Person",
    "type_name": "Person",
    "id": "Ada",
    "name": "another",
    "property": "name",
    "actor": "ada",
    "a": "main~1",
    "b": "main",
    "source": "side",
    "commit_id": "nothing",
    "commit": "main",
    "branch": "side",
    "to": "main",
    "rows": [],
    "frames": "Person",
    "sources": {},
    "mode": "append",
    "revision": "main",
}
SKIPPED = {"self", "more", "progress"}
"""Progress goes to the terminal, or to a function of the caller, whose errors are its own."""


@pytest.fixture(scope="module")
def graph() -> og.Graph:
    graph = og.init("memory://hostile-arguments", SCHEMA)
    with graph.transaction() as transaction:
        transaction.insert("Person", name="Ada")
        transaction.insert("Knows", from_="Ada", to="Ada")
    graph.branches.create("side")
    graph.tags.create("first")
    return graph


def places() -> Iterator[tuple[str, str, str]]:
    for part, kind in (
        ("", og.Graph),
        ("branches", og.types.GraphBranches),
        ("tags", og.types.GraphTags),
        ("recovery", og.types.GraphRecovery),
        ("transaction", og.Transaction),
    ):
        for method, member in inspect.getmembers(kind, inspect.isfunction):
            if not method.startswith("_") and method not in ("close", "spark"):
                for parameter in inspect.signature(member).parameters:
                    if parameter not in SKIPPED:
                        yield part, method, parameter


@pytest.mark.parametrize(("part", "method", "parameter"), list(places()))
def test_only_our_errors_leave_a_method(
    graph: og.Graph, part: str, method: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = held(graph)
    for value in HOSTILE:
        owner: Any = graph.transaction() if part == "transaction" else getattr(graph, part) if part else graph
        with only_our_errors():
            _call(getattr(owner, method), parameter, value)
    assert held(graph) == before


@contextlib.contextmanager
def only_our_errors() -> Iterator[None]:
    """Whatever leaves is an OmnigraphError that can be printed, and sent as JSON, without megabytes in it."""
    left: list[OmnigraphError] = []
    try:
        yield
    except OmnigraphError as error:
        left.append(error)
    for error in left:
        assert len(json.dumps(error.to_json()).encode()) < 30_000
        text = error.render() if isinstance(error, LanguageError) else f"{error}"
        assert len(text.encode()) < 10_000


def held(graph: og.Graph) -> dict[str, int]:
    return {state.name: state.entities for state in graph.snapshot().types}


def _call(method: Callable[..., Any], hostile: str, value: Any) -> None:
    positional: list[Any] = []
    options: dict[str, Any] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        required = parameter.default is inspect.Parameter.empty and name in RIGHT
        if name in ("target", "out"):
            given: Any = value if name == hostile else io.BytesIO()
        elif name == "dry_run" and hostile in ("schema", "resolutions"):  # an empty text is a schema, of no types
            given = True
        elif name == hostile:
            given = value
        elif not required:
            continue
        else:
            given = RIGHT[name]
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) and (
            len(positional) == list(inspect.signature(method).parameters).index(name)
        ):
            positional.append(given)
        else:
            options[name] = given
    if method.__name__ == "load":
        options.setdefault("engine", "local")
    if method.__name__ == "wait_for_change":  # of which the head is another one, or for no time
        options.setdefault(*(("timeout", 0) if hostile == "since" else ("since", "0" * 26)))
    result = method(*positional, **options)
    if inspect.isgenerator(result):
        list(itertools.islice(result, 3))


@pytest.mark.parametrize("function", [og.init, og.open, og.lint, og.lint_schema, og.Runtime])
def test_only_our_errors_leave_a_function(
    function: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    right = {"uri": "memory://never-made", "gq": READ, "schema": SCHEMA}
    for name in inspect.signature(function).parameters:
        for value in HOSTILE:
            needed = {n: right[n] for n in inspect.signature(function).parameters if n in right}
            with only_our_errors():
                function(**{**needed, name: value})


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_only_our_errors_leave_a_value(graph: og.Graph, value: Any) -> None:
    for name in ("name", "age", "tags", "seen", "id", "nothing"):
        for write in (
            lambda tx, name=name: tx.insert("Person", {"name": "x", name: value}),
            lambda tx, name=name: tx.upsert("Person", {"name": "Ada", name: value}),
            lambda tx, name=name: tx.update("Person", "Ada", {name: value}),
            lambda tx, name=name: tx.insert_many("Person", [{"name": "x", name: value}]),
            lambda tx: tx.insert("Knows", from_=value, to="Ada"),
        ):
            transaction = graph.transaction()
            with only_our_errors():
                write(transaction)
            transaction.rollback()
    for type_ in ("String", "I32", "U64", "F64", "Bool", "Date", "DateTime", "[String]", "Vector(3)"):
        text = f"query q($x: {type_}?) {{ match {{ $p: Person }} return {{ $p.name as name, $x as x }} }}"
        with only_our_errors():
            graph.query(text, {"x": value})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda g: g.query(7), "'gq' must be text or a path, got int"),
        (lambda g: g.query(READ, [1]), "'params' must be a mapping by names, got list"),
        (lambda g: g.commits(limit="9"), "'limit' must be an integer, got str"),
        (lambda g: g.commits(limit=2**70), "'limit' is beyond 64 bits"),
        (
            lambda g: g.show("a\ud800"),
            "'revision' cannot be encoded in UTF-8: character 2 is half of a surrogate pair",
        ),
        (lambda g: g.diff("main~1", "main", types="Person"), "'types' must be a list of texts, got str"),
        (lambda g: g.diff("main~1", "main", types=[7]), "'types' must be a list of texts, got int in it"),
        (lambda g: g.branches.delete("side", force="no"), "'force' must be True or False, got str"),
        (lambda g: g.baseline("a\0b"), "'out' contains a NUL character"),
        (lambda g: g.recovery.discard(None), "'commit_id' must be text, got NoneType"),
        (
            lambda g: g.transaction().insert_many("Person", [7]),
            "'rows' must be a list of mappings or Arrow, got int in it",
        ),
        (lambda g: g.transaction(actor=5), "the actor must be text, got int"),
    ],
)
def test_a_wrong_argument_is_named(graph: og.Graph, call: Callable[[og.Graph], object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(graph)
    assert str(caught.value) == said


def test_a_property_may_have_the_name_of_an_argument() -> None:
    graph = og.init("memory://names-of-arguments", "node Thing { type_name: I32?  values: I32? }")
    with graph.transaction() as transaction:
        thing = transaction.insert("Thing", type_name=1, values=2)
        transaction.update("Thing", thing, type_name=3)
    assert graph.entity("Thing", thing) == {"id": thing, "type_name": 3, "values": 2}


@pytest.mark.parametrize("address", ["http://localhost:8080", "https://example.org/graphs/people"])
def test_opening_the_address_of_a_server_names_connect(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        og.open(address)
    assert f'og.connect("{address}"' in str(refused.value)
