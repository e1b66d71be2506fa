"""The options of a load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from omnigraph.errors import UsageError
from omnigraph.history.chain import MAIN
from omnigraph.history.plan import check_attribution
from omnigraph.history.write_keys import KeyName, Once
from omnigraph.load.mapping import ColumnMap, column_map
from omnigraph.load.text import TextOptions
from omnigraph.tasks.engines import AUTO, Engine, LoadMode, Missing

_MODES = get_args(LoadMode)


@dataclass(frozen=True)
class LoadOptions:
    """The options of a load, checked: raises UsageError for values that are not valid.

    append: new ids only (KeyConflict otherwise). merge: replace rows of the same id, whole. patch: change the columns that the
    input has, of the rows of its ids. delete: remove the rows of its ids, and with a node the edges at it. overwrite: the input
    is the complete image of each type in it.

    With `from_`, a branch that does not exist is created at that revision, in the same entry as the load's commit. One that exists
    by then is loaded into like any other; with `new_branch` that is AlreadyExists.

    With `once`, a load that comes again under its write key is answered with its first commit, and the file for rejected
    records that an earlier try has left is replaced. What is compared then is `request`, or else what `request_of` gives.

    With `dry_run` the rows are staged and removed again: the receipt counts what would be loaded and what would be refused, by its
    reason. Nothing is published, and no branch is created.

    A `format` that is not one of ours is read by the Spark session, with `reader_options`. `conf` are settings of a session that is
    started for the load, and of its tasks. `rejects` names a file in which to set records aside that cannot be read or that break a
    rule about values. `missing` says what is done about edges that name a missing node: the load is refused, they are set aside
    like these records, or the nodes are created without properties. `permit` is called with the types that the load touches, before anything is published; what it raises ends
    the load.
    """

    mode: LoadMode
    branch: str = MAIN
    from_: str | None = None
    new_branch: bool = False
    engine: Engine = AUTO
    conf: Mapping[str, str] | None = None
    format: str | None = None
    reader_options: Mapping[str, str] | None = None
    type: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    null: str | None = None
    columns: Sequence[str] | None = None
    date_format: str | None = None
    time_format: str | None = None
    map: Mapping[str, object] | str | Path | None = None
    rejects: str | Path | None = None
    missing: Missing = "refuse"
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    once: Once | None = None
    request: object = None
    permit: Callable[[frozenset[str]], None] | None = None
    dry_run: bool = False
    text: TextOptions = field(init=False)
    """How text files are written, as the options say."""
    mapping: ColumnMap = field(init=False)
    """What `map` says, or the file that it names."""

    def __post_init__(self) -> None:
        dialect = (self.delimiter, self.quote, self.null, self.columns, self.date_format, self.time_format)
        object.__setattr__(self, "text", TextOptions.checked(self.encoding, *dialect))
        object.__setattr__(self, "mapping", column_map(self.map))
        check_attribution(self.actor, self.message)
        check_mode(self.mode)
        checked_missing(self.missing, self.mode)
        if self.dry_run and (self.rejects is not None or self.once is not None):
            raise UsageError(
                "a dry run sets no records aside and uses no write key",
                hint="leave out rejects= and once=, or dry_run=",
            )

    @property
    def key_name(self) -> KeyName | None:
        return None if self.once is None else KeyName.of(self.once)


def check_mode(mode: str) -> None:
    """UsageError unless it is a load mode."""
    if mode not in _MODES:
        raise UsageError(f"'{mode}' is not a load mode", hint=f"choose one of {', '.join(_MODES)}")


def checked_missing(missing: str, mode: str) -> Missing:
    """UsageError unless it says what a load of this mode can do about missing nodes."""
    choices: tuple[Missing, ...] = get_args(Missing)
    choice = next((choice for choice in choices if choice == missing), None)
    if choice is None:
        raise UsageError(
            f"'{missing}' does not say what to do about missing nodes", hint=f"choose one of {', '.join(choices)}"
        )
    if choice == "stub" and mode == "overwrite":
        raise UsageError(
            "missing='stub' does not go with the mode overwrite, which replaces all nodes of a type",
            hint="use the mode merge, or missing='skip'",
        )
    return choice
