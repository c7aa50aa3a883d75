"""The attention of a cached Llama: which rows of a pass see which others, and what each takes from them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from speculative.distribution import Context
from speculative.model.blocks import Floats

__all__: list[str] = []


def mix(queries: Floats, keys: Floats, values: Floats, mask: Floats | None) -> Floats:
    """Attention: for each row and head the values, weighted by the softmax of the scores.

    Parameters
    ----------
    queries : ndarray, shape (rows, query heads, width)
        Already scaled.
    keys, values : ndarrays, shapes (heads, width, positions) and (heads, positions, width)
        Of the key/value heads.
    mask : ndarray, shape (rows, 1, last) or (heads, rows, 1, last), optional
        What to add to the scores of the last positions. All before them are seen, and without it these too.

    Returns
    -------
    ndarray, shape (rows, query heads * width)
    """
    (rows, _, width), heads = queries.shape, len(keys)
    grouped = queries.reshape(rows, heads, -1, width).transpose(1, 0, 2, 3).reshape(heads, -1, width)
    scores: Floats = grouped @ keys  # [heads, rows * group, positions]
    if mask is not None:
        scores.reshape(heads, rows, -1, keys.shape[-1])[..., -mask.shape[-1] :] += mask
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed: Floats = scores @ values
    mixed /= scores.sum(axis=-1, keepdims=True)
    return mixed.reshape(heads, rows, -1, width).transpose(1, 0, 2, 3).reshape(rows, -1)


@lru_cache(maxsize=256)
def shape_of(tokens: int, parents: Context) -> tuple[NDArray[np.intp], Floats | None]:
    """Where the rows of a pass stand, and which of one another they see.

    Parameters
    ----------
    tokens : int
        Tokens in a row, before the tree; node 0 is the last of them.
    parents : tuple of int
        The node that each node follows.

    Returns
    -------
    places : ndarray of int, shape (rows,)
        Position of each row, from the first one's on.
    mask : ndarray of float32, shape (rows, 1, rows), or None for a single row
        What to add to scores: 0 for the row itself and those before it on its path, -inf for others.
    """
    rows = tokens + len(parents)
    places, sees = np.arange(rows), np.tri(rows, dtype=bool)
    for row, parent in enumerate(parents, tokens):
        above = tokens - 1 + parent  # -1 for the last token of an earlier pass
        places[row] = (places[above] if above >= 0 else -1) + 1
        sees[row, :row] = sees[above, :row] if above >= 0 else False
    mask = np.full((rows, 1, rows), -np.inf, dtype=np.float32)
    mask[sees[:, None]] = 0
    return places, mask if rows > 1 else None
