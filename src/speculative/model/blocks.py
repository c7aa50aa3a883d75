"""Matrices cut into column blocks, so that a product with a few rows takes BLAS's path for small matrices.

A plain product `x @ matrix` with 2 to about 30 rows packs the whole matrix anew before it multiplies. Cut
into blocks of 64 columns or so, and multiplied by one batched `numpy.matmul`, the matrix is read where it
lies: a block is small enough for kernels without packing. A calibration chooses the width.

OpenBLAS has such kernels for processors with AVX-512. There three rows last longer than four, and a single
row, on the path for vectors, longer than two. So they are computed as one more, and a single row is rounded
as it is among a few others. With the kernels for AVX2 two rows take longer than four, and four take three
times as long as one, in blocks or not: the calibration finds other numbers, and speculation brings little
(docs/explanation/it-pays.md).
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

USUAL, WIDTHS = 64, (32, 64, 96, 128)
USUALLY = {1: 2, 2: 2, 3: 4}  # rows -> how many are computed for them
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
    return multiplied(filled(x), blocks)[: len(x)]


def filled(x: Any) -> Any:
    """The rows of an array, and the last of them again where more of them are sooner computed."""
    return filled_to(computed_as().get(len(x), len(x)), x)


def filled_to(rows: int, x: Any) -> Any:
    """An array with so many rows: those that there are, and the last of them again."""
    return np.concatenate([x, *(x[-1:],) * (rows - len(x))]) if rows > len(x) else x


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
def computed_as() -> dict[int, int]:
    """How many rows are computed for one, two and three: the usual, unless others are clearly faster.

    Measured once a process, on the same matrix, in some 10 ms.
    """
    blocks, x = blocked(np.ones((256, 1536), dtype=np.float32), block_width()), np.ones((4, 256), np.float32)
    seconds = {rows: _fastest(x[:rows], blocks) for rows in range(1, 5)}
    found = {rows: min(range(rows, 5), key=seconds.__getitem__) for rows in USUALLY}
    return {
        rows: found[rows] if seconds[found[rows]] < CLEARLY * seconds[usual] else usual
        for rows, usual in USUALLY.items()
    }


def _fastest(x: Floats, blocks: Floats) -> float:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        multiplied(x, blocks)
        times.append(time.perf_counter() - start)
    return min(times)
