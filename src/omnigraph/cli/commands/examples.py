"""examples, skill: documents that come with the package."""

from __future__ import annotations

import re
from pathlib import Path

import click

from omnigraph._internal.guides import guide, guides, title_of
from omnigraph.cli.options import command
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

_FILE_BLOCK = re.compile(r"^```\w+[^\n]* file=(\S+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def register(cli: click.Group) -> None:
    @command(cli, "examples", graph=False)
    @click.argument("page", required=False)
    @click.argument("folder", required=False, type=click.Path(path_type=Path))
    def examples(settings: Settings, out: Output, page: str | None, folder: Path | None) -> None:
        """Write a page of the documentation, and the files that it uses, into a folder; without a page, list the pages.

        \b
        omnigraph examples
        omnigraph examples own-data ./tour

        \b
        JSON: {folder, files}
        JSON without a page: {pages: [{page, title}]}
        """
        titles = {name: title_of(text) for name in guides() if _FILE_BLOCK.search(text := guide(name))}
        if page is None:
            pages = [{"page": name, "title": title} for name, title in titles.items()]
            out.table(pages, ["page", "title"], value={"pages": pages})
            return
        if page not in titles:
            raise UsageError(f"there is no page '{page}'", hint="'omnigraph examples' lists the pages")
        if folder is None:
            raise UsageError("no folder was named", hint=f"omnigraph examples {page} ./{page}")
        written = _write(page, folder)
        text = f"wrote {', '.join(written)} into {folder}"
        out.done({"folder": str(folder), "files": written}, text)

    @command(cli, "skill", graph=False)
    def skill(settings: Settings, out: Output) -> None:
        """Print a skill for agents: one file that teaches an agent to use a graph with this program.

        \b
        omnigraph skill > SKILL.md

        \b
        JSON: {skill}
        """
        text = guide("skill")
        out.show({"skill": text}, text.rstrip("\n"))


def _write(page: str, folder: Path) -> list[str]:
    """Write everything, or nothing if one of the files is there."""
    text = guide(page)
    contents = {f"{page}.md": text, **dict(_FILE_BLOCK.findall(text))}
    data = ["data"] if page == "own-data" else []
    for name in (*contents, *data):
        if (folder / name).exists():
            raise UsageError(f"{folder / name} is there already", hint="name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    if data:
        from omnigraph.cli.example_data import write_example_data

        write_example_data(folder / "data")
    return [*contents, *data]
