"""Python source that proves a verifier again, to be pasted."""

from __future__ import annotations

import sys
from pathlib import Path

from speculative.battery import Instance
from speculative.cli.drafting import Shape, takes_chains
from speculative.verify import VERIFIERS


def of_table(instance: Instance, name: str, shape: Shape | None = None) -> str:
    """Return source that proves a verifier of the table on an instance, with drafts of a shape or its own."""
    entry = f"VERIFIERS[{name!r}]"
    arguments = f"{entry}.function"
    arguments += "" if VERIFIERS[name].target_warp is None else f", warp={entry}.target_warp"
    if shape is None and not takes_chains(VERIFIERS[name]):
        arguments += f", make_drafter={entry}.make_drafter"
    drafts = f", make_drafter={_code(shape)}" if shape else ""
    header = "from functools import partial\n\n" if shape else ""
    imports = f"from speculative import VERIFIERS, Instance{', draft' if shape else ''}"
    return f"{header}{imports}\n\n{_proof(instance, arguments + drafts)}"


def _code(shape: Shape) -> str:
    """Return the expression of a drafter's maker, which is one of `speculative.draft` with some arguments."""
    made = shape.make_drafter
    arguments = (
        f"{name}={f'draft.{value.__name__}' if callable(value) else repr(value)}"
        for name, value in made.keywords.items()
    )
    return f"partial(draft.{made.func.__name__}, {', '.join(arguments)})"


def of_own(instance: Instance, where: str, shape: Shape | None = None, *, numpy: bool, under: str) -> str:
    """Return source that proves a verifier of the user's own, under a warp where one is named."""
    source, _, name = where.rpartition(":")
    header, imports = "", f"from speculative import Instance{', draft' * bool(shape)}"
    imports += f"{', temperature' * bool(under)}\n"
    imports += "from speculative.verify import from_numpy\n" if numpy else ""
    if source.endswith(".py"):
        path = Path(source).resolve()
        if path.stem.isidentifier() and path.stem not in sys.stdlib_module_names:
            header = "import sys\n"
            imports += f"\nsys.path.insert(0, {str(path.parent)!r})\nfrom {path.stem} import {name}\n"
        else:  # not to be imported by its name
            header = "import runpy\n"
            imports += f"\n{name} = runpy.run_path({str(path)!r})[{name!r}]\n"
    else:
        imports += f"from {source} import {name}\n"
    rule = f"from_numpy({name})" if numpy else name
    rule += f", warp={under}" if under else ""
    rule += f", make_drafter={_code(shape)}" if shape else ""
    header += "from functools import partial\n" if shape else ""
    return f"{header}{chr(10) if header else ''}{imports}\n{_proof(instance, rule)}"


def _proof(instance: Instance, arguments: str) -> str:
    """Return the instance and its proof, without the imports that `Instance.code` begins with."""
    return instance.code(arguments).partition("\n\n")[2]
