"""Habits of other languages (Cypher, SQL, GQL) in a text that is not in the grammar, answered in `.gq` with the user's own
names."""

from __future__ import annotations

import re
from collections.abc import Callable

from omnigraph.language.query.keywords import keywords

_CYPHER_NODE = r"\(\s*(\w*)\s*(?::\s*(\w+))?\s*(?:\{[^}]*\})?\s*\)"
_CYPHER_PATH = re.compile(
    rf"{_CYPHER_NODE}\s*(<)?-\s*(?:\[\s*(\w*)\s*(?::\s*(\w+))?(\*[\d.]*)?[^\]]*\])?\s*-(>)?\s*{_CYPHER_NODE}"
)
_CYPHER_START = re.compile(r"\s*(?i:match)\s*(?=\()")
_LONE_NODE = re.compile(_CYPHER_NODE)
_SELECT = re.compile(
    r"\s*select\s+(?P<columns>.+?)\s+from\s+(?P<table>\w+)(?:\s+(?:as\s+)?(?!where\b|order\b|limit\b|join\b)(?P<alias>\w+))?"
    r"(?:\s+where\s+(?P<where>.+?))?(?=\s+(?:order|group|limit|having)\b|\s*;|\s*$)",
    re.IGNORECASE | re.DOTALL,
)
_ARROW = re.compile(r"(\$\w+)\s*(<)?-\s*\[?\s*\$?\w*\s*:\s*(\w+)[^\]$\n]*\]?\s*-\s*>?\s*(\$\w+)")
_QUOTED = re.compile(r"'([^'\n]*)'")
_BOUND = re.compile(r"\$(\w+)\s*:\s*[A-Z]")
_ELSEWHERE = {
    "LIKE": 'texts are compared with contains, starts_with and ends_with: $p.name contains "part"',
    "ILIKE": 'compare in lower case: lower($p.name) contains "part"',
    "BETWEEN": "write two conditions: $p.age >= 1 and $p.age <= 9",
    "GROUP": "columns without an aggregate are the group: return { $p.city, count($p) }",
    "JOIN": "a traversal joins: $a knows $b",
    "FROM": "the types to read are bound in `match`: $p: Person",
    "CREATE": "write insert Type { property: value }",
    "MERGE": "an insert of a node with a key replaces it: insert Type { key: value }",
    "SKIP": "write offset",
    "WITH": "give a column an alias and use it in the columns after it: return { $p.age as age, age * 2 as double }",
}


def habit(text: str, position: int, word: str) -> str | None:
    """What to write instead, when what stands at the position is a habit of another language."""
    before, after = text[:position], text[position:]
    for answer in _ANSWERS:
        if (found := answer(before, after, word)) is not None:
            return found
    return None


def _variable(before: str, default: str = "p") -> str:
    """A variable that the text binds before the place."""
    names = _BOUND.findall(before)
    return f"${names[0]}" if names else f"${default}"


def _edge_word(name: str) -> str:
    """`KNOWS` and `Knows` as `knows`, `WORKS_AT` as `worksAt`."""
    first, *rest = name.split("_") if name.isupper() else [name]
    return (first.lower() if first.isupper() else first[:1].lower() + first[1:]) + "".join(map(str.capitalize, rest))


def _cypher(before: str, after: str, _word: str) -> str | None:
    """`MATCH (a:Person)-[:KNOWS]->(b)`."""
    start = _CYPHER_START.match(after)
    pattern = after[start.end() :] if start is not None else after if re.search(r"(?i)match\s*$", before) else ""
    path, node = _CYPHER_PATH.match(pattern), _LONE_NODE.match(pattern)
    if path is not None:
        left, left_type, back, edge_name, edge, hops, _forward, right, right_type = path.groups()
        ends = [f"${left or 'a'}", f"${right or 'b'}"]
        clauses = [f"{name}: {type_}" for name, type_ in zip(ends, (left_type, right_type), strict=True) if type_]
        word = (f"${edge_name}:" if edge_name else "") + _edge_word(edge or "edge") + ("{1,3}" if hops else "")
        source, target = reversed(ends) if back else ends
        return f"write match {{ {'  '.join([*clauses, f'{source} {word} {target}'])} }}"
    if node is not None:
        return f"write match {{ ${node[1] or 'p'}: {node[2] or 'Type'} }}"
    return None


