"""Divergences between two rows, in floats and nats, which budgets and thresholds are given in."""

from __future__ import annotations

import math

import numpy as np

from speculative.distribution import Row


def kullback_leibler(first: Row, second: Row) -> float:
    """Sum of first * log(first / second): infinite where `second` rules out a token of `first`.

    Parameters
    ----------
    first, second : ndarray, shape (V,)
        Two laws over the same tokens.

    Returns
    -------
    float
        In nats.
    """
    held = first > 0
    first, second = first[held].astype(np.float64), second[held].astype(np.float64)
    if not second.all():
        return math.inf
    return max(0.0, float((first * np.log(first / second)).sum()))  # rounding can bring equal rows below 0


def jensen_shannon(first: Row, second: Row) -> float:
    """Mean of the divergences of two rows from their middle: 0 for equal rows, log 2 for disjoint ones.

    Parameters
    ----------
    first, second : ndarray, shape (V,)
        Two laws over the same tokens.

    Returns
    -------
    float
        In nats.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    middle = (first + second) / 2
    return (kullback_leibler(first, middle) + kullback_leibler(second, middle)) / 2
