"""docs/reference/library.md, generated from the library: every public name with its signature, its docstring and its example.

An example is the lines of a docstring that begin with `>>>`; the page is run by a test, from top to bottom.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import sys
import typing
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType

import omnigraph as og

INTRODUCTION = '''# Library

Made from the library itself; `help(og.Graph.query)` shows the same. The examples on this page are run by a test, in this
order, on this small graph:

```python
import datetime as dt
from pathlib import Path

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32?  born: DateTime? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City @card(0..1)
"""
Path("people.gq").write_text("""
query friends($of: String) { match { $a: Person { name: $of }  $a knows $b } return { $b.name as name } order { name } }
query everyone() { match { $p: Person } return { $p.name as name, $p.age as age } order { name } }
query grow($name: String, $age: I32) { update Person set { age: $age } where name = $name }
""")
Path("people.jsonl").write_text("""
{"type": "Person", "data": {"name": "Ada", "age": 36, "born": "1815-12-10T06:30:00Z"}}
{"type": "Person", "data": {"name": "Bo", "age": 27}}
{"type": "City", "data": {"name": "Paris"}}
{"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"id": "ada-bo", "since": "2020-05-01"}}
""")
Path("Person.csv").write_text("name,age\\nAda,36\\nBo,27\\n")
g = og.init("./people", SCHEMA)
g.load("people.jsonl", mode="append", engine="local", actor="ada")
```

Names that begin with `types` are in `omnigraph.types`: what calls return, for annotations. Every error is an `og.errors.OmnigraphError`; [errors](errors.md) lists them. Times are `datetime` in UTC; a time without a
zone means UTC.
'''

SECTIONS: dict[str, tuple[str, ...]] = {
    "Opening and checking": ("init", "open", "connect", "clone", "Runtime", "lint", "lint_schema"),
    "Data as it is found": ("infer_schema", "InferredSchema", "import_data", "Imported"),
    "The graph": (
        *("Graph", "Transaction", "GraphSchema", "GraphBranches", "GraphTags", "GraphMaintenance", "GraphRecovery"),
    ),
    "A graph of a server": (
        *("RemoteGraph", "RemoteSchema", "RemoteBranches", "RemoteTags", "RemoteMaintenance", "RemoteRecovery"),
        *("RemoteStoredQueries", "ServedQuery"),
    ),
    "Results of reads": (
        "Result",
        "ResultColumn",
        "Timing",
        "SqlResult",
        "SqlColumn",
        "Explanation",
        "Step",
        "InputColumns",
        "InputChoice",
        "Picture",
        "PictureNode",
        "PictureEdge",
        "GraphTables",
        "GraphAlgorithms",
        "AlgorithmResult",
        "Blob",
        "Cancellation",
    ),
    "What writes did": (
        *(
            "Receipt",
            "TypeCounts",
            "LoadReceipt",
            "LoadCounts",
            "LoadRefusal",
            "MissingNodes",
            "LoadExplanation",
            "Stage",
        ),
        *("Status", "MergeResult", "TypeSummary"),
        *("EmbedReport", "EmbeddedProperty"),
        *("MergeConflict", "Resolution", "PropertyConflict", "NoValue", "NO_VALUE", "SchemaLine", "SchemaConflict"),
    ),
    "History": (
        *(
            "Commit",
            "CommitRef",
            "Branch",
            "Distance",
            "Tag",
            "PreparedWrite",
            "GraphSnapshot",
            "TypeState",
            "EntityVersion",
        ),
    ),
    "Health": (
        *("VerifyReport", "Finding", "RepairReport", "RepairStep"),
        *("OptimizeReport", "TableReport", "TableShape", "PendingIndex", "CopyReport"),
        *("CleanupReport", "StorageReport", "TypeStorage", "IndexState", "KeptBy", "Totals"),
    ),
    "Changes": ("EntityChange", "TypeChanges", "CommitChanges", "CommitPage", "FeedPage", "Baseline"),
    "Policies": ("load_policy", "Policy", "Decision", "Authorizer", "AccessRequest"),
    "Schemas": (
        *("Catalog", "NodeType", "EdgeType", "InterfaceType", "Property", "PropertyType", "Scalar", "Constraint"),
        *("Annotation", "Embed", "Family", "StoredColumn", "MigrationPlan", "SchemaReceipt", "BrokenQuery"),
        *("LintReport", "LintedQuery", "QueryFinding", "SchemaFinding"),
    ),
    "Types": ("Engine", "Entity", "Value", "JsonValue", "EntityType", "LiteralValue", "MigrationStep", "__version__"),
}
ON_SPARK = {"Graph.spark", "GraphTables", "GraphTables.table", "GraphTables.diff"}
"""Examples that need Spark."""


def library_reference() -> str:
    lines = [INTRODUCTION]
    for title, names in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _name(name)
    return "\n".join(lines).rstrip("\n") + "\n"


def _name(name: str) -> Iterator[str]:
    value = getattr(og if name in og.__all__ else og.types, name)
    yield f"### {name}" if name in og.__all__ else f"### types.{name}"
    yield ""
    if inspect.isclass(value):
        yield from _class(value)
    elif inspect.isfunction(value):
        yield from _signature(name, value)
        yield from _documentation(name, inspect.getdoc(value) or "")
    else:
        yield from _constant(name, value)


def _class(kind: type) -> Iterator[str]:
    yield from _documentation(kind.__name__, inspect.getdoc(kind) or "")
    attributes = list(_attributes(kind))
    if attributes:
        yield "| attribute | type | |"
        yield "|---|---|---|"
        yield from (f"| `{name}` | `{_cell(type)}` | {_cell(doc)} |" for name, type, doc in attributes)
        yield ""
    for name, member in _members(kind):
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType):
            full = f"{kind.__name__}.{name}"
            yield f"#### {full}"
            yield ""
            documentation = inspect.getdoc(function) or ""
            shared = kind is og.RemoteGraph and documentation == inspect.getdoc(getattr(og.Graph, name, None))
            yield from _signature(full, function)
            yield from _documentation(
                full, f"As `Graph.{name}`; what a server cannot do is refused by name." if shared else documentation
            )


def _members(kind: type) -> Iterator[tuple[str, object]]:
    """The public members that the package defines, in the order of the source."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("omnigraph"):
            for name, member in vars(base).items():
                if not name.startswith("_") and name not in seen:
                    seen.add(name)
                    yield name, member


def _attributes(kind: type) -> Iterator[tuple[str, str, str]]:
    """Fields and properties: name, type and documentation."""
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("omnigraph"):
            yield from _fields(base)
    for name, member in _members(kind):
        getter = member.fget if isinstance(member, property) else getattr(member, "func", None)
        if isinstance(member, property | cached_property) and getter is not None:
            yield name, str(getter.__annotations__.get("return", "")), _prose(inspect.getdoc(member) or "")


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    (tree,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    for statement, following in itertools.pairwise([*tree.body, None]):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if not name.startswith("_"):
                match following:
                    case ast.Expr(value=ast.Constant(value=str(doc))):
                        yield name, ast.unparse(annotation), inspect.cleandoc(doc)
                    case _:
                        yield name, ast.unparse(annotation), ""
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(word))) if name.isupper():
                yield name, repr(word), ""


def _constant(name: str, value: object) -> Iterator[str]:
    """An alias or a constant: its definition and its documentation."""
    module = next(
        (sys.modules[home] for home, names in (og._EXPORTS | og.types._EXPORTS).items() if name in names.split()),
        None,
    )
    tree = ast.parse(inspect.getsource(module)).body if module is not None else []
    for statement, following in itertools.pairwise([*tree, None]):
        match statement:
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as defined) if found == name:
                pass
            case ast.Assign(targets=[ast.Name(id=found)], value=defined) if found == name:
                pass
            case _:
                continue
        yield from ("```text", f"{name} = {ast.unparse(defined)}", "```", "")
        match following:
            case ast.Expr(value=ast.Constant(value=str(doc))):
                yield from _documentation(name, inspect.cleandoc(doc))
        return
    yield from ("```text", f"{name} = {value!r}", "```", "")


def _signature(name: str, function: FunctionType) -> Iterator[str]:
    yield "```text"
    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in ("self", "cls")]
    yield name + _parameters(signature.replace(parameters=parameters), function.__module__)
    yield "```"
    yield ""


