"""Exact vector distances: computed in double precision, rounded once to F32. Smaller is nearer.

cosine: 1 - cosine of the angle. l2: the length of the difference. dot: the inner product, negated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.language.catalog import Metric

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def distances(cells: pa.ChunkedArray | pa.Array, query: Sequence[float], metric: Metric = "cosine") -> pa.Array:
    """The distance of each vector to the query; null for a missing vector, and for the angle with a zero vector."""
    import pyarrow as pa

    chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
    parts = [_distances(chunk, query, metric) for chunk in chunks]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.float32())


def _distances(chunk: pa.Array, query: Sequence[float], metric: Metric) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    wanted = np.asarray(query, dtype=np.float64)
    if len(chunk) == 0:
        return pa.array([], pa.float32())
    matrix = _matrix(chunk, len(wanted))
    # Row by row in a fixed order of addition: a row's distance never depends on the other rows.
    with np.errstate(all="ignore"):
        match metric:
            case "cosine":
                lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * float(np.sqrt(np.dot(wanted, wanted)))
                exact = 1.0 - np.einsum("ij,j->i", matrix, wanted) / lengths
            case "l2":
                apart = matrix - wanted
                exact = np.sqrt(np.einsum("ij,ij->i", apart, apart))
            case "dot":
                exact = -np.einsum("ij,j->i", matrix, wanted)
        result = exact.astype(np.float32)
    missing = ~np.isfinite(result) | np.asarray(chunk.is_null())
    return pa.array(result, pa.float32(), mask=missing)


def _matrix(chunk: pa.Array, width: int) -> np.ndarray:
    import numpy as np

    flat = chunk.values.slice(chunk.offset * width, len(chunk) * width)
    numbers = flat.to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64).reshape(len(chunk), width)
