"""embed: vectors of stored texts."""

from __future__ import annotations

import click

from omnigraph.cli.options import branch_option, command, uri_argument
from omnigraph.cli.output import Output, counted
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @command(cli, "embed", clustered=True, writes=True)
    @click.option(
        "--missing",
        "which",
        flag_value="missing",
        default="missing",
        help="Texts that have no vector (unless --all is given).",
    )
    @click.option("--all", "which", flag_value="all", help="Every text, even if it has a vector.")
    @click.option("--type", "types", multiple=True, metavar="TYPE", help="Texts of this type only; may be repeated.")
    @branch_option
    @click.option("--dry-run", is_flag=True, help="Show how many texts would be embedded, without asking a provider.")
    @uri_argument
    def embed(
        settings: Settings,
        out: Output,
        which: str,
        types: tuple[str, ...],
        branch: str,
        dry_run: bool,
        uri: str | None,
    ) -> None:
        """Compute vectors for stored texts, as @embed declares. Loads and mutations compute those of the rows they write.

        A run commits once for each 256 MiB of vectors. When the provider fails, the vectors made so far are committed, and the next
        run continues from there.

        The provider is that of the model that the schema names, or OMNIGRAPH_EMBED_PROVIDER: openai, openai-compatible,
        gemini, wordllama (offline; the default) or mock. Keys are read from OPENAI_API_KEY,
        OPENROUTER_API_KEY and GEMINI_API_KEY.

        \b
        omnigraph embed ./people
        omnigraph embed ./people --all --type Person --dry-run

        \b
        JSON: <maintenance.EmbedJson>
        """
        from omnigraph.api.maintenance import EmbedJson

        address = settings.uri(uri)
        if not dry_run:
            settings.announce("embed", address)
        report = settings.open(uri).embed(
            which="all" if which == "all" else "missing",
            types=list(types) or None,
            branch=branch,
            dry_run=dry_run,
            actor=settings.actor,
            progress=not (settings.quiet or settings.as_json),
        )
        value = EmbedJson.to_json(report, uri=address, branch=branch, dry_run=dry_run)
        if not report.rows:
            out.done(value, "nothing to do")
            return
        named = ", ".join(f"commit {commit.id}" for commit in report.commits) or "nothing committed"
        done = "would be embedded" if dry_run else "embedded"
        title = f"{counted(report.rows, 'text', 'texts')} {done}: {named}"
        out.table(value["properties"], ["type", "property", "model", "rows"], value=value, title=title)
