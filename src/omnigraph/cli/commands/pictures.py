"""picture: draws the schema, or a node with its neighbourhood."""

from __future__ import annotations

import click

from omnigraph.cli.options import command, overwrite_option, revision_options
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

PICTURE_FORMATS = ("svg", "png", "html", "mermaid", "dot")


def register(cli: click.Group) -> None:
    @command(cli, "picture")
    @click.argument("type_name", required=False, metavar="[TYPE")
    @click.argument("entity_id", required=False, metavar="ID]")
    @click.option(
        "--hops", type=click.IntRange(1, 6), default=1, show_default=True, help="The distance from the node, in edges."
    )
    @click.option(
        "--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="The maximum number of nodes."
    )
    @revision_options
    @click.option(
        "--format", type=click.Choice(PICTURE_FORMATS), help="Default: mermaid; with --output, by the file's name."
    )
    @click.option(
        "--output", "--out", "target", metavar="FILE", help="Write it to a file: .svg, .png, .html, .mmd, .dot."
    )
    @overwrite_option("a file that exists")
    def picture(
        settings: Settings,
        out: Output,
        type_name: str | None,
        entity_id: str | None,
        hops: int,
        limit: int,
        revision: str,
        as_of: str | None,
        format: str | None,
        target: str | None,
        overwrite: bool,
    ) -> None:
        """Draw the schema or, given a type and an id, a node and its neighbourhood.

        SVG and HTML files need nothing else to be viewed. PNG needs the extra 'png'; without --output it goes into a pipe. Mermaid is
        for Markdown pages, DOT for Graphviz.

        \b
        omnigraph picture ./people --output schema.svg
        omnigraph picture ./people Person ada --hops 2 --output ada.html
        omnigraph picture ./people Person ada --output ada.png
        omnigraph picture ./people Person ada --format mermaid

        \b
        JSON: <reads.PictureJson, output?>
        """
        from omnigraph.api.reads import PictureJson

        if (type_name is None) != (entity_id is None):
            raise UsageError("a picture of a node needs a type and an id", hint="omnigraph picture Person ada")
        picture = settings.open().picture(type_name, entity_id, hops=hops, limit=limit, revision=revision, as_of=as_of)
        if target is not None:
            picture.save(target, format=format, overwrite=overwrite)  # type: ignore[arg-type]
            out.done(PictureJson.to_json(picture) | {"output": target}, f"drew {picture.title} to {target}")
            return
        if format == "png" and not out.as_json:
            picture.save("-", format="png")
            return
        out.show(PictureJson.to_json(picture), picture.to_text(format or "mermaid").rstrip("\n"))  # type: ignore[arg-type]
