"""Quotes of CSV, against Arrow's own reader and against a reader that goes byte by byte."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow.csv as pv
import pytest

from omnigraph.records.csv_rows import QuoteTracker, first_record


def states(data: bytes, in_quotes: bool = False) -> list[bool]:
    """For every byte whether it begins inside of quotes, and so for the end: byte by byte."""
    state, found = "quoted" if in_quotes else "start", []
    for byte in data:
        found.append(state == "quoted")
        if state == "quoted":
            state = "closed" if byte == ord('"') else "quoted"
        elif byte == ord('"') and state in ("start", "closed"):
            state = "quoted"
        else:
            state = "start" if byte in b",\r\n" else "cell"
    return [*found, state == "quoted"]


def texts(count: int) -> list[bytes]:
    dice = random.Random(20)
    pieces = ["a", "b", ",", "\n", '"', '""', '","', '"x\ny"', "\r\n", ' "', '"\n']
    return ["".join(dice.choices(pieces, k=dice.randint(1, 40))).encode() for _ in range(count)]


@pytest.mark.parametrize("in_quotes", [False, True])
def test_chunks_of_any_size_are_followed_as_byte_by_byte(in_quotes: bool) -> None:
    dice = random.Random(21)
    regular = 0
    for text in texts(2_000):
        expected, at = states(text, in_quotes), 0
        tracker, cheap = (QuoteTracker(",", '"', in_quotes=in_quotes) for _ in range(2))
        while at < len(text):
            chunk = text[at : at + dice.randint(1, 12)]
            assert tracker.in_quotes == expected[at], (text, at)
            known = cheap.feed_regular(chunk) if cheap is not None else None
            quotes = tracker.feed(chunk)
            if known is None:
                cheap = None
            else:
                regular += 1
                assert known.tolist() == quotes.tolist(), (text, at)
            at += len(chunk)
        assert tracker.in_quotes == expected[-1], text
    assert regular > 1_000, "the cheap way was hardly taken"


@pytest.mark.parametrize("in_quotes", [False, True])
def test_the_first_record_begins_behind_the_first_line_break_outside_of_quotes(in_quotes: bool) -> None:
    for text in texts(2_000):
        expected = states(text, in_quotes)
        breaks = [at for at, byte in enumerate(text) if byte == ord("\n") and not expected[at]]
        quotes = QuoteTracker(",", '"', in_quotes=in_quotes).feed(text)
        found = first_record(text, quotes, in_quotes=in_quotes)
        assert found == (breaks[0] + 1 if breaks else None), text


def test_cells_end_where_arrow_lets_them_end() -> None:
    """A record that a cut would begin is one that Arrow reads from there on."""
    compared = 0
    for text in texts(400):
        rows = [line for line in text.split(b"\n") if line]
        data = b"".join(
            b'%s,"k\n%s"\n' % (str(number).encode(), row.replace(b'"', b'""')) for number, row in enumerate(rows)
        )
        quotes = QuoteTracker(",", '"').feed(data)
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        starts = [0, *(breaks[np.searchsorted(quotes, breaks) % 2 == 0] + 1).tolist()]
        for start in starts[:-1]:
            table = pv.read_csv(
                io.BytesIO(data[start:]),
                read_options=pv.ReadOptions(column_names=["n", "text"]),
                parse_options=pv.ParseOptions(newlines_in_values=True),
            )
            assert table.num_rows == len(rows) - starts.index(start)
            compared += 1
    assert compared > 400
