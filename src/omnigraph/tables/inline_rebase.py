"""Moves inline changes to another stored version than the one they were made for.

A version that was made while others wrote holds the rows of an earlier one at other addresses. The inline changes on top of the
earlier one stay as they are; only the rows that they replace have to be found again. This is needed after every lost race, each
time with a little more changed, so everything found once is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.tables.fragment import ROW_ADDRESS, fragment_of_address
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import NO_INLINE, Inline, InlineChange


class InlineRebase:
    """Moves changes from one stored version to another that has the same rows plus those of `absorbed`."""

    def __init__(self, before: Table, after: Table, absorbed: Inline = NO_INLINE) -> None:
        self._before = before
        self._after = after
        self._masked = absorbed.masked_addresses
        self._absorbed = absorbed.row_texts
        self._places: dict[int, int] = {}
        """Address in the version before -> address of the same row in the version after."""
        self._own: dict[str, int] = {}
        """Id -> address in the version after, for absorbed rows."""

    def moved(self, inline: Inline) -> Inline | None:
        """The changes, as they apply to the version after. None if a row that an absorbed change replaced is back."""
        if not self._masked <= inline.masked_addresses:
            return None
        changes, kept = [], set[str]()
        for change in inline:
            texts = change.row_texts
            is_known = [self._absorbed.get(id) == texts[id] for id in change.ids]
            kept.update(id for id, known in zip(change.ids, is_known, strict=True) if known)
            rows = tuple(row for row, known in zip(change.rows, is_known, strict=True) if not known)
            masked = tuple(
                sorted(self._addresses_after(address for address in change.masked if address not in self._masked))
            )
            if rows or masked:
                changes.append(InlineChange(change.columns if rows else (), rows, masked=masked))
        gone = self._absorbed_addresses(self._absorbed.keys() - kept)
        return Inline((InlineChange((), (), masked=tuple(sorted(gone))), *changes) if gone else changes)

    def _addresses_after(self, addresses: Iterable[int]) -> list[int]:
        wanted = list(addresses)
        missing = [address for address in wanted if address not in self._places]
        if missing:
            files = {fragment.id: fragment.files for fragment in self._after.fragments}
            same = {fragment.id for fragment in self._before.fragments if files.get(fragment.id) == fragment.files}
            self._places.update((address, address) for address in missing if fragment_of_address(address) in same)
            moved = [address for address in missing if address not in self._places]
            if moved:
                rows = self._before.take_addresses(moved, ["id"])
                ids, old = rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist()
                known = self._after.addresses_of(ids)
                self._places.update((address, known[id]) for id, address in zip(ids, old, strict=True))
        return [self._places[address] for address in wanted]

    def _absorbed_addresses(self, ids: Iterable[str]) -> list[int]:
        """Addresses in the version after of the absorbed rows with these ids."""
        wanted = list(ids)
        missing = [id for id in wanted if id not in self._own]
        if missing:
            self._own.update(self._after.addresses_of(missing))
        return [self._own[id] for id in wanted]
