"""Syntax of other languages (Cypher, SQL, GQL) in a text that does not parse, answered with what to write in `.gq`, in the user's
own names."""

from __future__ import annotations

import re
from collections.abc import Callable

from omnigraph.language.query.syntax import KEYWORDS

# Statements of Cypher and SQL rewritten in `.gq`, with their own names: what errors about them propose.
#
# A proposal, not a translation: it is None if something has no counterpart here, and the error then gives simpler advice.

_CLAUSE = re.compile(
    r"\b(optional\s+match|match|where|return\s+distinct|return|order\s+by|skip|limit|create|merge)\b", re.IGNORECASE
)
_NODE = re.compile(r"\s*\(\s*(?P<name>\w*)\s*(?::\s*(?P<type>\w+))?\s*(?:\{(?P<properties>[^}]*)\})?\s*\)")
_EDGE = re.compile(
    r"\s*(?P<back><)?-\s*(?:\[\s*(?P<name>\w*)\s*(?::\s*(?P<type>\w+(?:\s*\|\s*:?\s*\w+)*))?\s*(?P<hops>\*[\d.]*)?[^\]]*\])?\s*-(?P<forward>>)?"
)
_SHORTEST = re.compile(r"\s*(?:(\w+)\s*=\s*)?(all)?shortestpaths?\s*\((.*)\)\s*,?\s*$", re.IGNORECASE | re.DOTALL)
_SELECT = re.compile(
    r"\s*select\s+(?P<columns>.+?)\s+from\s+(?P<table>\w+)"
    r"(?:\s+(?:as\s+)?(?!(?:where|order|limit|join|group|having)\b)(?P<alias>\w+))?"
    r"(?:\s+where\s+(?P<where>.+?))?(?:\s+limit\s+(?P<limit>\d+))?(?=\s+(?:order|group|limit|having)\b|\s*;|\s*$)",
    re.IGNORECASE | re.DOTALL,
)
_INSERT = re.compile(r"\s*insert\s+into\s+(\w+)\s*\(([^)]*)\)\s*values\s*\(([^)]*)\)", re.IGNORECASE)
_UPDATE = re.compile(r"\s*update\s+(\w+)\s+set\s+(.+?)\s+where\s+(.+?)\s*;?\s*$", re.IGNORECASE | re.DOTALL)
_DELETE = re.compile(r"\s*delete\s+from\s+(\w+)\s+where\s+(.+?)\s*;?\s*$", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(r"'(?P<quoted>[^'\n]*)'|\"[^\"\n]*\"|<>|==|(?P<word>\$?\b[A-Za-z_]\w*\b)(?P<property>\s*\.\s*\w+)?")
_WORDS = {
    *("and", "or", "not", "is", "null", "in", "as", "asc", "desc", "true", "false", "distinct"),
    *("contains", "starts_with", "ends_with", "case", "when", "then", "else", "end", "coalesce"),
    *("count", "sum", "avg", "min", "max", "collect"),
}


def edge_word(name: str) -> str:
    """`KNOWS` and `Knows` as `knows`, `WORKS_AT` as `worksAt`."""
    first, *rest = name.split("_") if name.isupper() else [name]
    return (first.lower() if first.isupper() else first[:1].lower() + first[1:]) + "".join(map(str.capitalize, rest))


def text_literal(inner: str) -> str:
    return '"' + inner.replace("\\", "\\\\").replace('"', '\\"') + '"'


def from_cypher(text: str) -> str | None:
    """The body of a query for a Cypher statement that begins with MATCH, OPTIONAL MATCH, CREATE or MERGE."""
    pieces = _CLAUSE.split(text)
    if len(pieces) < 3 or pieces[0].strip():
        return None
    clauses = [
        (" ".join(word.lower().split()), content) for word, content in zip(pieces[1::2], pieces[2::2], strict=True)
    ]
    if clauses[0][0] in ("create", "merge"):
        return _created(clauses[0][1])
    return _read(clauses)


def _read(clauses: list[tuple[str, str]]) -> str | None:
    written: list[str] = []
    variables: list[str] = []
    ends: list[str] = []
    paths: list[str] = []
    for word, content in clauses:
        if word in ("match", "optional match"):
            inside = _pattern(content, variables)
            if inside is None:
                return None
            paths += re.findall(r"shortest paths? \$(\w+)", inside)
            written.append(f"optional {{ {inside} }}" if word.startswith("optional") else inside)
        elif word == "where":
            written.append(_expression(content, variables))
        elif word.startswith("return"):
            columns = _expression(content, variables)
            for path in paths:
                columns = re.sub(rf"\${path}\b(?!\.)", f"${path}.nodes", columns)
            ends.append(f"{word} {{ {columns} }}")
        elif word == "order by":
            ends.append(f"order {{ {_expression(content, variables)} }}")
        elif re.match(r"\s*\d+", content):
            ends.append(f"{'offset' if word == 'skip' else 'limit'} {content.split()[0].rstrip(';')}")
    ends.sort(key=lambda end: end.startswith("offset"))
    return " ".join([f"match {{ {'  '.join(written)} }}", *ends])


def _pattern(text: str, variables: list[str]) -> str | None:
    """Paths between commas as clauses; their variables are added to `variables`."""
    shortest = _SHORTEST.match(text)
    if shortest is not None:
        variables += [shortest[1]] if shortest[1] else []
        number = "paths" if shortest[2] else "path"
        return _path(shortest[3], variables, f"shortest {number} ${shortest[1] or 'path'}")
    paths = re.split(r",(?=\s*(?:\w+\s*=\s*)?\()", text)
    clauses = [_path(re.sub(r"^\s*\w+\s*=\s*", "", path), variables) for path in paths]
    return None if None in clauses else "  ".join(clause for clause in clauses if clause)


def _path(text: str, variables: list[str], shortest: str | None = None) -> str | None:
    node = _NODE.match(text)
    clauses: list[str] = []
    hops: list[str] = []
    left = None
    while node is not None:
        name = node["name"] or f"{'abcdefgh'[len(hops) % 8]}"
        properties = f" {{ {_expression(node['properties'].strip(), [])} }}" if node["properties"] else ""
        if name not in variables:
            variables.append(name)
        if node["type"]:
            clauses.append(f"${name}: {node['type']}{properties}")
        if left is not None:
            hops.append(_hop(left[0], left[1], name, shortest))
        edge = _EDGE.match(text, node.end())
        if edge is None:
            return "  ".join([*clauses, *hops]) if clauses or hops else None
        if edge["name"]:
            variables.append(edge["name"])
        left, node = (name, edge), _NODE.match(text, edge.end())
    return None


def _hop(left: str, edge: re.Match[str], right: str, shortest: str | None) -> str:
    word = "|".join(map(edge_word, re.findall(r"\w+", edge["type"] or "edge")))
    bounds = ""
    if edge["hops"]:
        low, dots, high = edge["hops"][1:].partition("..")
        bounds = f"{{{low or 1},{high}}}" if dots or not low else f"{{{low},{low}}}"
    source, target = (right, left) if edge["back"] else (left, right)
    if not edge["back"] and not edge["forward"]:
        word = f"<{word}>"
    if shortest is not None:
        return f"{shortest} from ${source} to ${target} along {word}{bounds or '{1,}'}"
    bound = f"${edge['name']}:" if edge["name"] and not bounds else ""
    return f"${source} {bound}{word}{bounds} ${target}"


def _created(text: str) -> str | None:
    node = _NODE.match(text)
    if node is None or not node["type"] or not node["properties"]:
        return None
    return f"insert {node['type']} {{ {_expression(node['properties'].strip(), [])} }}"


def from_sql(text: str) -> str | None:
    """The body of a query for an SQL statement: SELECT, INSERT INTO, UPDATE or DELETE FROM."""
    if statement := _SELECT.match(text):
        return _selected(statement)
    if statement := _INSERT.match(text):
        values = zip(statement[2].split(","), statement[3].split(","), strict=False)
        return f"insert {_type(statement[1])} {{ {', '.join(f'{name.strip()}: {_expression(value, [])}' for name, value in values)} }}"
    if statement := _UPDATE.match(text):
        assignments = re.sub(r"(\w+)\s*=\s*", r"\1: ", _expression(statement[2], []))
        return f"update {_type(statement[1])} set {{ {assignments} }} where {_expression(statement[3], [])}"
    if statement := _DELETE.match(text):
        return f"delete {_type(statement[1])} where {_expression(statement[2], [])}"
    return None


def _selected(statement: re.Match[str]) -> str:
    alias = statement["alias"] or statement["table"][0].lower()

    def owned(text: str) -> str:
        """The text with the variable before every name that is not a word of the language."""
        unqualified = re.sub(rf"\b{alias}\s*\.\s*", "", text)
        return _expression(unqualified, [], owner=alias)

    columns = f"${alias}" if statement["columns"].strip() == "*" else owned(statement["columns"])
    condition = f"  {owned(statement['where'])}" if statement["where"] else ""
    limit = f" limit {statement['limit']}" if statement["limit"] else ""
    return f"match {{ ${alias}: {_type(statement['table'])}{condition} }} return {{ {columns} }}{limit}"


def _type(table: str) -> str:
    return table[:1].upper() + table[1:]


def _expression(text: str, variables: list[str], owner: str | None = None) -> str:
    """An expression with the operators, quotes and variables of `.gq`. With an owner, names are its properties."""
    text = re.sub(r"(?i)\b(starts|ends)\s+with\b", lambda word: f"{word[1].lower()}_with", text.strip().rstrip(";"))
    counted = owner or (variables[0] if variables else "p")
    text = re.sub(r"(?i)\bcount\s*\(\s*\*\s*\)", f"count(${counted})", text)

    def written(match: re.Match[str]) -> str:
        whole, word = match[0], match["word"]
        if match["quoted"] is not None:
            return text_literal(match["quoted"])
        if word is None:
            return {"<>": "!=", "==": "="}.get(whole, whole)
        if word.startswith("$"):
            return whole
        if word.lower() in _WORDS and not match["property"]:
            return word.lower()
        is_called = text[match.end() :].lstrip().startswith("(")
        is_alias = re.search(r"(?i)\bas\s+$", text[: match.start()]) is not None
        if word in variables:
            return "$" + "".join(whole.split())
        return whole if owner is None or is_called or is_alias else f"${owner}.{whole}"

    return " ".join(_TOKEN.sub(written, text).split())


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
