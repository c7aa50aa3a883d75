"""Arrays of undecided numbers, and what numpy's functions make of such numbers and arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from speculative.undecided import CannotEnumerateError, Undecided, apply_to_numbers

_ABOUT_SHAPES = {np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.empty_like, np.full_like}
_VIEWS = {
    np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims,
    np.flip, np.fliplr, np.flipud, np.rot90, np.diagonal,
}  # fmt: skip
_MOVING_ELEMENTS = {
    *_VIEWS, np.where, np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack, np.append,
    np.take, np.take_along_axis, np.repeat, np.tile, np.roll, np.broadcast_to, np.copy,
}  # fmt: skip
_ARGUMENTS_BEFORE_OUT = {np.concatenate: 2, np.stack: 2, np.take: 3}
_KEPT_ATTRIBUTES = {
    "T", "mT", "base", "copy", "device", "diagonal", "flags", "flat", "flatten", "itemsize", "nbytes", "ndim",
    "ravel", "repeat", "reshape", "round", "shape", "size", "squeeze", "strides", "swapaxes", "take",
    "transpose",
}  # fmt: skip
_ADVICE = "compare them with numbers first, or move them only, as numpy.where, take and stack do"


class UndecidedArray(np.ndarray[Any, np.dtype[Any]]):
    """An array of undecided numbers, and decided ones among them, that are floats of one type.

    Comparing it gives an ordinary array of bool.
    """

    _float_type: np.dtype[Any]

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, UndecidedArray):
            self._float_type = source._float_type

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _apply(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _VIEWS and args and args[0] is self:
            return super().__array_function__(function, types, args, kwargs)
        return _call(function, args, kwargs)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the floats that the numbers are."""
        return self._float_type

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return an array of that type: undecided still where it is a float type, decided where it is not."""
        template = _template(self)
        result = template.astype(dtype, *args, **kwargs)
        if result is template:
            return self
        if result.dtype.kind in "fO":
            return array_of([_typed(number, result.dtype) for number in self.flat], self.shape, result.dtype)
        return np.ndarray.view(self, np.ndarray).astype(result.dtype)

    def item(self, *args: Any) -> Any:
        """Return a number as numpy does, as a Python float."""
        return _typed(super().item(*args), np.dtype(object))

    def tolist(self) -> Any:
        """Return the numbers as numpy does, as Python floats."""
        return self.astype(object).tolist()

    def __setitem__(self, key: Any, value: Any) -> None:
        _template(self)[key] = _template(value)  # raises what numpy raises
        values = np.asarray(value)
        typed = np.empty(values.size, dtype=object)
        typed[:] = [_typed(number, self.dtype) for number in values.flat]
        super().__setitem__(key, typed.reshape(values.shape))

    def __copy__(self) -> UndecidedArray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> UndecidedArray:
        return self.copy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CannotEnumerateError("pickling undecided numbers", "send what was decided with them")

    def __str__(self) -> str:
        raise CannotEnumerateError(
            "str() of undecided numbers", "return what was decided with them; repr() shows them"
        )

    def __format__(self, specification: str) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<undecided: {self.size} numbers of {self.dtype}>"


def _refusing(name: str) -> property:
    def refuse(_array: Any) -> Any:
        raise CannotEnumerateError(f"attribute {name!r} of undecided numbers", _ADVICE)

    return property(refuse)


for _name in dir(np.ndarray):
    if not _name.startswith("_") and _name not in _KEPT_ATTRIBUTES and _name not in vars(UndecidedArray):
        setattr(UndecidedArray, _name, _refusing(_name))


def _ufunc_of_number(_number: Undecided, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    return _apply(ufunc, method, inputs, options)


def _function_of_number(_number: Undecided, function: Any, _types: Any, args: Any, kwargs: Any) -> Any:
    return _call(function, args, kwargs)


Undecided.__array_ufunc__ = _ufunc_of_number
Undecided.__array_function__ = _function_of_number


def array_of(numbers: Sequence[Any], shape: Any, dtype: Any) -> Any:
    """Return an array of numbers of type `dtype`, an ordinary one where none of them is undecided."""
    if not any(isinstance(number, Undecided) for number in numbers):
        return np.array(numbers, dtype=dtype).reshape(shape)
    objects = np.empty(len(numbers), dtype=object)
    objects[:] = numbers
    objects = objects.reshape(shape)
    if np.dtype(dtype).kind == "O":
        return objects
    array = objects.view(UndecidedArray)
    array._float_type = np.dtype(dtype)
    return array


def _typed(number: Any, dtype: np.dtype[Any]) -> Any:
    """Return an element as one of an array of `dtype`; in arrays of objects floats are Python's."""
    if isinstance(number, Undecided):
        if dtype.kind not in "fO":
            raise CannotEnumerateError(f"an array of {dtype} that holds undecided numbers", _ADVICE)
        return number.as_type(float if dtype.kind == "O" else dtype.type)
    if dtype.kind == "O":
        return number.item() if isinstance(number, np.generic) else number
    return dtype.type(number)


