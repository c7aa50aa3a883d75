"""Code of the user's own: found by `file.py:name` or `module:name`, and named in one line where it raises."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from speculative import CannotEnumerateError, ImpureProgramError

PLAIN = (ValueError, ImpureProgramError, CannotEnumerateError)  # what tells all in its message


class OwnCodeError(ValueError):
    """What is wrong with code of the user's own, in one line."""


@contextmanager
def as_found() -> Iterator[None]:
    """Leave the process as it was found, after code of the user's own.

    Restored are `sys.path`, the modules of folders that were added to it, warnings filters, numpy's handling
    of float errors and the environment. What `load` returns is run inside: it may import what lies beside it
    only when it is called.
    """
    path, modules, environment = sys.path[:], set(sys.modules), dict(os.environ)
    try:
        with warnings.catch_warnings(), np.errstate():
            yield
    finally:
        folders = {Path(entry).resolve() for entry in sys.path if entry not in path}
        for name in set(sys.modules) - modules:
            if _home(name) in folders:
                del sys.modules[name]
        sys.path[:] = path
        if environment != os.environ:
            os.environ.clear()
            os.environ.update(environment)


def load(where: str) -> Callable[..., Any]:
    """Return the function that `file.py:name` or `module:name` stands for; its folder stays on `sys.path`."""
    source, _, name = where.rpartition(":")
    if not source or not name:
        raise OwnCodeError(f"{where!r} names no function: write file.py:function or module:function")
    with blaming(where):
        module = _module(source)
    function = getattr(module, name, None)
    if not callable(function):
        written = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
        known = f"write one of {', '.join(written)}" if written else "it defines none"
        raise OwnCodeError(f"{where!r}: no function {name!r} in {source}: {known}")
    return function  # type: ignore[no-any-return]  # anything that can be called


@contextmanager
def blaming(*wheres: str, doing: str = "", hint: str = "") -> Iterator[None]:
    """Turn whatever is raised inside into an `OwnCodeError` that names the code, the error and the line.

    Of several pieces of code the one is named that the error came from, or else the first. The hint is added
    to what the code itself raises.
    """
    try:
        yield
    except (OwnCodeError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, PLAIN) else f"{type(error).__name__}: "
        lines = {where: line for where in wheres if (line := _line(where, error))}
        where, line = next(iter(lines.items()), (wheres[0], ""))
        hint = hint if line and not isinstance(error, ImpureProgramError) else ""
        raise OwnCodeError(f"{where}{doing}: {kind}{error}{line}{hint}") from error


def _module(source: str) -> ModuleType:
    if not source.endswith(".py"):
        sys.path.insert(0, "")  # what `python -m` looks through and a console script does not
        return importlib.import_module(source)
    path = Path(source)
    if not path.is_file():
        raise OwnCodeError(f"{source!r} is no file: write the path of a Python file, or module:function")
    sys.path.insert(0, str(path.resolve().parent))
    name = f"own_{path.stem}"  # a file called token.py is not the token of the standard library
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None  # this loader knows its file
    module = sys.modules[name] = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _home(name: str) -> Path | None:
    """Return the folder that a module, or the package it belongs to, was found in."""
    file = getattr(sys.modules[name], "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    depth = name.count(".") + (path.stem == "__init__")
    return path.parents[min(depth, len(path.parents) - 1)]


def _line(where: str, error: BaseException) -> str:
    """Say which line of the user's file the error came from, where it came from there."""
    source = where.rpartition(":")[0]
    file = source if source.endswith(".py") else getattr(sys.modules.get(source), "__file__", None)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if file is not None and Path(frame.filename).resolve() == Path(file).resolve()
    ]
    return f" (line {frames[-1].lineno})" if frames else ""
