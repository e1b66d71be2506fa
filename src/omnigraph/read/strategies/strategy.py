"""The interface of a strategy: it takes a read and returns an answer, or None if the read is not for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from omnigraph._internal.lazy_imports import pa
from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.plan import UNBOUNDED, Expansion, ReadPlan
from omnigraph.read.result import Values
from omnigraph.snapshot import View

if TYPE_CHECKING:
    from omnigraph.read.sql.compiler import PreparedQuery
    from omnigraph.read.sql.shapes import Keys

Mode = Literal["auto", "scan", "index", "csr"]
"""`auto` tries every strategy in turn; the other modes prefer one of them, whatever it costs."""
Path = Literal["metadata", "lookup", "search", "scan", "index", "csr", "sql", "embedding", "arrays"]
Made = TypeVar("Made")


@dataclass(frozen=True)
class InputChoice:
    """How one input was read and why.

    >>> assert any(choice.path for choice in explanation.choices)
    """

    what: str
    path: Path
    rows: int | None
    estimate: str = ""
    expected: int | None = None
    """How many rows were expected when the choice was made, if that was estimated."""
    _at: float = field(default_factory=time.perf_counter, compare=False, repr=False)
    """When reading it ended."""


@dataclass(frozen=True)
class Read:
    """What is asked, of which snapshot, with which arguments."""

    view: View
    plan: ReadPlan
    arguments: Arguments
    mode: Mode = "auto"
    start_rows: pa.Table | None = None
    """The rows of the stage before (see `read.sql.shapes.GIVEN`)."""
    _shared: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def prepared(self, keys: Keys = "id", *, elide: bool = True) -> PreparedQuery:
        from omnigraph.read.sql.compiler import prepare

        return prepare(self.plan, self.view.catalog, keys, elide=elide)

    def once(self, make: Callable[[Read], Made]) -> Made:
        """A value that several strategies need of this read, made on first use."""
        if make not in self._shared:
            self._shared[make] = make(self)
        value: Made = self._shared[make]
        return value


@dataclass(frozen=True)
class ResultAnswer:
    """The result itself: no tree was needed."""

    choices: tuple[InputChoice, ...]
    table: pa.Table | Values


@dataclass(frozen=True)
class TreeAnswer:
    """The relations over which the engine runs the tree."""

    choices: tuple[InputChoice, ...]
    prepared: PreparedQuery
    relations: Mapping[str, Any]


Answer = ResultAnswer | TreeAnswer


@dataclass(frozen=True)
class Strategy:
    name: str
    modes: frozenset[Mode]
    """The modes in which it is tried."""
    answer: Callable[[Read], Answer | None]


def hop_name(expansion: Expansion) -> str:
    """An expansion as its query writes it."""
    words = "|".join(expansion.edges)
    word = f"<{words}>" if expansion.direction == "both" else words
    most = "" if expansion.max_hops == UNBOUNDED else expansion.max_hops
    bounds = "" if expansion.is_step else f"{{{expansion.min_hops},{most}}}"
    edge = f"${expansion.edge_variable}:" if expansion.edge_variable else ""
    edge = edge if expansion.walk is None else f"${expansion.walk.edge}:"
    way = " (backwards)" if expansion.direction == "in" else ""
    if expansion.path is not None:
        number = "paths" if expansion.path.is_every else "path"
        return f"shortest {number} from ${expansion.source} to ${expansion.target} along {word}{bounds}"
    return f"${expansion.source} {edge}{word}{bounds} ${expansion.target}{way}"
