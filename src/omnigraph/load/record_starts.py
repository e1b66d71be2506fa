"""Large CSV files cut where records begin. A line break may stand inside of a quoted cell, so whether a line begins a record is known
only from all the quotes before it: tasks look at the pieces of a file, each for both cases, and the driver puts the answers together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from omnigraph.errors import UnreadableInput
from omnigraph.load.inputs import LoadInputs, Split
from omnigraph.load.text import TextOptions
from omnigraph.records.csv_rows import (
    BLOCK_BYTES,
    BYTE_ORDER_MARK,
    MAX_HEADER_BYTES,
    QuoteTracker,
    first_record,
    header_names,
)
from omnigraph.tasks.runner import Runner

CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class PieceEnds:
    """A piece of a file that begins in a certain state: the first record that begins in it, and whether the piece after it begins
    inside of quotes."""

    first_record: int | None
    in_quotes: bool


@dataclass(frozen=True)
class PieceTask:
    """`in_quotes`: how the piece begins, when that is known."""

    split: Split
    in_quotes: bool | None = None


@dataclass(frozen=True)
class PieceReport:
    """What a piece is when it begins outside of quotes, and inside; None when that was not looked into. `has_lines`: whether its
    lines are short enough to be told apart."""

    outside: PieceEnds | None
    inside: PieceEnds | None
    has_lines: bool = True

    def ends(self, in_quotes: bool) -> PieceEnds | None:
        return self.inside if in_quotes else self.outside


def with_record_starts(inputs: LoadInputs, runner: Runner) -> LoadInputs:
    """The inputs with their CSV files cut at records; a file whose header or lines make no sense is left whole, for its reader to say
    so."""
    files = [list(pieces) for _, pieces in groupby(inputs.splits, key=lambda split: (split.file.address, split.source))]
    headers = {pieces[0].index: _header(pieces[0]) for pieces in files if _is_cut_csv(pieces)}
    tasks = [PieceTask(split) for pieces in files if headers.get(pieces[0].index) for split in pieces]
    if not headers:
        return inputs
    reports = dict(
        zip((task.split.index for task in tasks), runner.map("find records", scan_piece, tasks), strict=True)
    )
    splits: list[Split] = []
    for pieces in files:
        header = headers.get(pieces[0].index)
        if header is None:
            splits += pieces
        elif header and all(reports[piece.index].has_lines for piece in pieces):
            splits += _cut_at(pieces, _starts(pieces, reports, runner), header)
        else:
            splits.append(replace(pieces[0], end=pieces[-1].end))
    return replace(inputs, splits=tuple(splits))


def _is_cut_csv(pieces: Sequence[Split]) -> bool:
    return len(pieces) > 1 and pieces[0].format == "csv"


def _header(split: Split) -> tuple[str, ...]:
    """The columns of a file; none when its reader has to say what is wrong with them."""
    text = split.text
    if text.columns:
        return text.columns
    try:
        with split.file.open(0, MAX_HEADER_BYTES) as file:
            start = file.read().removeprefix(BYTE_ORDER_MARK)
        return tuple(header_names(start, text.delimiter, text.quote))
    except UnreadableInput:
        return ()


def _starts(pieces: Sequence[Split], reports: dict[int, PieceReport], runner: Runner) -> list[int]:
    """Where the first record of each piece begins, of those that have one."""
    starts, in_quotes = [], False
    for piece in pieces:
        ends = reports[piece.index].ends(in_quotes)
        if ends is None:
            (report,) = runner.map("find records", scan_piece, [PieceTask(piece, in_quotes)])
            ends = report.ends(in_quotes)
            assert ends is not None, "a piece whose beginning is known was looked into"
        if ends.first_record is not None:
            starts.append(ends.first_record)
        in_quotes = ends.in_quotes
    return starts


def _cut_at(pieces: Sequence[Split], starts: Sequence[int], header: tuple[str, ...]) -> list[Split]:
    """A split for each record that begins a piece, up to the next. The first one has the header in it."""
    ends = [*starts[1:], pieces[-1].end]
    return [
        replace(piece, start=start, end=end, header=header if start else ())
        for piece, start, end in zip(pieces, starts, ends, strict=False)
    ]


def scan_piece(task: PieceTask) -> PieceReport:
    """Look at the lines that begin in a piece."""
    split, text = task.split, task.split.text
    cases = {
        is_inside: _Case(text, is_inside, is_known=task.in_quotes is not None)
        for is_inside in ([False, True] if task.in_quotes is None else [task.in_quotes])
    }
    with split.file.open(max(split.start - 1, 0)) as file:
        at = split.start
        if split.start > 0:
            line = file.readline(BLOCK_BYTES)
            at += len(line) - 1
            if not line.endswith(b"\n") and len(line) == BLOCK_BYTES:
                return PieceReport(None, None, has_lines=False)
        while at < split.end:
            chunk = file.read(min(CHUNK_BYTES, split.end - at))
            if not chunk.endswith(b"\n"):
                rest = file.readline(BLOCK_BYTES)
                if len(rest) == BLOCK_BYTES and not rest.endswith(b"\n"):
                    return PieceReport(None, None, has_lines=False)
                chunk += rest
            if not chunk:
                break
            for case in cases.values():
                case.feed(chunk.removeprefix(BYTE_ORDER_MARK) if at == 0 else chunk, at)
            at += len(chunk)
    outside, inside = (cases[is_inside].ends() if is_inside in cases else None for is_inside in (False, True))
    return PieceReport(outside, inside)


class _Case:
    """A piece, supposed to begin inside of quotes or outside. That it begins inside is rarely so: unless it is known, it is followed only
    as long as that is cheap."""

    def __init__(self, text: TextOptions, is_inside: bool, *, is_known: bool) -> None:
        self._tracker = QuoteTracker(text.delimiter, text.quote, in_quotes=is_inside)
        self._is_cheap_only = is_inside and not is_known
        self._is_given_up = False
        self._first: int | None = None

    def feed(self, chunk: bytes, at: int) -> None:
        """The next lines, which begin at this byte of the file."""
        if self._is_given_up:
            return
        was_inside = self._tracker.in_quotes
        if self._first is None and not was_inside:
            self._first = at
        quotes = self._tracker.feed_regular(chunk) if self._is_cheap_only else self._tracker.feed(chunk)
        if quotes is None:
            self._is_given_up = True
        elif self._first is None:
            place = first_record(chunk, quotes, in_quotes=was_inside)
            # A record that begins behind the last line of the piece is the next one's.
            self._first = at + place if place is not None and place < len(chunk) else None

    def ends(self) -> PieceEnds | None:
        return None if self._is_given_up else PieceEnds(self._first, self._tracker.in_quotes)
