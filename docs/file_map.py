"""Write the README's file map from the files' own first sentences: `python docs/file_map.py`."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "speculative"

IN_READING_ORDER = {
    "the exact core": ["chance.py", "replay.py", "laws.py", "undecided*.py", "generator.py"],
    "laws over tokens": ["distribution.py", "oracle/*.py", "warp.py", "constraint.py"],
    "the algorithm": ["draft/*.py", "verify/*.py", "coupling.py", "decode.py", "_checks.py", "metrics.py"],
    "the proof": ["proof.py", "battery.py", "testing.py"],
    "the optimum": ["bound/*.py"],
    "the clock": ["cost.py", "roofline.py", "measure.py", "_numbers.py"],
    "real text": ["model/*.py"],
    "for people": ["plot/*.py", "show/*.py", "cli/*.py", "__init__.py"],
}


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
    """Return the README with the map as it now is."""
    marked = re.compile(r"(<!-- file map -->\n).*?(<!-- end of file map -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{file_map()}\n{found[2]}", readme)


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_file_map(path.read_text()))
