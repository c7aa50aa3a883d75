"""Products with blocked matrices are products; the width of the blocks is measured once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.model import blocks
from speculative.model.blocks import block_width, blocked, computed_as, multiplied, product

sizes = st.integers(1, 40)


@given(sizes, sizes, sizes, st.integers(1, 9))
def test_a_product_with_blocks_is_the_product(rows, inputs, outputs, width):
    rng = np.random.default_rng((rows, inputs, outputs, width))
    x = rng.normal(size=(rows, inputs)).astype(np.float32)
    matrix = rng.normal(size=(inputs, outputs))
    made = product(x, blocked(matrix, width))
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    assert made.shape == (rows, -(-outputs // width) * width)
    np.testing.assert_allclose(made[:, :outputs], x @ matrix, atol=1e-4)
    assert not made[:, outputs:].any()  # the filling


def test_blocks_lie_one_after_the_other():
    made = blocked(np.arange(15).reshape(3, 5), 2)  # as integers, in another order than that of the memory
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    assert made.tolist() == [
        [[0, 1], [5, 6], [10, 11]],
        [[2, 3], [7, 8], [12, 13]],
        [[4, 0], [9, 0], [14, 0]],
    ]
    assert (
        blocked(np.arange(15).reshape(5, 3).T, 2) == blocked(np.arange(15).reshape(5, 3).T.copy(), 2)
    ).all()


@pytest.mark.parametrize(
    ("seconds", "width"),
    [
        ({32: 1.0, 64: 1.0, 96: 1.0, 128: 1.0}, 64),
        ({32: 1.0, 64: 1.0, 96: 0.9, 128: 1.0}, 64),  # not clearly faster
        ({32: 1.0, 64: 1.0, 96: 0.84, 128: 0.9}, 96),
        ({32: 0.5, 64: 1.0, 96: 0.6, 128: 0.9}, 32),
        ({32: 2.0, 64: 1.0, 96: 2.0, 128: 2.0}, 64),
    ],
)
def test_another_width_is_taken_only_where_it_is_clearly_faster(monkeypatch, seconds, width):
    monkeypatch.setattr(blocks, "_fastest", lambda x, matrix: seconds[matrix.shape[2]])
    assert block_width.__wrapped__() == width


def test_the_width_is_measured_once_a_process(monkeypatch):
    asked = []
    monkeypatch.setattr(blocks, "_fastest", lambda x, matrix: asked.append(matrix.shape) or 1.0)
    block_width.cache_clear()
    assert block_width() == block_width() == 64
    assert [width for _, _, width in asked] == [32, 64, 96, 128]
    block_width.cache_clear()  # the next one measures, as is right


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        ([1.0] * 4, {1: 2, 2: 2, 3: 4}),
        ([0.86, 1.0, 0.86, 1.0], {1: 2, 2: 2, 3: 4}),  # not clearly faster
        ([2.0, 1.0, 0.84, 1.0], {1: 3, 2: 3, 3: 3}),
        ([0.84, 1.0, 0.84, 1.0], {1: 1, 2: 3, 3: 3}),
        ([0.25, 1.0, 0.9, 0.8], {1: 1, 2: 4, 3: 4}),  # as with the kernels for AVX2
    ],
)
def test_another_number_of_rows_is_computed_only_where_that_is_clearly_faster(monkeypatch, seconds, found):
    monkeypatch.setattr(blocks, "_fastest", lambda x, matrix: seconds[len(x) - 1])
    monkeypatch.setattr(blocks, "block_width", lambda: 64)
    assert computed_as.__wrapped__() == found


@pytest.mark.parametrize("found", [{1: 2, 2: 2, 3: 4}, {1: 1, 2: 4, 3: 3}])
@pytest.mark.parametrize("rows", range(1, 6))
def test_rows_are_computed_as_so_many(monkeypatch, found, rows):
    asked = []
    monkeypatch.setattr(blocks, "computed_as", lambda: found)
    monkeypatch.setattr(blocks, "multiplied", lambda x, matrix: asked.append(len(x)) or multiplied(x, matrix))
    rng = np.random.default_rng(0)
    x, matrix = rng.normal(size=(rows, 64)).astype(np.float32), blocked(rng.normal(size=(64, 90)), 32)
    made = product(x, matrix)
    assert asked == [found.get(rows, rows)]
    assert made.shape == (rows, 96)
    assert made.flags.c_contiguous
    np.testing.assert_allclose(made, multiplied(x, matrix), atol=1e-5)


def test_a_single_row_is_the_row_that_it_is_among_two_to_the_bit(monkeypatch):
    monkeypatch.setattr(blocks, "computed_as", lambda: blocks.USUALLY)
    rng = np.random.default_rng(0)
    x, matrix = rng.normal(size=(2, 64)).astype(np.float32), blocked(rng.normal(size=(64, 90)), 32)
    assert (product(x[:1], matrix) == product(x, matrix)[:1]).all()


def test_a_time_is_the_least_of_several(monkeypatch):
    x, matrix = np.ones((5, 256), dtype=np.float32), blocked(np.ones((256, 1536)), 64)
    assert 0 < blocks._fastest(x, matrix) < 1
    assert block_width() in blocks.WIDTHS
    ticks = iter(np.cumsum([0, *[9, 1] * 7, *[4, 1] * 5, *[7, 1] * 8]))
    monkeypatch.setattr(blocks.time, "perf_counter", lambda: next(ticks))
    assert blocks._fastest(x, matrix) == 4
