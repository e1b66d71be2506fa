"""Rows that others deleted, replaced or moved while a table was compacted: where they are in the new fragments.

This is needed after every lost race, each time with a few more such rows, and how fast it is decides how soon the next attempt is
made. So everything found once is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.tables.fragment import OFFSET_BITS, ROW_ADDRESS, Fragment
from omnigraph.tables.growing import FIELD_IDS, FieldIds
from omnigraph.tables.shared_fragments import live_offsets
from omnigraph.tables.staging import by_fragment, delete_rows, load_fragment
from omnigraph.tables.table import Table

if TYPE_CHECKING:
    import numpy as np

    Addresses = np.ndarray[Any, Any]

MAX_MAPPED_ROWS = 65_536
"""In groups of up to this many rows, all rows are located at once; in larger ones only those that are lost."""


@dataclass(frozen=True)
class RewrittenGroup:
    """Fragments of a version, and the new ones with the same rows, as Lance's JSON with fragment ids and row ids."""

    old: tuple[Fragment, ...]
    new: tuple[str, ...]

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.old)

    @property
    def field_ids(self) -> FieldIds | None:
        """Field ids of the version that the new fragments were written for; None if its columns are those that the table was
        created with."""
        ids: FieldIds | None = json.loads(self.new[0]).get(FIELD_IDS) if self.new else None
        return ids

    @cached_property
    def new_fragments(self) -> dict[int, Any]:
        return {fragment.id: fragment for fragment in map(load_fragment, self.new)}


@dataclass(frozen=True)
class Rewrite:
    """The fragments that compaction wrote for one version of a table; they can be put on later versions too."""

    base: Table
    groups: tuple[RewrittenGroup, ...]

    @property
    def first_id(self) -> int:
        return min(fragment for group in self.groups for fragment in group.new_fragments)


class LostRows:
    """The lost rows of one rewrite, on any head. `staged` is the base with the new fragments, and with their indexes if there are any."""

    def __init__(self, rewrite: Rewrite, staged: Table) -> None:
        self._base = rewrite.base
        self._staged = staged
        self._gone: dict[tuple[Fragment, str | None], Addresses | None] = {}
        """By fragment and its deletions at a head: addresses of its rows in the base that are gone."""
        self._moved: dict[int, int] = {}
        """Address in the base -> address of the same row in the new fragments."""
        self._trimmed: dict[int, tuple[bytes, Any]] = {}

    def addresses(
        self, group: RewrittenGroup, head: Table, twins: Mapping[tuple[str, ...], Fragment]
    ) -> Addresses | None:
        """Addresses in the new fragments of the rows that the head no longer has in the group's old ones. None if the old ones
        have rows at the head that they did not have in the base."""
        import numpy as np

        gone: list[Addresses] = [np.array([], dtype=np.uint64)]
        for fragment in group.old:
            rows = self._gone_from(fragment, head, twins.get(fragment.files))
            if rows is None:
                return None
            gone.append(rows)
        old = np.concatenate(gone).tolist()
        self._locate(group, [address for address in old if address not in self._moved])
        return np.array([self._moved[address] for address in old], dtype=np.uint64)

    def _gone_from(self, fragment: Fragment, head: Table, twin: Fragment | None) -> Addresses | None:
        key = (fragment, None if twin is None else twin.deletions)
        if key not in self._gone:
            self._gone[key] = self._compared(fragment, head, twin)
        return self._gone[key]

    def _compared(self, fragment: Fragment, head: Table, twin: Fragment | None) -> Addresses | None:
        import numpy as np

        if twin is not None and twin.deletions == fragment.deletions:
            return np.array([], dtype=np.uint64)
        if twin is None:
            return live_offsets(self._base, fragment) | np.uint64(fragment.id << OFFSET_BITS)
        before, now = self._base.deleted_offsets(fragment), head.deleted_offsets(twin)
        if len(np.setdiff1d(before, now, assume_unique=True)):
            return None
        offsets: Addresses = np.setdiff1d(now, before, assume_unique=True).astype(np.uint64)
        return offsets | np.uint64(fragment.id << OFFSET_BITS)

    def _locate(self, group: RewrittenGroup, addresses: list[int]) -> None:
        """Find rows of the base in the new fragments, by id."""
        if not addresses:
            return
        if group.rows <= MAX_MAPPED_ROWS:
            old = self._base.read(["id"], fragments=[fragment.id for fragment in group.old], with_address=True)
            new = self._staged.read(["id"], fragments=list(group.new_fragments), with_address=True)
        else:
            old = self._base.take_addresses(addresses, ["id"])
            new = self._staged.lookup("id", old.column("id").to_pylist(), ["id"], with_address=True)
        places = dict(zip(new.column("id").to_pylist(), new.column(ROW_ADDRESS).to_pylist(), strict=True))
        for id, address in zip(old.column("id").to_pylist(), old.column(ROW_ADDRESS).to_pylist(), strict=True):
            self._moved[address] = places[id]

    def trimmed(self, group: RewrittenGroup, addresses: Addresses) -> list[Any]:
        """The group's new fragments without the rows at these addresses."""
        fragments = dict(group.new_fragments)
        for fragment, offsets in by_fragment(addresses):
            left = self._without(fragment, offsets)
            if left is None:
                del fragments[fragment]
            else:
                fragments[fragment] = left
        return list(fragments.values())

    def _without(self, fragment: int, offsets: Any) -> Any:
        known = self._trimmed.get(fragment)
        if known is None or known[0] != offsets.tobytes():
            left = delete_rows(self._staged, fragment, offsets).left
            self._trimmed[fragment] = known = (offsets.tobytes(), left and _to_be_added(left))
        return known[1]


def _to_be_added(fragment: Any) -> Any:
    """A fragment of one version in the form in which another version can add it, with its deletions and ids."""
    value = fragment.to_json()
    value.update(created_at_version_meta=None, last_updated_at_version_meta=None)
    return load_fragment(json.dumps(value))
