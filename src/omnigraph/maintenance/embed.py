"""Making vectors of texts that are stored already: those that are missing, or all of them.

It commits once for each MAX_VECTOR_BYTES of vectors, which for most graphs is once. So memory is bounded, and what was paid
for is kept: when a provider fails, what it made before is committed, and `missing` goes on from there. A row is written only
as it is: where somebody else has changed its type's table meanwhile, its rows are read again, and texts that stayed the same
are not embedded again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from omnigraph._internal.lazy_imports import np, pa
from omnigraph.embedding.filling import TextVector, is_text, text_vectors, with_vectors
from omnigraph.errors import EmbeddingRefused, EmbeddingUnavailable, ExpectedVersionMismatch, UsageError
from omnigraph.history.plan import check_attribution
from omnigraph.history.values import Commit, Entry
from omnigraph.language.catalog import Catalog, NodeType
from omnigraph.snapshot import Repository, View
from omnigraph.tables.table import Table
from omnigraph.tasks.progress import Progress, Silent, Status
from omnigraph.write.group import GroupCommitter
from omnigraph.write.inlining import Delta, NewRows
from omnigraph.write.publishing import LostRace, on_newest_head
from omnigraph.write.row_write import prepare_write

Which = Literal["missing", "all"]
MAX_VECTOR_BYTES = 256 * 2**20
MAX_ROWS = 131_072
ROWS_AT_ONCE = 2_048
"""Texts between two reports of progress; what a failure loses at most."""


@dataclass(frozen=True)
class EmbeddedProperty:
    """A Vector property, the model that embeds it, and how many of its rows were embedded, or would be.

    >>> (vec,) = embedding.properties
    >>> assert (vec.type, vec.property, vec.model, vec.rows) == ("Note", "vec", "wordllama/l2_supercat", 1)
    """

    type: str
    property: str
    model: str
    rows: int


@dataclass(frozen=True)
class EmbedReport:
    """What was embedded, and the commits that have it; none after a dry run, or when there was nothing to do.

    >>> embedding = notes.embed(which="all", dry_run=True)
    >>> assert (embedding.rows, embedding.commits) == (1, ())
    """

    properties: tuple[EmbeddedProperty, ...]
    commits: tuple[Commit, ...] = ()

    @property
    def rows(self) -> int:
        """Vectors in all."""
        return sum(property.rows for property in self.properties)


def embed(
    repository: Repository,
    committer: GroupCommitter,
    branch: str,
    *,
    which: Which = "missing",
    types: Sequence[str] | None = None,
    dry_run: bool = False,
    actor: str | None = None,
    message: str | None = None,
    progress: Progress | None = None,
) -> EmbedReport:
    """Embed the texts of some types, or of all that have `@embed`."""
    if which not in ("missing", "all"):
        raise UsageError(f"{which!r} is not a choice of rows", hint='which="missing" or which="all"')
    check_attribution(actor, message)
    _, view = repository.head(branch)
    nodes = embedded_types(view.catalog, types)
    job = _Job(repository, committer, branch, which, actor, message, progress or Silent())
    work = {node.name: job.find(view, node) for node in nodes}
    properties = tuple(
        EmbeddedProperty(node.name, vector.property, job.model(vector), len(work[node.name].get(vector.property, ())))
        for node in nodes
        for vector in text_vectors(node)
    )
    report = EmbedReport(properties)
    if dry_run or not report.rows:
        return report
    return EmbedReport(properties, tuple(job.run(nodes, work)))


def embedded_types(catalog: Catalog, types: Sequence[str] | None) -> list[NodeType]:
    """The types that have vectors of texts; UsageError for one that has none."""
    for name in types or ():
        if name not in catalog.nodes or not catalog.nodes[name].embedded:
            known = [node.name for node in catalog.nodes.values() if node.embedded]
            raise UsageError(
                f"'{name}' has no property with @embed",
                hint=f"types that have one: {', '.join(known)}" if known else 'declare one: Vector(256) @embed("text")',
            )
    chosen = None if types is None else set(types)
    return [node for _, node in sorted(catalog.nodes.items()) if node.embedded and (not chosen or node.name in chosen)]


Ids = dict[str, set[str]]
"""By property: the rows to embed."""


class _Job:
    def __init__(
        self,
        repository: Repository,
        committer: GroupCommitter,
        branch: str,
        which: Which,
        actor: str | None,
        message: str | None,
        progress: Progress,
    ) -> None:
        self.repository = repository
        self.committer = committer
        self.branch = branch
        self.which = which
        self.actor = actor
        self.message = message
        self.progress = progress
        self.filling = repository.filling()
        self._started = time.monotonic()
        self._done = 0
        self._all = 0

    def model(self, vector: TextVector) -> str:
        return self.filling.embedder(vector).provider.model

    def find(self, view: View, node: NodeType) -> Ids:
        """The rows of a type that have a text, and no vector or whatever one."""
        table = view.table(node.table_key)
        work: Ids = {}
        for vector in text_vectors(node) if table is not None else ():
            assert table is not None
            rows = _texts(table, vector, self.which)
            texts = rows.column(vector.source).to_pylist()
            ids = {id for id, text in zip(rows.column("id").to_pylist(), texts, strict=True) if is_text(text)}
            if ids:
                work[vector.property] = ids
        return work

    def run(self, nodes: Sequence[NodeType], work: dict[str, Ids]) -> Iterator[Commit]:
        self._all = sum(len(ids) for missing in work.values() for ids in missing.values())
        for node in nodes:
            to_embed = work[node.name]
            for portion in _portions(node, sorted(set().union(*to_embed.values()))):
                wanted = {name: ids.intersection(portion) for name, ids in to_embed.items()}
                commit = self._commit(node, portion, wanted)
                if commit is not None:
                    yield commit

    def _commit(self, node: NodeType, ids: Sequence[str], wanted: Ids) -> Commit | None:
        """These rows with their vectors, as one commit; None when nothing of them is left to do."""
        by_text: dict[tuple[str, str], np.ndarray] = {}
        failure: EmbeddingRefused | EmbeddingUnavailable | None = None

        def attempt(head: tuple[Entry, View]) -> Commit | None:
            nonlocal failure
            entry, view = head
            rows, missing = self._texts_of(view, node, ids, wanted)
            if failure is None:
                failure = self._embed(node, missing, by_text)
            filled = _filled(node, rows, missing, by_text)
            if filled is None:
                return None
            deltas = {node.table_key: Delta(node, NewRows.of_table(filled), "strict")}
            try:
                write = prepare_write(view, entry, deltas, actor=self.actor, message=self.message)
                return self.committer.publish(write)
            except ExpectedVersionMismatch as lost:
                raise LostRace from lost

        newest = partial(self.repository.head, self.branch)
        commit = on_newest_head(self.repository.history, self.branch, newest, attempt)
        if failure is not None:
            raise failure
        return commit

    def _texts_of(
        self, view: View, node: NodeType, ids: Sequence[str], wanted: Ids
    ) -> tuple[pa.Table | None, dict[TextVector, dict[int, str]]]:
        """The rows as they are now, and for each vector the places and texts that are to be embedded."""
        table = view.table(node.table_key)
        if table is None or view.catalog.nodes.get(node.name) != node:
            return None, {}
        rows = table.lookup("id", ids)
        ids_now = rows.column("id").to_pylist()
        missing: dict[TextVector, dict[int, str]] = {}
        for vector in text_vectors(node):
            texts = rows.column(vector.source).to_pylist()
            empty = rows.column(vector.property).is_null().to_pylist()
            chosen = wanted.get(vector.property, set())
            missing[vector] = {
                place: text
                for place, text in enumerate(texts)
                if ids_now[place] in chosen and is_text(text) and (self.which == "all" or empty[place])
            }
        return rows, missing

    def _embed(
        self,
        node: NodeType,
        missing: dict[TextVector, dict[int, str]],
        by_text: dict[tuple[str, str], np.ndarray],
    ) -> EmbeddingRefused | EmbeddingUnavailable | None:
        """Make what is not made yet; what the provider says when it fails, with what it made before kept."""
        for vector, texts in missing.items():
            rest = [text for text in dict.fromkeys(texts.values()) if (vector.property, text) not in by_text]
            for start in range(0, len(rest), ROWS_AT_ONCE):
                batch = rest[start : start + ROWS_AT_ONCE]
                try:
                    vectors = self.filling.embedded(vector, batch)
                except (EmbeddingRefused, EmbeddingUnavailable) as failure:
                    return failure
                by_text.update(((vector.property, text), row) for text, row in zip(batch, vectors, strict=True))
                self._done += len(batch)
                seconds = time.monotonic() - self._started
                stage = f"embed {node.name}"
                self.progress.update(Status(stage, self._done, self._all, self._done, seconds, unit="texts"))
        return None


def _texts(table: Table, vector: TextVector, which: Which) -> pa.Table:
    """Id and text of the rows that may need a vector."""
    has_text = f"`{vector.source}` IS NOT NULL"
    condition = has_text if which == "all" else f"{has_text} AND `{vector.property}` IS NULL"
    return table.read(["id", vector.source], condition)


def _portions(node: NodeType, ids: list[str]) -> Iterator[list[str]]:
    row_bytes = 4 * sum(vector.dimension for vector in text_vectors(node))
    size = max(1, min(MAX_ROWS, MAX_VECTOR_BYTES // row_bytes))
    return (ids[start : start + size] for start in range(0, len(ids), size))


def _filled(
    node: NodeType,
    rows: pa.Table | None,
    missing: dict[TextVector, dict[int, str]],
    by_text: dict[tuple[str, str], np.ndarray],
) -> pa.Table | None:
    """The rows that get a vector, with it."""
    changed: set[int] = set()
    for vector, texts in missing.items():
        places = [place for place, text in texts.items() if (vector.property, text) in by_text]
        if rows is None or not places:
            continue
        vectors = np.array([by_text[vector.property, texts[place]] for place in places])
        index = rows.schema.get_field_index(vector.property)
        column = with_vectors(rows.column(vector.property), places, vectors)
        rows = rows.set_column(index, rows.schema.field(index), column)
        changed.update(places)
    return None if rows is None or not changed else rows.take(sorted(changed))
