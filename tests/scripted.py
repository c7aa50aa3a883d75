"""Generators that draw what a test tells them, so that every uniform of a grid can be tried in turn."""

import ctypes
import threading
from collections import Counter
from contextlib import contextmanager
from fractions import Fraction
from itertools import product
from unittest import mock

import numpy as np
import pytest

from speculative import CannotEnumerateError, generator, law, with_generator

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
    """A bit generator whose draws are given, for the real `numpy.random.Generator`.

    A float64 it makes of a draw is draw * 2**-bits. The words that everything else is made of are the draws
    themselves; numpy makes a float32 of the 24 highest of a word's 32 bits.
    """

    def __init__(self, draws, bits=53):
        self._draws = iter(draws)
        self.drawn = 0
        self.lock = threading.RLock()
        self._interface = _Interface(
            None,
            _WORD(self._next),
            _SHORT_WORD(self._next),
            _REAL(lambda state: self._next(state) * 2.0**-bits),
            _WORD(self._next),
        )
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype = ctypes.py_object
        new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = new_capsule(ctypes.byref(self._interface), b"BitGenerator", None)

    def _next(self, _):
        self.drawn += 1
        return next(self._draws)


def uniforms(*points):
    """Return a real numpy generator whose float64 uniforms are points * 2**-53."""
    return np.random.Generator(ScriptedBits(points))


_UNUSED_BITS = np.random.PCG64(0)


class GridGenerator(np.random.Generator):
    """A generator on a coarse grid, float16 included: its uniforms are points * 2**-bits of any dtype."""

    def __init__(self, points, bits):
        super().__init__(_UNUSED_BITS)
        self._points, self._bits = iter(points), bits

    def random(self, size=None, dtype=np.float64):
        if size is None:
            return next(self._points) * 2.0**-self._bits
        drawn = [next(self._points) * 2.0**-self._bits for _ in range(int(np.prod(size)))]
        return np.array(drawn, dtype=dtype).reshape(size)


def frequencies(outcomes):
    """Return the share of each outcome among equally likely ones."""
    counts = Counter(outcomes)
    return {outcome: Fraction(count, counts.total()) for outcome, count in counts.items()}


def brute_force(function, bits, draws=1):
    """Return the law of `function(rng)` by running it on every combination of `draws` grid points."""
    return frequencies(
        function(GridGenerator(points, bits)) for points in product(range(1 << bits), repeat=draws)
    )


def numpy_law(function, *choices, bits=53):
    """Return the law of `function(rng)` with numpy's own generator, by every combination of its draws."""
    return frequencies(
        function(np.random.Generator(ScriptedBits(draws, bits))) for draws in product(*choices)
    )


@contextmanager
def grid(bits):
    """Let the stand-in's uniforms of every dtype lie on multiples of 2**-bits."""
    with mock.patch.dict(generator._BITS, dict.fromkeys(generator._BITS, bits)):
        yield


def same_law(function, bits=8, draws=1, errors=ZeroDivisionError):
    """Assert that the enumerated law of `function(rng)` is that of running it on the whole grid.

    Where that raises one of `errors`, as a Python float divided by zero does, the enumeration has to.
    """
    with np.errstate(all="ignore"):
        try:
            expected = brute_force(function, bits, draws)
        except errors as error:
            with grid(bits), pytest.raises(type(error)):
                law(with_generator(function))
            return {}
        with grid(bits):
            found = law(with_generator(function))
    assert found == expected
    assert found.exact
    return found


def refusal_of(function):
    """Return the one line with which the stand-in refuses `function(rng)`."""
    with pytest.raises(CannotEnumerateError) as refusal:
        law(with_generator(function))
    assert " has no law that can be enumerated: " in str(refusal.value)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)
