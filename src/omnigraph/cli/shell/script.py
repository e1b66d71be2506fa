"""A shell whose input is not a terminal: statements and commands from a file or a pipe. The first error ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.cli.shell.session import Failed, Quit, Session
from omnigraph.cli.shell.waiting import Abandoned
from omnigraph.errors import Cancelled


@dataclass(frozen=True)
class Piece:
    """One statement or command, and the number of lines before it."""

    text: str
    lines_before: int


def pieces(lines: Iterable[str]) -> Iterator[Piece]:
    """The statements and commands of a script, each as soon as its last line is read. An unfinished one at the end is included."""
    from omnigraph.graph.editing import is_unfinished

    held: list[str] = []
    start = 0
    for number, text in enumerate(lines):
        if not held:
            start = number
            if not text.strip():
                continue
        held.append(text.rstrip("\r\n"))
        whole = "\n".join(held)
        if whole.lstrip().startswith(".") or not is_unfinished(whole):
            held = []
            yield Piece(whole, start)
    if held:
        yield Piece("\n".join(held), start)


def run_script(session: Session, lines: Iterable[str]) -> int:
    """Run a script; returns its exit code. Errors of statements are raised."""
    try:
        for piece in pieces(lines):
            session.run(piece.text, lines_before=piece.lines_before)
    except Quit:
        return 0
    except Failed as failed:
        return failed.code
    except (Cancelled, Abandoned):
        raise KeyboardInterrupt from None
    return 0
