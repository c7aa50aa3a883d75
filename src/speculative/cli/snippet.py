"""Python source that proves a verifier again, to be pasted."""

from __future__ import annotations

import sys
from pathlib import Path

from speculative.battery import Instance
from speculative.verify import VERIFIERS


def of_table(instance: Instance, name: str) -> str:
    """Return source that proves a verifier of the table on an instance."""
    entry = f"VERIFIERS[{name!r}]"
    under = "" if VERIFIERS[name].target_warp is None else f", warp={entry}.target_warp"
    return f"from speculative import VERIFIERS, Instance\n\n{_proof(instance, f'{entry}.function{under}')}"


def of_own(instance: Instance, where: str, *, numpy: bool, under: str) -> str:
    """Return source that proves a verifier of the user's own, under a warp where one is named."""
    source, _, name = where.rpartition(":")
    warped = ", temperature" if under else ""
    header, imports = "", f"from speculative import Instance{warped}\n"
    imports += "from speculative.verify import from_numpy\n" if numpy else ""
    if source.endswith(".py"):
        path = Path(source).resolve()
        if path.stem.isidentifier() and path.stem not in sys.stdlib_module_names:
            header = "import sys\n\n"
            imports += f"\nsys.path.insert(0, {str(path.parent)!r})\nfrom {path.stem} import {name}\n"
        else:  # not to be imported by its name
            header = "import runpy\n\n"
            imports += f"\n{name} = runpy.run_path({str(path)!r})[{name!r}]\n"
    else:
        imports += f"from {source} import {name}\n"
    rule = f"from_numpy({name})" if numpy else name
    return f"{header}{imports}\n{_proof(instance, rule + (f', warp={under}' if under else ''))}"


def _proof(instance: Instance, arguments: str) -> str:
    """Return the instance and its proof, without the imports that `Instance.code` begins with."""
    return instance.code(arguments).partition("\n\n")[2]
