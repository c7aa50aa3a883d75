"""Code of the user's own: found by `file.py:name` or `module:name`, and named in one line where it raises."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any


class OwnCodeError(ValueError):
    """What is wrong with code of the user's own, in one line."""


def load(where: str) -> Callable[..., Any]:
    """Return the function that `file.py:name` or `module:name` stands for."""
    source, _, name = where.rpartition(":")
    if not source or not name:
        raise OwnCodeError(f"{where!r} names no function: write file.py:function or module:function")
    with blaming(where):
        module = _module(source)
    function = getattr(module, name, None)
    if not callable(function):
        found = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise OwnCodeError(
            f"{where!r}: no function {name!r} in {source}: write one of {', '.join(found) or 'its functions'}"
        )
    return function  # type: ignore[no-any-return]  # anything that can be called


@contextmanager
def blaming(where: str, doing: str = "") -> Iterator[None]:
    """Turn whatever is raised inside into an `OwnCodeError` that names the code, the error and the line."""
    try:
        yield
    except (OwnCodeError, BrokenPipeError):
        raise
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise OwnCodeError(f"{where}{doing}: {kind}{error}{_line(where, error)}") from error


def _module(source: str) -> ModuleType:
    if not source.endswith(".py"):
        sys.path.insert(0, "")  # what `python -m` looks through and a console script does not
        return importlib.import_module(source)
    path = Path(source)
    if not path.is_file():
        raise OwnCodeError(f"{source!r} is no file: write the path of a Python file, or module:function")
    sys.path.insert(0, str(path.resolve().parent))
    name = f"own_{path.stem}"  # a file called token.py is not the token of the standard library
    module = sys.modules[name] = ModuleType(name)
    SourceFileLoader(name, str(path)).exec_module(module)
    return module


def _line(where: str, error: BaseException) -> str:
    """Say which line of the user's file the error came from, where it came from there."""
    stem = where.rpartition(":")[0].removesuffix(".py").replace("/", ".").rpartition(".")[2]
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).stem == stem
    ]
    return f" (line {frames[-1].lineno})" if frames else ""
