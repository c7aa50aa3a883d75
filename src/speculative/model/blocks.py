"""Matrices cut into column blocks, so that a product with a few rows takes BLAS's path for small matrices.

A plain product `x @ matrix` with 2 to about 30 rows packs the whole matrix anew before it multiplies. Cut
into blocks of 64 columns or so, and multiplied by one batched `numpy.matmul`, the matrix is read where it
lies: a block is small enough for kernels without packing. OpenBLAS has them for processors with AVX-512;
elsewhere the blocks neither help nor harm much, and a calibration chooses their width.

A single row would take another path, that of vectors, which with blocks is slower than two rows. So it is
computed as two, unless the calibration finds otherwise; and is then rounded as it is among a few others.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

USUAL, WIDTHS = 64, (32, 64, 96, 128)
CLEARLY = 0.85  # the unusual is taken when its time is less than this part of the usual one's


def blocked(matrix: NDArray[Any], width: int) -> Floats:
    """A matrix in column blocks.

    Parameters
    ----------
    matrix : ndarray, shape (inputs, outputs)
        What rows are multiplied by from the right.
    width : int
        Columns a block.

    Returns
    -------
    ndarray of float32, shape (ceil(outputs / width), inputs, width)
        The last block is filled up with columns of zeros.
    """
    inputs, outputs = matrix.shape
    blocks = -(-outputs // width)
    padded = np.zeros((inputs, blocks * width), dtype=np.float32)
    padded[:, :outputs] = matrix
    return np.ascontiguousarray(padded.reshape(inputs, blocks, width).transpose(1, 0, 2))


def product(x: Floats, blocks: Floats) -> Floats:
    """Rows, shape (rows, inputs), times a blocked matrix: shape (rows, columns), the filling included."""
    if len(x) == 1 and fewest_rows() == 2:
        return multiplied(x.repeat(2, axis=0), blocks)[:1]
    return multiplied(x, blocks)


def multiplied(x: Floats, blocks: Floats) -> Floats:
    """The same as `product`, of as many rows as there are."""
    count, _, width = blocks.shape
    result = np.empty((len(x), count, width), dtype=np.float32)
    np.matmul(x, blocks, out=result.transpose(1, 0, 2))
    return result.reshape(len(x), count * width)


@lru_cache(maxsize=1)
def block_width() -> int:
    """The width of blocks that is fastest here: 64, unless another one is clearly faster. Takes some 10 ms.

    Measured once a process, on five rows and a matrix of the middle size of small models.
    """
    matrix, x = np.ones((256, 1536), dtype=np.float32), np.ones((5, 256), dtype=np.float32)
    seconds = {width: _fastest(x, blocked(matrix, width)) for width in WIDTHS}
    best = min(seconds, key=seconds.__getitem__)
    return best if seconds[best] < CLEARLY * seconds[USUAL] else USUAL


@lru_cache(maxsize=1)
def fewest_rows() -> int:
    """As how many rows a single one is computed: two, unless one alone is clearly faster here.

    Measured once a process, on the same matrix, in a few milliseconds.
    """
    blocks, x = blocked(np.ones((256, 1536), dtype=np.float32), block_width()), np.ones((2, 256), np.float32)
    return 1 if _fastest(x[:1], blocks) < CLEARLY * _fastest(x, blocks) else 2


def _fastest(x: Floats, blocks: Floats) -> float:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        multiplied(x, blocks)
        times.append(time.perf_counter() - start)
    return min(times)
