"""What counts as a public name of the package, and which of them lack a docstring.

Public is every module or package right below `speculative` without a leading underscore, and in it every name
in `__all__`, or, where there is none, every function and class that is defined there and has no leading
underscore. What is public in the packages `draft`, `verify` and `model` can be imported from these packages.
The command line is not a module to import: its options are described by `--help`.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import speculative


def modules() -> list[str]:
    """Return the names of the public modules, the package itself left out."""
    found = (info.name for info in pkgutil.iter_modules(speculative.__path__))
    return [f"speculative.{name}" for name in found if not name.startswith("_") and name != "cli"]


def names(module_name: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, object) for each public function and class of a module, and what `__all__` has."""
    module = importlib.import_module(module_name)
    for name, thing in list(vars(module).items()):
        if name in getattr(module, "__all__", ()) or (
            not hasattr(module, "__all__")
            and not name.startswith("_")
            and (inspect.isclass(thing) or inspect.isroutine(thing))
            and thing.__module__ == module_name
        ):
            yield name, thing


def undocumented() -> Iterator[str]:
    """Yield the dotted name of every public module, function, class, method and property without a docstring.

    A method need not repeat what a documented protocol beside it, or a class that it is derived from, says
    about the method of that name.
    """
    for module_name in ["speculative", *modules()]:
        module = importlib.import_module(module_name)
        if not module.__doc__:
            yield module_name
        promised = {
            name
            for thing in vars(module).values()
            if getattr(thing, "_is_protocol", False)
            for name, method in vars(thing).items()
            if inspect.isroutine(method) and method.__doc__
        }
        for name, thing in names(module_name):
            if not (inspect.isclass(thing) or inspect.isroutine(thing)):
                continue
            if not inspect.getdoc(thing):
                yield f"{module_name}.{name}"
            members = vars(thing).items() if inspect.isclass(thing) else ()
            inherited = {
                known
                for base in getattr(thing, "__mro__", ())[1:]
                for known, member in vars(base).items()
                if member.__doc__
            }
            for member_name, member in members:
                if (
                    not member_name.startswith("_")
                    and member_name not in promised | inherited
                    and (
                        inspect.isroutine(member) or isinstance(member, (property, classmethod, staticmethod))
                    )
                    and not inspect.getdoc(getattr(thing, member_name))
                ):
                    yield f"{module_name}.{name}.{member_name}"
