"""What `make docs` does to the pages of docs/ before MkDocs renders them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers._mapping import LEXERS

_FENCE = re.compile(r"^(```\w+)[ \t][^\n]*$", re.MULTILINE)


sys.path.append(str(Path(__file__).parent))
LEXERS["SchemaLexer"] = ("site_lexers", "OmniGraph schema", ("pg",), ("*.pg",), ())
LEXERS["QueryLexer"] = ("site_lexers", "OmniGraph query", ("gq",), ("*.gq",), ())


def on_config(config: Any) -> Any:
    """A folder in the navigation stands for all of its pages."""
    docs = Path(config["docs_dir"])
    for section in config["nav"]:
        for title, entries in section.items():
            if isinstance(entries, list):
                section[title] = [_expanded(docs, entry) for entry in entries]
    return config


def _expanded(docs: Path, entry: Any) -> Any:
    for title, target in entry.items():
        if isinstance(target, str) and target.endswith("/"):
            return {title: [f"{target}{page.name}" for page in sorted((docs / target).glob("*.md"))]}
    return entry


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Words behind the language of a block are for the tests that run it."""
    return _FENCE.sub(r"\1", markdown)
