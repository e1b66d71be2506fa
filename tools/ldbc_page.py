"""Writes docs/reference/ldbc.md from examples/ldbc/: page.md, with the files that it names in the place of their names.

python tools/ldbc_page.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER, PAGE = ROOT / "examples" / "ldbc", ROOT / "docs" / "reference" / "ldbc.md"


def page() -> str:
    """`{{social.pg}}` is a schema; `{{snb.gq ic}}` the queries of a file whose names begin with `ic`, a block each."""
    text = (FOLDER / "page.md").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\S+\.(pg|gq))(?: (\w+))?\}\}", lambda found: _blocks(found[1], found[2], found[3] or ""), text)


def _blocks(file: str, language: str, prefix: str) -> str:
    text = (FOLDER / file).read_text(encoding="utf-8").strip()
    if language == "pg":
        return f"```pg file={file}\n{text}\n```"
    queries = ["query " + query for query in text.removeprefix("query ").split("\n\nquery ")]
    return "\n\n".join(f"```gq\n{query}\n```" for query in queries if query.startswith(f"query {prefix}"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
