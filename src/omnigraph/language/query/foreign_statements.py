"""Statements of Cypher and SQL rewritten in `.gq`, with their own names: what errors about them propose.

A proposal, not a translation: it is None if something has no counterpart here, and the error then gives simpler advice.
"""

from __future__ import annotations

import re

_CLAUSE = re.compile(
    r"\b(optional\s+match|match|where|return\s+distinct|return|order\s+by|skip|limit|create|merge)\b", re.IGNORECASE
)
_NODE = re.compile(r"\s*\(\s*(?P<name>\w*)\s*(?::\s*(?P<type>\w+))?\s*(?:\{(?P<properties>[^}]*)\})?\s*\)")
_EDGE = re.compile(
    r"\s*(?P<back><)?-\s*(?:\[\s*(?P<name>\w*)\s*(?::\s*(?P<type>\w+))?\s*(?P<hops>\*[\d.]*)?[^\]]*\])?\s*-(?P<forward>>)?"
)
_SHORTEST = re.compile(r"\s*(?:(\w+)\s*=\s*)?(?:all)?shortestpaths?\s*\((.*)\)\s*,?\s*$", re.IGNORECASE | re.DOTALL)
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
            paths += re.findall(r"shortest path \$(\w+)", inside)
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
        return _path(shortest[2], variables, shortest_name=shortest[1] or "path")
    paths = re.split(r",(?=\s*(?:\w+\s*=\s*)?\()", text)
    clauses = [_path(re.sub(r"^\s*\w+\s*=\s*", "", path), variables) for path in paths]
    return None if None in clauses else "  ".join(clause for clause in clauses if clause)


def _path(text: str, variables: list[str], shortest_name: str | None = None) -> str | None:
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
            hops.append(_hop(left[0], left[1], name, shortest_name))
        edge = _EDGE.match(text, node.end())
        if edge is None:
            return "  ".join([*clauses, *hops]) if clauses or hops else None
        if edge["name"]:
            variables.append(edge["name"])
        left, node = (name, edge), _NODE.match(text, edge.end())
    return None


def _hop(left: str, edge: re.Match[str], right: str, shortest_name: str | None) -> str:
    word = edge_word(edge["type"] or "edge")
    bounds = ""
    if edge["hops"]:
        low, dots, high = edge["hops"][1:].partition("..")
        bounds = f"{{{low or 1},{high}}}" if dots or not low else f"{{{low},{low}}}"
    source, target = (right, left) if edge["back"] else (left, right)
    if not edge["back"] and not edge["forward"]:
        word = f"<{word}>"
    if shortest_name is not None:
        return f"shortest path ${shortest_name} from ${source} to ${target} along {word}{bounds or '{1,}'}"
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
