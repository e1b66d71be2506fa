"""init, clone, push, pull: graphs and copies of them; demo, examples, warm-up, version: what comes with the program."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import command, engine_option, several
from omnigraph.cli.output import Output, write_new
from omnigraph.cli.process import want_pandas
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.types import CopyReport


@command("init", writes=True)
@click.option("--schema", metavar="FILE", help="The schema, a .pg file.")
@several("--from", "data", metavar="PATH", help="Infer the schema from this file or folder of data")
@several("--key", metavar="TYPE.COLUMN", help="With --from: a known key")
@click.option("--map-file", metavar="FILE", help="With --from: write a map of the files here, for 'load --map-file'.")
def init(
    settings: Settings,
    out: Output,
    schema: str | None,
    data: list[str] | None,
    key: list[str] | None,
    map_file: str | None,
) -> None:
    """Create a graph with a schema, or with one inferred from data. Refused if there is a graph at the address.

    The data is not loaded: 'load' does that, with the map file, and 'import' does both at once.

    \b
    omnigraph init ./people --schema people.pg
    omnigraph init s3://bucket/people --schema people.pg
    omnigraph init ./ports --from ports.csv --from calls.csv --key Port.code --map-file ports.json

    \b
    JSON: {uri, graph_id}
    """
    from omnigraph.graph.importing import infer_schema
    from omnigraph.graph.opening import init as init_graph

    if (schema is None) == (data is None):
        raise click.UsageError("give the schema with --schema FILE, or data to infer it from with --from PATH")
    if (key or map_file) and schema is not None:
        raise click.UsageError("--key and --map-file need --from")
    uri = settings.storage().uri
    settings.announce("init", uri)
    done = f"initialized {uri}"
    if schema is not None:
        graph = init_graph(uri, Path(schema), actor=settings.actor)
        settings.warn_about_schema(schema, is_first=True)
    else:
        guessed = infer_schema(data or [], key=key or [])
        graph = init_graph(uri, guessed.schema, actor=settings.actor)
        if map_file is not None:
            write_new(map_file, guessed.map_json())
            done += (
                f" and wrote {map_file}; load the data with: omnigraph load {uri} --data {' --data '.join(data or [])} "
            )
            done += f"--map-file {map_file} --mode append"
    out.done({"uri": uri, "graph_id": graph.id}, done)


@command("clone", addresses=1)
@several("--branch", "branches", help="Copy this branch in addition to main (default: all)")
@click.option("--depth", type=int, metavar="N", help="Copy the newest N commits of each branch (default: all).")
@engine_option
@click.argument("target")
def clone(
    settings: Settings, out: Output, branches: list[str] | None, depth: int | None, engine: str, target: str
) -> None:
    """Copy a graph to another place, with its identity, its commits and its tags. If it is interrupted, run it again: it continues where it stopped.

    \b
    omnigraph clone ./people s3://bucket/people
    omnigraph clone s3://bucket/people ./people --branch review --depth 10

    \b
    JSON: <maintenance.CopyJson>
    """
    from omnigraph.graph.graph import clone as clone_graph

    source = settings.storage().uri
    settings.announce("clone", target)
    report = clone_graph(
        source,
        settings.storage_address(target),
        branches=branches,
        depth=depth,
        engine=engine,
        progress=settings.shows_progress,
    )
    _show_copy(out, source, target, report, "cloned")


@command("push", addresses=1, writes=True)
@click.option("--to", metavar="NAME", help="Push as one commit on a new branch, for a branch that has diverged.")
@engine_option
@click.argument("target")
@click.argument("branch", default="main")
def push(settings: Settings, out: Output, to: str | None, engine: str, target: str, branch: str) -> None:
    """Update a branch of a clone, or of the graph that this is a clone of, from here. The branch only moves forward.

    \b
    omnigraph push ./people s3://bucket/people
    omnigraph push ./people s3://bucket/people review
    omnigraph push ./people s3://bucket/people main --to mine

    \b
    JSON: <maintenance.CopyJson>
    """
    settings.announce("push", target)
    address, shown = settings.storage_address(target), settings.shows_progress
    report = settings.open().push(address, branch, to=to, engine=engine, actor=settings.actor, progress=shown)
    _show_copy(out, settings.uri(), target, report, "pushed")


@command("pull", addresses=1)
@engine_option
@click.argument("source")
@click.argument("branch", default="main")
def pull(settings: Settings, out: Output, engine: str, source: str, branch: str) -> None:
    """Update a branch of this graph from a clone, or from the graph it was cloned from. The branch only moves forward.

    \b
    omnigraph pull ./people s3://bucket/people
    omnigraph pull ./people s3://bucket/people review

    \b
    JSON: <maintenance.CopyJson>
    """
    settings.announce("pull", settings.uri())
    address, shown = settings.storage_address(source), settings.shows_progress
    report = settings.open().pull(address, branch, engine=engine, progress=shown)
    _show_copy(out, source, settings.uri(), report, "pulled")


def _show_copy(out: Output, source: str, target: str, report: CopyReport, verb: str) -> None:
    from omnigraph.api.maintenance import CopyJson

    commits = sum(report.commits.values())
    text = f"{verb} {commits:,} commit{'s' * (commits != 1)}: {report.objects:,} objects, {report.bytes:,} bytes"
    if report.present:
        text += f" ({report.present:,} were there)"
    out.done(CopyJson.to_json(report, source=source, target=target), text)


@command("demo", graph=False)
@click.option("--small", is_flag=True, help="A quick look: 2,000 nodes and 10,000 edges, without Spark.")
@click.option("--keep", metavar="FOLDER", help="Make the graph here and keep it (default: a temporary folder).")
def demo(settings: Settings, out: Output, small: bool, keep: str | None) -> None:
    """Create a realistic graph: load it on Spark, query, branch, diff, merge and travel in time.

    \b
    omnigraph demo
    omnigraph demo --small --keep ./demo

    \b
    JSON: {folder, nodes, edges, steps: [{step, seconds}]}
    """
    from omnigraph.cli.demo import run_demo

    if not small:
        want_pandas()
    value = run_demo(small=small, folder=keep, show=settings.shows_progress)
    if out.as_json:
        out.json(value)


_FILE_BLOCK = re.compile(r"^```\w+[^\n]* file=(\S+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SKILL = "skill"
"""The page for agents, which is printed."""


@command("examples", graph=False)
@click.argument("page", required=False)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def examples(settings: Settings, out: Output, page: str | None, folder: Path | None) -> None:
    """Write a page of the documentation, and the files that it uses, into a folder; without a page, list the pages. The page 'skill'
    is printed: one file that teaches an agent to use a graph with this program.

    \b
    omnigraph examples
    omnigraph examples own-data ./tour
    omnigraph examples skill > SKILL.md

    \b
    JSON: {folder, files}
    JSON without a page: {pages: [{page, title}]}
    JSON of the page skill: {skill}
    """
    from omnigraph._internal.guides import guide, guides, title_of

    if page == _SKILL and folder is None:
        text = guide(_SKILL)
        out.show({_SKILL: text}, text.rstrip("\n"))
        return
    titles = {name: title_of(text) for name in guides() if _FILE_BLOCK.search(text := guide(name))}
    if page is None:
        pages = [{"page": name, "title": title} for name, title in titles.items()]
        out.table(pages, ["page", "title"], value={"pages": pages})
        return
    if page not in titles:
        raise UsageError(f"there is no page '{page}'", hint="'omnigraph examples' lists the pages")
    if folder is None:
        raise UsageError("no folder was named", hint=f"omnigraph examples {page} ./{page}")
    written = _write_page(page, guide(page), folder)
    out.done({"folder": str(folder), "files": written}, f"wrote {', '.join(written)} into {folder}")


def _write_page(page: str, text: str, folder: Path) -> list[str]:
    """Write everything, or nothing if one of the files is there."""
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


@command("warm-up", graph=False)
def warm_up(settings: Settings, out: Output) -> None:
    """Make Spark start in about half the time on this machine. Run it once; it takes a minute and 190 MB of disk.

    \b
    omnigraph warm-up

    \b
    JSON: {path, made}
    """
    want_pandas()
    from omnigraph.graph.opening import record_spark_start

    path, is_new = record_spark_start(lambda step: None if out.quiet else print(f"{step} ...", file=sys.stderr))
    text = "Spark starts faster from now on" if is_new else "Spark's start was recorded already"
    out.done({"path": str(path), "made": is_new}, f"{text}: {path}")


@command("version", graph=False, instead="--version")
def version(settings: Settings, out: Output) -> None:
    """Show the version of the program and the storage format it writes.

    \b
    omnigraph version

    \b
    JSON: <history.VersionJson>
    """
    from omnigraph.api.history import VersionJson

    out.show(VersionJson.to_json(None), version_text())


def version_text() -> str:
    from omnigraph.api.history import VersionJson

    return "\n".join(f"{name} {value}" for name, value in VersionJson.to_json(None).items())