def _parameters(signature: inspect.Signature, module: str) -> str:
    """On one line if it fits, otherwise one parameter per line."""
    pieces: list[str] = []
    has_star = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            pieces.append("*")
            has_star = True
        star = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {_literal(parameter.default)}"
        pieces.append(f"{star}{parameter.name}: {_spelled_out(parameter.annotation, module)}{default}")
        following = list(signature.parameters.values())
        place = following.index(parameter) + 1
        if parameter.kind is parameter.POSITIONAL_ONLY and (
            place == len(following) or following[place].kind is not parameter.POSITIONAL_ONLY
        ):
            pieces.append("/")
    result = f" -> {signature.return_annotation}"
    line = f"({', '.join(pieces)}){result}"
    return line if len(line) <= 100 else "(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){result}"


def _spelled_out(annotation: str, module: str) -> str:
    """An annotation with the names of literals expanded: `"append" | "merge"` instead of `LoadMode`."""

    def words(name: re.Match[str]) -> str:
        meant = _meant(name[0], module)
        return (
            name[0]
            if typing.get_origin(meant) is not typing.Literal
            else " | ".join(map(_literal, typing.get_args(meant)))
        )

    return re.sub(r"\b[A-Z]\w+\b(?!\.)", words, annotation)


def _meant(name: str, module: str) -> object:
    """The object that a name refers to in a module, including imports for the type checker."""
    namespace = sys.modules[module]
    if hasattr(namespace, name):
        return getattr(namespace, name)
    for node in ast.walk(ast.parse(inspect.getsource(namespace))):
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            return getattr(importlib.import_module(node.module), name, None)
    return None


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _documentation(name: str, text: str) -> Iterator[str]:
    prose, example = _prose(text, "\n"), list(example_of(text))
    if prose:
        yield from (prose, "")
    if example:
        yield "```python spark" if name in ON_SPARK else "```python"
        yield from example
        yield from ("```", "")


def _prose(text: str, joined: str = " ") -> str:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith((">>>", "..."))]
    return joined.join(lines).strip() if joined == "\n" else " ".join(" ".join(lines).split())


def example_of(text: str) -> Iterator[str]:
    """The code of a docstring's example, without its prompts."""
    for line in text.splitlines():
        code = line.lstrip()
        if code.startswith((">>>", "...")):
            yield code[4:]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
