"""Write what the README says of the package from the package itself: `python docs/file_map.py`.

The tables of verifiers come from `VERIFIERS`, the file map from each file's own first sentence.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path

from speculative import VERIFIERS, Verifier
from speculative.draft import model

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "speculative"

GROUPS: dict[str, Callable[[Verifier], bool]] = {
    "lossless, one path": lambda entry: entry.lossless and entry.make_drafter is model,
    "lossless, trees": lambda entry: entry.lossless and entry.make_drafter is not model,
    "lossy": lambda entry: not entry.lossless,
}
IN_READING_ORDER = {
    "the exact core": ["chance.py", "replay.py", "laws.py", "undecided*.py", "generator.py"],
    "laws over tokens": ["distribution.py", "oracle/*.py", "warp.py", "constraint.py"],
    "the algorithm": [
        "draft/*.py",
        "verify/*.py",
        "coupling.py",
        "decode.py",
        "batch.py",
        "rounds.py",
        "_checks.py",
        "metrics.py",
    ],
    "the proof": ["proof.py", "battery.py", "testing.py"],
    "the optimum": ["bound/*.py"],
    "the clock": ["cost.py", "roofline.py", "measure.py", "bench/*.py", "_numbers.py"],
    "real models": ["model/*.py"],
    "for people": ["plot/*.py", "show/*.py", "cli/*.py", "__init__.py"],
}


def verifiers() -> str:
    """Return the tables of verifiers in markdown, one a group."""
    lines: list[str] = []
    for group, belongs in GROUPS.items():
        lines += [f"| {group} | paper | needs of a draft |", "|---|---|---|"]
        for name, entry in VERIFIERS.items():
            if belongs(entry):
                needs = entry.drafts
                needs += f"; carries {entry.carries}" if entry.carries else ""
                needs += f"; target at {entry.target_warp.name}" if entry.target_warp else ""
                lines.append(f"| `{name}` | {entry.paper} | {needs} |")
        lines.append("")
    return "\n".join(lines)


def first_sentence(path: Path) -> str:
    """Return the first paragraph of a file's docstring on one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def file_map() -> str:
    """Return the file map in markdown."""
    lines: list[str] = []
    for part, patterns in IN_READING_ORDER.items():
        lines += [f"| {part} | |", "|---|---|"]
        for pattern in patterns:
            for path in sorted(SOURCE.glob(pattern)):
                lines.append(f"| `{path.relative_to(SOURCE)}` | {first_sentence(path)} |")
        lines.append("")
    return "\n".join(lines)


def with_file_map(readme: str) -> str:
    """Return the README with both as they now are."""
    for name, made in (("verifiers", verifiers()), ("file map", file_map())):
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        readme = marked.sub(lambda found, made=made: f"{found[1]}\n{made}\n{found[2]}", readme)
    return readme


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_file_map(path.read_text()))
