"""Vector distances, exactly: cosine distance in double precision, rounded once to F32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def distances(cells: pa.ChunkedArray | pa.Array, query: Sequence[float]) -> pa.Array:
    """The cosine distance of each vector to the query; null for a missing vector, and where a length is zero."""
    import pyarrow as pa

    chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
    parts = [_distances(chunk, query) for chunk in chunks]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.float32())


def _distances(chunk: pa.Array, query: Sequence[float]) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    wanted = np.asarray(query, dtype=np.float64)
    if len(chunk) == 0:
        return pa.array([], pa.float32())
    matrix = _matrix(chunk, len(wanted))
    # Row by row in a fixed order of addition: a row's distance never depends on its neighbours.
    dots = np.einsum("ij,j->i", matrix, wanted)
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * float(np.sqrt(np.dot(wanted, wanted)))
    with np.errstate(divide="ignore", invalid="ignore"):
        result = 1.0 - dots / lengths
    missing = ~np.isfinite(result) | np.asarray(chunk.is_null())
    return pa.array(result.astype(np.float32), pa.float32(), mask=missing)


def _matrix(chunk: pa.Array, width: int) -> np.ndarray:
    import numpy as np

    flat = chunk.values.slice(chunk.offset * width, len(chunk) * width)
    numbers = flat.to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64).reshape(len(chunk), width)
