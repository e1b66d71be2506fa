"""The grammar files as a Markdown reference: their comments become prose, their rules stay as they are written."""

from __future__ import annotations

from importlib.resources import files

from omnigraph.language.query.forms import FORMS, SCHEMA
from omnigraph.language.query.functions import COALESCE, FUNCTIONS

_GRAMMARS = (("Schemas (`.pg`)", "schema/schema.lark"), ("Queries (`.gq`)", "query/query.lark"))

_HEAD = """# Grammar reference

The forms of queries with examples, the functions, and then, for tools, the grammars of both languages as they are.
"""

_FOR_TOOLS = """## For tools

Made from the grammar files of the two languages; `"word"` stands for itself, `/…/` is a regular expression, `?` `*` `+`
mean at most one, any number, at least one; `-> name` only names the alternative. Names in capitals are tokens; a name
that starts with `_` or `?` is a rule like any other.
"""


def grammar_reference() -> str:
    """The reference for both languages, as docs/grammar.md holds it."""
    parts = [_HEAD, _forms(), _functions(), _FOR_TOOLS]
    for title, name in _GRAMMARS:
        text = (files("omnigraph.language") / name).read_text(encoding="utf-8")
        parts.append(f"### {title}\n\n" + _section(text))
    return "\n".join(parts).rstrip("\n") + "\n"


def _forms() -> str:
    """Each form of a query, and an example."""
    parts = [f"## Forms of queries\n\nThe examples are over this schema:\n\n```pg\n{SCHEMA}```\n"]
    for form in FORMS:
        parts.append(f"**{form.title}** `{form.shape}`\n\n```gq\n{form.example}\n```\n")
    return "\n".join(parts)


def _functions() -> str:
    """The functions of values, from the table that the checker reads."""
    rows = [f"| `{function.shape}` | {function.meaning} |" for function in (*FUNCTIONS.values(), COALESCE)]
    head = "Null when an argument is null, except for `coalesce`. [Queries](queries.md#functions) has examples."
    return "\n".join([f"## Functions\n\n{head}\n", "| function | gives |", "|---|---|", *rows]) + "\n"


def _section(grammar: str) -> str:
    out: list[str] = []
    block: list[str] = []
    prose: list[str] = []

    def close(lines: list[str], *fence: str) -> None:
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        if lines:
            out.extend([*fence[:1], *lines, *fence[1:], ""])
            lines.clear()

    for line in grammar.splitlines():
        if line.startswith("//"):
            close(block, "```", "```")
            prose.append(_prose(line))
        else:
            close(prose)
            block.append(line.rstrip())
    close(block, "```", "```")
    close(prose)
    return "\n".join(out) + "\n"


def _prose(comment: str) -> str:
    """A comment without its slashes. Headings are moved two levels down, below the heading of the language."""
    text = comment.removeprefix("//").strip()
    return f"##{text}" if text.startswith("##") else text
