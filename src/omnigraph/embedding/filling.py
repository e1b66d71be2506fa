"""Vectors of rows from their texts, as `@embed` says. One rule for every write:

A vector that is given is stored. If none is given and the text is not blank, the text is embedded. If there is no text, or only
white space, there is no vector; nor if no provider is set up, unless the vector is required.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.lazy_imports import np, pa
from omnigraph.embedding.providers import Purpose
from omnigraph.embedding.settings import Embedder, EmbeddingSettings
from omnigraph.errors import EmbeddingRefused
from omnigraph.language.catalog import EntityType


@dataclass(frozen=True)
class TextVector:
    """A Vector property that is made from a text."""

    owner: str
    property: str
    source: str
    dimension: int
    model: str | None
    is_required: bool = False


def text_vectors(entity: EntityType) -> tuple[TextVector, ...]:
    """The Vector properties of a type that are made from a text."""
    return tuple(
        TextVector(
            entity.name,
            property.name,
            property.embed.source,
            property.type.dimension or 0,
            property.embed.model,
            property.is_required,
        )
        for property in entity.embedded
        if property.embed is not None
    )


def is_text(value: object) -> bool:
    """Whether there is something to embed."""
    return isinstance(value, str) and bool(value.strip())


@dataclass(frozen=True)
class Embeddings:
    """Embeds what a schema declares, with the providers that are set up."""

    settings: EmbeddingSettings

    def embedded(
        self,
        vector: TextVector,
        texts: Sequence[str],
        purpose: Purpose = "document",
        deadline: Deadline = NEVER,
    ) -> np.ndarray:
        """A vector for each text. EmbeddingRefused names the property."""
        embedder = self.embedder(vector)
        with _named(vector):
            return embedder.embed(texts, vector.dimension, purpose, deadline)

    def embedder(self, vector: TextVector) -> Embedder:
        """The embedder of its vectors. EmbeddingRefused names the property."""
        with _named(vector):
            return self.settings.embedder(vector.model)

    def fills(self, vector: TextVector) -> bool:
        """Whether a write makes this vector. A required one is always tried, so that the error says why it cannot be made."""
        return vector.is_required or self.settings.embeds(vector.model, vector.dimension)

    def filled(self, entity: EntityType, rows: pa.Table) -> pa.Table:
        """The rows with the vectors that they lack."""
        for vector in filter(self.fills, text_vectors(entity)):
            texts = rows.column(vector.source).to_pylist()
            missing = rows.column(vector.property).is_null().to_pylist()
            places = [place for place, text in enumerate(texts) if missing[place] and is_text(text)]
            if places:
                vectors = self.embedded(vector, [texts[place] for place in places])
                column = with_vectors(rows.column(vector.property), places, vectors)
                index = rows.schema.get_field_index(vector.property)
                rows = rows.set_column(index, rows.schema.field(index), column)
        return rows


@contextmanager
def _named(vector: TextVector) -> Iterator[None]:
    try:
        yield
    except EmbeddingRefused as refused:
        message = f"{vector.owner}.{vector.property}: {refused.message}"
        raise EmbeddingRefused(message, hint=refused.hint) from refused.__cause__


def with_vectors(column: pa.ChunkedArray, places: Sequence[int], vectors: np.ndarray) -> pa.Array:
    """A column of vectors with the given ones at the given positions."""
    joined = column.combine_chunks()
    array = joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
    width = array.type.list_size
    flat = np.zeros((len(array), width), np.float32)
    missing = np.array(array.is_null())
    if not missing.all():
        flat[~missing] = np.asarray(array.drop_null().flatten()).reshape(-1, width)
    flat[places] = vectors
    missing[places] = False
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), type=array.type, mask=pa.array(missing))