def _is_undecided(value: Any) -> bool:
    if isinstance(value, UndecidedArray) or (isinstance(value, np.ndarray) and value.dtype == object):
        return any(isinstance(number, Undecided) for number in value.flat)
    if isinstance(value, (list, tuple)):
        return any(map(_is_undecided, value))
    return isinstance(value, Undecided)


def _decided(value: Any) -> Any:
    """Return an array of undecided numbers that holds none as an ordinary one."""
    return (
        array_of(list(value.flat), value.shape, value.dtype) if isinstance(value, UndecidedArray) else value
    )


def _template(value: Any) -> Any:
    """Return numbers of the same types and shapes in place of undecided ones."""
    if isinstance(value, Undecided):
        return value.ends()[0]
    if isinstance(value, UndecidedArray):
        return np.zeros(value.shape, value.dtype)
    if isinstance(value, np.ndarray) and _is_undecided(value):
        return np.array([_template(number) for number in value.flat]).reshape(value.shape)
    return _mapped(_template, value)


def _objects(value: Any) -> Any:
    """Return arrays of objects, which numpy's functions move about, in place of undecided numbers."""
    if isinstance(value, Undecided):
        return np.array(value, dtype=object)
    if isinstance(value, UndecidedArray):
        return np.ndarray.view(value, np.ndarray)
    return _mapped(_objects, value)


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    return type(value)(map(function, value)) if type(value) in (list, tuple) else value


def _apply(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return a ufunc of arrays and numbers, element by element."""
    inputs = tuple(np.asanyarray(value) if isinstance(value, (list, tuple)) else value for value in inputs)
    if method != "at" and "out" not in options and not any(map(_is_undecided, inputs)):
        return getattr(ufunc, method)(*map(_decided, inputs), **options)
    if method != "__call__" or options:
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        keywords = ", ".join(f"{key}=" for key in options)
        raise CannotEnumerateError(
            f"numpy.{name}({keywords}) of undecided numbers",
            "write x = x + 1 for x += 1, and compare each number before adding them up",
        )
    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    if not arrays:
        return apply_to_numbers(ufunc, ufunc, inputs)
    results = [
        apply_to_numbers(ufunc, ufunc, _placed(inputs, elements)) for elements in np.broadcast(*arrays)
    ]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    if shape == ():
        return results[0]
    with np.errstate(all="ignore"):
        dtype = ufunc(*map(_template, inputs)).dtype
    return array_of(results, shape, dtype)


def _placed(inputs: tuple[Any, ...], elements: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with each array replaced by its element; numbers keep their own, weaker type."""
    rest = iter(elements)
    return tuple(next(rest) if isinstance(value, np.ndarray) else value for value in inputs)


def _call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return one of numpy's functions of arrays, if it is one that does no arithmetic."""
    if function in _REPLACED:
        return _REPLACED[function](*args, **kwargs)
    rest = [*args[1:], *kwargs.values()]
    if function in _ABOUT_SHAPES and not any(map(_is_undecided, rest)):
        return function(*map(_template, args), **kwargs)
    writes = kwargs.get("out") is not None or len(args) > _ARGUMENTS_BEFORE_OUT.get(function, len(args))
    if function not in _MOVING_ELEMENTS or writes:
        keywords = "out=" if writes else ""
        raise CannotEnumerateError(
            f"{function.__module__}.{function.__name__}({keywords}) of undecided numbers", _ADVICE
        )
    return _move(function, args, kwargs)


def _move(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function that moves elements gives: its type from numpy, its elements from objects."""
    like, moved = (
        function(*map(convert, args), **{name: convert(value) for name, value in kwargs.items()})
        for convert in (_template, _objects)
    )
    if isinstance(like, tuple):  # where() of one argument gives places
        return moved
    numbers = [_typed(number, like.dtype) for number in np.asarray(moved, dtype=object).flat]
    return array_of(numbers, like.shape, like.dtype) if isinstance(like, np.ndarray) else numbers[0]


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    values: Any = np.asarray(a)
    if sorter is not None or _is_undecided(values):
        raise CannotEnumerateError(
            "numpy.searchsorted(sorter=) or among undecided values", "sort decided values first"
        )
    like = values.searchsorted(_template(v), side)
    if not np.all((np.sort(values) == values) | (values != values)):  # noqa: PLR0124  # NaN comes last
        raise CannotEnumerateError("numpy.searchsorted() in values without order", "sort them first")
    places = [
        key.search(values, side) if isinstance(key, Undecided) else values.searchsorted(key, side)
        for key in np.asarray(v).flat
    ]
    return np.array(places, dtype=np.intp).reshape(np.shape(like))[()]


def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if decimals != 0 or out is not None:
        raise CannotEnumerateError("numpy.round() to decimals", "scale the numbers and round to integers")
    return np.rint(a)


_REPLACED: dict[Any, Callable[..., Any]] = {
    np.searchsorted: _searchsorted,
    np.round: _round,
    np.around: _round,
}
