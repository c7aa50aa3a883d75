"""Generators that draw what a test tells them, so that every uniform of a grid can be tried in turn."""

import ctypes
import threading
from collections import Counter
from contextlib import contextmanager
from fractions import Fraction
from itertools import product
from unittest import mock

import numpy as np

from speculative import generator

_WORD = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
_SHORT_WORD = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
_REAL = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)


class _Interface(ctypes.Structure):
    _fields_ = [
        ("state", ctypes.c_void_p),
        ("next_uint64", _WORD),
        ("next_uint32", _SHORT_WORD),
        ("next_double", _REAL),
        ("next_raw", _WORD),
    ]


class ScriptedBits:
    """A bit generator whose words are given: `numpy.random.Generator(ScriptedBits(words))` is the real thing.

    numpy makes a float64 of the word's 53 lowest bits here, a float32 of its 32 bits less the 8 lowest.
    """

    def __init__(self, words):
        self._words = iter(words)
        self.drawn = 0
        self.lock = threading.RLock()
        self._interface = _Interface(
            None,
            _WORD(self._next),
            _SHORT_WORD(self._next),
            _REAL(lambda state: self._next(state) * 2.0**-53),
            _WORD(self._next),
        )
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = new_capsule(ctypes.byref(self._interface), b"BitGenerator", None)

    def _next(self, _):
        self.drawn += 1
        return next(self._words)


def uniforms(*points):
    """Return a real numpy generator whose float64 uniforms are points * 2**-53."""
    return np.random.Generator(ScriptedBits(points))


_UNUSED_BITS = np.random.PCG64(0)


class GridGenerator(np.random.Generator):
    """A real numpy generator on a coarse grid: its uniforms are points * 2**-bits, of the dtype asked for."""

    def __init__(self, points, bits):
        super().__init__(_UNUSED_BITS)
        self._points, self._bits = iter(points), bits

    def random(self, size=None, dtype=np.float64):
        if size is None:
            return next(self._points) * 2.0**-self._bits
        drawn = [next(self._points) * 2.0**-self._bits for _ in range(int(np.prod(size)))]
        return np.array(drawn, dtype=dtype).reshape(size)


def brute_force(function, bits, draws=1):
    """Return the law of `function(rng)` by running it on every combination of `draws` grid points."""
    counts = Counter(
        function(GridGenerator(points, bits)) for points in product(range(1 << bits), repeat=draws)
    )
    return {outcome: Fraction(count, 1 << bits * draws) for outcome, count in counts.items()}


@contextmanager
def grid(bits):
    """Let the stand-in's uniforms of every dtype lie on multiples of 2**-bits."""
    with mock.patch.dict(generator._BITS, dict.fromkeys(generator._BITS, bits)):
        yield
