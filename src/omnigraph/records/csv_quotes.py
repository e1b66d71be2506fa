"""Where the quoted cells of CSV begin and end, by the rules of its reader: a quote opens a cell only at the beginning of a cell,
and two quotes inside a quoted cell stand for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class QuoteTracker:
    """Follows the bytes of a file, chunk by chunk, from the beginning of a line. `in_quotes`: whether the next byte is inside a
    quoted cell."""

    def __init__(self, delimiter: str, quote: str, *, in_quotes: bool = False) -> None:
        self.in_quotes = in_quotes
        self._quote = quote.encode()
        self._cell_starts = f"{delimiter}\r\n".encode()
        self._next_opens = True
        """Whether a quote as the next byte would open a cell, or continue one that was just closed."""

    def feed(self, chunk: bytes) -> NDArray[np.int64]:
        """Positions of the quotes that open or close a cell; the others are literal."""
        quotes = self._regular(chunk)
        if quotes is None:
            quotes = self._one_by_one(chunk)
        self._pass(chunk, quotes)
        return quotes

    def feed_regular(self, chunk: bytes) -> NDArray[np.int64] | None:
        """Like `feed`; None, without following the chunk, if quotes would have to be examined one by one."""
        quotes = self._regular(chunk)
        if quotes is not None:
            self._pass(chunk, quotes)
        return quotes

    def _regular(self, chunk: bytes) -> NDArray[np.int64] | None:
        """All quotes, if every second one is at the beginning of a cell, or directly after the quote that closed it: then none is
        literal."""
        import numpy as np

        if self._quote not in chunk:
            return np.empty(0, np.int64)
        data = np.frombuffer(chunk, np.uint8)
        quotes = np.flatnonzero(data == self._quote[0])
        opening = np.arange(self.in_quotes, len(quotes), 2)
        places = quotes[opening]
        is_at_start = np.isin(data[places - 1], np.frombuffer(self._cell_starts, np.uint8))
        is_behind_quote = (opening > 0) & (places - quotes[opening - 1] == 1)
        is_good = is_at_start | is_behind_quote
        if len(places) and places[0] == 0:
            is_good[0] = self._next_opens
        return quotes if is_good.all() else None

    def _one_by_one(self, chunk: bytes) -> NDArray[np.int64]:
        import numpy as np

        in_quotes, closed, ends = self.in_quotes, -1 if self._next_opens else -2, []
        quotes = np.flatnonzero(np.frombuffer(chunk, np.uint8) == self._quote[0])
        for place in quotes.tolist():
            if in_quotes:
                closed = place
            elif closed != place - 1 and (place == 0 or chunk[place - 1] not in self._cell_starts):
                continue
            in_quotes = not in_quotes
            ends.append(place)
        return np.array(ends, np.int64)

    def _pass(self, chunk: bytes, quotes: NDArray[np.int64]) -> None:
        if not chunk:
            return
        self.in_quotes ^= len(quotes) % 2 == 1
        ends_with_real_quote = len(quotes) > 0 and int(quotes[-1]) == len(chunk) - 1
        self._next_opens = ends_with_real_quote or chunk[-1] in self._cell_starts


def first_record(chunk: bytes, quotes: NDArray[np.int64], *, in_quotes: bool) -> int | None:
    """The position after the first line break outside quotes, in a chunk with these quotes. `in_quotes`: whether the chunk begins
    inside quotes."""
    import numpy as np

    breaks = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
    outside = breaks[np.searchsorted(quotes, breaks) % 2 == int(in_quotes)]
    return int(outside[0]) + 1 if len(outside) else None
