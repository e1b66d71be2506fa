"""blob get|stat."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.options import command, revision_options, uri_argument
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @cli.group()
    def blob() -> None:
        """Read Blobs.

        \b
        omnigraph blob get ./photos Photo sea image > sea.png
        """

    _register_get(blob)
    _register_stat(blob)


def _register_get(group: click.Group) -> None:
    @command(group, "get", served=True)
    @click.argument("type_name", metavar="TYPE")
    @click.argument("entity_id", metavar="ID")
    @click.argument("property_name", metavar="PROPERTY")
    @revision_options
    @click.option("--offset", type=click.IntRange(0), default=0, show_default=True, help="Skip this many bytes.")
    @click.option("--length", type=click.IntRange(0), help="Read at most this many bytes (default: to the end).")
    @uri_argument
    def get(
        settings: Settings,
        out: Output,
        type_name: str,
        entity_id: str,
        property_name: str,
        revision: str,
        as_of: str | None,
        offset: int,
        length: int | None,
        uri: str | None,
    ) -> None:
        """Write the bytes of a Blob, or a part of them, to standard output.

        \b
        omnigraph blob get ./photos Photo sea image > sea.png
        omnigraph blob get ./photos Photo sea image --offset 1024 --length 512

        \b
        JSON: none; the bytes are the result
        """
        blob = settings.graph_at(uri).blob(type_name, entity_id, property_name, revision=revision, as_of=as_of)
        bytes_out = sys.stdout.buffer
        for piece in blob.pieces(offset, length):
            bytes_out.write(piece)
        bytes_out.flush()


def _register_stat(group: click.Group) -> None:
    @command(group, "stat", served=True)
    @click.argument("type_name", metavar="TYPE")
    @click.argument("entity_id", metavar="ID")
    @click.argument("property_name", metavar="PROPERTY")
    @revision_options
    @uri_argument
    def stat(
        settings: Settings,
        out: Output,
        type_name: str,
        entity_id: str,
        property_name: str,
        revision: str,
        as_of: str | None,
        uri: str | None,
    ) -> None:
        """Show the size of a Blob, and a tag that changes when its bytes do.

        \b
        omnigraph blob stat ./photos Photo sea image

        \b
        JSON: {size, etag, graph_commit_id}
        """
        blob = settings.graph_at(uri).blob(type_name, entity_id, property_name, revision=revision, as_of=as_of)
        value = {"size": blob.size, "etag": blob.etag, "graph_commit_id": blob.commit.id}
        out.show(value, f"{blob.size} bytes, etag {blob.etag}, at commit {blob.commit.id}")
