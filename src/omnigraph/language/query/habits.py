"""Syntax of other languages (Cypher, SQL, GQL) in a text that does not parse, answered with what to write in `.gq`, in the user's
own names."""

from __future__ import annotations

import re
from collections.abc import Callable

from omnigraph.language.query.foreign_statements import edge_word, from_cypher, from_sql, text_literal
from omnigraph.language.query.keywords import KEYWORDS

_CYPHER_START = re.compile(r"\s*(?i:match\s*(?:\w+\s*=\s*\w*\s*)?\(|optional\s+match\b|create\s*\(|merge\s*\()")
_ARROW = re.compile(r"(\$\w+)\s*(<)?-\s*\[?\s*\$?\w*\s*:\s*(\w+)[^\]$\n]*\]?\s*-\s*>?\s*(\$\w+)")
_QUOTED = re.compile(r"'([^'\n]*)'")
_BOUND = re.compile(r"\$(\w+)\s*:\s*[A-Z]")
WINDOW = 1_000
"""How many characters before and after a mistake are examined: some patterns take quadratic time."""
_ELSEWHERE = {
    "LIKE": 'texts are compared with contains, starts_with and ends_with: $p.name contains "part"',
    "ILIKE": 'compare in lower case: lower($p.name) contains "part"',
    "BETWEEN": "write two conditions: $p.age >= 1 and $p.age <= 9",
    "GROUP": "columns without an aggregate are the group: return { $p.city, count($p) }",
    "JOIN": "a traversal joins: $a knows $b",
    "FROM": "the types to read are bound in `match`: $p: Person",
    "CREATE": "write create Type { property: value }",
    "MERGE": "an upsert replaces the entity with the same key: upsert Type { key: value }",
    "SKIP": "write offset",
    "WITH": "write a stage: match { … } with { $p, count($q) as n } match { … } return { … }",
}


def habit(text: str, position: int, word: str) -> str | None:
    """What to write instead, if the text at the position is syntax of another language."""
    before, after = text[max(0, position - WINDOW) : position], text[position : position + WINDOW]
    for answer in _ANSWERS:
        if (advice := answer(before, after, word)) is not None:
            return advice
    return None


def _variable(before: str, default: str = "p") -> str:
    """A variable that the text binds before the position, or the default."""
    names = _BOUND.findall(before)
    return f"${names[0]}" if names else f"${default}"


def _statement(before: str, after: str, _word: str) -> str | None:
    """`MATCH (a:Person)-[:KNOWS]->(b)`, `SELECT name FROM Person`."""
    begun = re.search(r"(?i)\b(?:(?:optional\s+)?match|create)\s*$", before)
    if begun is not None and after.startswith("("):
        before, after = before[: begun.start()], begun[0] + after
    statement = _until_closed(after) if "{" in before else after
    body = from_cypher(statement) if _CYPHER_START.match(statement) else from_sql(statement)
    if body is None:
        return None
    return f"write {body}" if "{" in before else f"write query q() {{ {body} }}"


def _until_closed(text: str) -> str:
    """The text up to the brace that closes what was open before it."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return text[:place]
    return text


def _quotes(_before: str, after: str, _word: str) -> str | None:
    quoted = _QUOTED.match(after)
    return None if quoted is None else f"texts stand in double quotes: {text_literal(quoted[1])}"


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


def _arrow(before: str, after: str, word: str) -> str | None:
    """`$a -[:knows]-> $b`, `$a -> $b`, `$a KNOWS $b`."""
    left, right = re.search(r"(\$\w+)\s*-?\s*$", before), re.match(r"(\w+|>)\s*(\$\w+)", after)
    if left is not None and right is not None and (right[1] == ">" or word[:1].isupper()):
        edge = "knows" if right[1] == ">" else edge_word(right[1])
        return f"an edge is written by its name, with a small first letter: {left[1]} {edge} {right[2]}"
    for arrow in _ARROW.finditer(before + after):
        if arrow.start() <= len(before) <= arrow.end():
            source, back, edge, target = arrow.groups()
            ends = (target, source) if back else (source, target)
            return f"write {ends[0]} {edge_word(edge)} {ends[1]}"
    return None


def _star(before: str, after: str, _word: str) -> str | None:
    called = re.search(r"(\w+)\s*\(\s*$", before)
    if not after.startswith("*") or called is None:
        return None
    return f"name what is counted: {called[1].lower()}({_variable(before)})"


def _capitals(before: str, after: str, word: str) -> str | None:
    if word.isupper() and word in _ELSEWHERE:
        return _ELSEWHERE[word]
    if word.isupper() and word.lower() in KEYWORDS:
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
    if word == "{" and re.search(r"\breturn\s*(?:distinct\s*)?$", before):
        return "close match { … } before return"
    opened = re.search(r"\b(match|return|order)\s+(?:distinct\s+)?$", before)
    if opened is not None and re.match(r"[$\w]", after):
        inside = re.match(r"\$?[\w.]+", after)
        return f"write {opened[1]} {{ {inside[0] if inside else '…'} }}"
    return None


def _without_sign(before: str, after: str, _word: str) -> str | None:
    """`p.name` and `p: Person` without their `$`."""
    name = re.search(r"(?<![\w$.])([a-z_]\w*)$", before)
    rest = re.match(r"\.\w+|:\s*[A-Z]\w*", after)
    return None if name is None or rest is None else f"a variable starts with $: ${name[1]}{rest[0]}"


_ANSWERS: tuple[Callable[[str, str, str], str | None], ...] = (
    _statement,
    _quotes,
    _star,
    _operators,
    _arrow,
    _clauses,
    _capitals,
    _without_sign,
)