def _select(_before: str, after: str, _word: str) -> str | None:
    """`SELECT name FROM Person WHERE age > 3`."""
    found = _SELECT.match(after)
    if found is None:
        return None
    alias = found["alias"] or found["table"][0].lower()
    columns = [column.strip().rpartition(".")[2] for column in found["columns"].split(",")]
    shown = [
        f"${alias}" if column == "*" else f"${alias}.{column}" for column in columns if re.fullmatch(r"\w+|\*", column)
    ]
    condition = ""
    if found["where"] is not None and (
        simple := re.match(r"(?:\w+\.)?(\w+)\s*(<>|[<>=!]+)\s*(.+)", found["where"].strip())
    ):
        op = {"<>": "!=", "==": "="}.get(simple[2], simple[2])
        condition = f"  ${alias}.{simple[1]} {op} {_QUOTED.sub(lambda m: _text(m[1]), simple[3])}"
    type_ = found["table"][:1].upper() + found["table"][1:]
    return (
        f"write query q() {{ match {{ ${alias}: {type_}{condition} }} return {{ {', '.join(shown) or f'${alias}'} }} }}"
    )


def _text(inner: str) -> str:
    return '"' + inner.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quotes(_before: str, after: str, _word: str) -> str | None:
    found = _QUOTED.match(after)
    return None if found is None else f"texts stand in double quotes: {_text(found[1])}"


def _operators(before: str, after: str, _word: str) -> str | None:
    left = re.search(r"(\$\w+(?:\.\w+)?)\s*[<=!]?\s*$", before)
    side = left[1] if left is not None else _variable(before) + ".name"
    if after.startswith("=") and before.endswith("="):
        return f"equality is a single sign: {side} = …"
    if (after.startswith(">") and before.endswith("<")) or after.startswith("<>"):
        return f"inequality is !=: {side} != …"
    for sign, word in (("&&", "and"), ("&", "and"), ("||", "or"), ("|", "or"), ("!", "not")):
        if after.startswith(sign):
            return f"write {word}"
    if after.startswith(("--", "#")):
        return "a comment starts with //"
    return None


def _arrow(before: str, after: str, _word: str) -> str | None:
    """`$a -[:knows]-> $b`."""
    for found in _ARROW.finditer(before + after):
        if found.start() <= len(before) <= found.end():
            source, back, edge, target = found.groups()
            ends = (target, source) if back else (source, target)
            return f"write {ends[0]} {_edge_word(edge)} {ends[1]}"
    return None


def _star(before: str, after: str, _word: str) -> str | None:
    called = re.search(r"(\w+)\s*\(\s*$", before)
    if not after.startswith("*") or called is None:
        return None
    return f"name what is counted: {called[1].lower()}({_variable(before)})"


def _capitals(before: str, after: str, word: str) -> str | None:
    if word.isupper() and word in _ELSEWHERE:
        return _ELSEWHERE[word]
    if word.isupper() and word.lower() in keywords():
        return f"keywords are written in lower case: {word.lower()}"
    return None


def _clauses(before: str, after: str, word: str) -> str | None:
    """Clauses of SQL in lower case, and braces that are missing."""
    if word == "by" and re.search(r"\border\s+$", before):
        key = re.match(r"by\s+\$?([\w.]+)", after)
        return f"write order {{ {('$' if key and '.' in key[1] else '') + (key[1] if key else 'name')} }}"
    if word in ("where", "group", "skip", "like") and word.upper() in _ELSEWHERE:
        return _ELSEWHERE[word.upper()]
    if word == "where" and re.search(r"\bmatch\s*\{[^}]*\}\s*$", before):
        return "a condition stands among the clauses of match { … }"
    opened = re.search(r"\b(match|return|order)\s+(?:distinct\s+)?$", before)
    if opened is not None and re.match(r"[$\w]", after):
        inside = re.match(r"\$?[\w.]+", after)
        return f"write {opened[1]} {{ {inside[0] if inside else '…'} }}"
    return None


def _without_sign(before: str, after: str, _word: str) -> str | None:
    """`p.name` without its `$`."""
    name = re.search(r"(?<![\w$.])([a-z_]\w*)$", before)
    property_ = re.match(r"\.(\w+)", after)
    return None if name is None or property_ is None else f"a variable starts with $: ${name[1]}.{property_[1]}"


_ANSWERS: tuple[Callable[[str, str, str], str | None], ...] = (
    _cypher,
    _select,
    _quotes,
    _star,
    _operators,
    _arrow,
    _clauses,
    _capitals,
    _without_sign,
)
