"""Measure the models that come with the package and write the page on them: `python docs/trained.py FOLDER`.

FOLDER is the one they were trained in. Of it the script needs the novel that was held out, which it fetches
where it is not there, and the log of the target's training, for the picture.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median

import numpy as np
from safetensors import safe_open
from speed import with_table

from speculative.model import bundled_text, load, load_ngram
from speculative.model.bundle import folder_of
from speculative.model.text import Characters
from speculative.oracle import Oracle

DOCS = Path(__file__).parent
PAGE, PICTURE = DOCS / "explanation" / "trained-models.md", DOCS / "_static" / "training.png"
TRAINING = DOCS.parent / "examples" / "training"
WEIGHTS = folder_of("shakespeare").parent
MODELS = {
    "shakespeare": "the target, a Llama of 4 layers",
    "shakespeare-draft": "a Llama of 1 layer, trained on the text",
    "shakespeare-draft-kl": "the same, distilled from the target on KL",
    "shakespeare-draft-tv": "the same, distilled on total variation",
    "shakespeare-medusa": "four Medusa heads on the target's states",
    "shakespeare-eagle": "an EAGLE head on the target's states",
    "shakespeare-ngram": "an n-gram distilled from the target",
    "shakespeare-neural": "a neural n-gram of two layers, distilled from the target",
    "shakespeare-5gram": "a Kneser-Ney 5-gram of the text",
}
STRIDE, WINDOW = 128, 256
NOVEL = 200_000  # characters of it
LOADS = 5
TIMED = """
import time
from speculative import model
target = {target}
start = time.process_time()
model.{load}
print(time.process_time() - start)
"""


def shipped() -> list[str]:
    """The names of the models that are there, the target first."""
    there = {path.parent.name for path in WEIGHTS.glob("*/model.safetensors")}
    return [*(name for name in MODELS if name in there), *sorted(there - MODELS.keys())]


def model_type(name: str) -> str:
    """What a model is: llama, medusa, eagle, ngram or neural_ngram."""
    found: str = json.loads((WEIGHTS / name / "config.json").read_text(encoding="utf-8"))["model_type"]
    return found


def numbers(name: str) -> int:
    """How many parameters a model has: weights, or of an n-gram the probabilities that are written."""
    with safe_open(WEIGHTS / name / "model.safetensors", framework="numpy") as file:
        names = ["entry_roots"] if model_type(name) == "ngram" else file.keys()
        return sum(int(np.prod(file.get_slice(each).get_shape())) for each in names)


def size(name: str) -> int:
    """The bytes of all files of a model."""
    return sum(path.stat().st_size for path in (WEIGHTS / name).iterdir())


def checksum(name: str) -> str:
    """The sha256 of a model's numbers."""
    return sha256((WEIGHTS / name / "model.safetensors").read_bytes()).hexdigest()


def seconds_to_load(name: str) -> float:
    """The median of the processor time in fresh processes. Heads are loaded for a target that is there."""
    kind = model_type(name)
    heads = kind in ("medusa", "eagle")
    call = f"load_{kind}(target, {name!r})" if heads else f"load{'_ngram' * (kind != 'llama')}({name!r})"
    code = TIMED.format(target="model.load('shakespeare')" if heads else None, load=call)
    runs = (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True) for _ in range(LOADS)
    )
    return median(float(run.stdout) for run in runs)


def bits(oracle: Oracle, tokens: Sequence[int]) -> float:
    """Bits per character, of all that have 127 to 254 characters before them in their window."""
    return float(-np.log2(list(probabilities(oracle, tokens))).mean())


def probabilities(oracle: Oracle, tokens: Sequence[int]) -> Iterator[float]:
    """What an oracle gives to each token, from windows that begin 128 apart."""
    for start in range(0, len(tokens) - WINDOW, STRIDE):
        window = tuple(tokens[start : start + WINDOW - 1])
        rows = oracle.score(window[: STRIDE - 1], window[STRIDE - 1 : -1])
        yield from (float(row[token]) for row, token in zip(rows, window[STRIDE - 1 :], strict=True))


def held_out(folder: Path) -> dict[str, str]:
    """The texts that no model was trained on."""
    if not (folder / "novel.txt").exists():
        subprocess.run([sys.executable, TRAINING / "text.py", folder], check=True)
    return {"plays": bundled_text(), "novel": (folder / "novel.txt").read_text(encoding="ascii")[:NOVEL]}


def models(texts: dict[str, str]) -> str:
    """The table of what ships."""
    lines = [
        f"| name | what it is | parameters | bytes | {', '.join(texts)}: bits | loaded in |",
        "|---|---|---:|---:|---:|---:|",
    ]
    characters = Characters(load("shakespeare").oracle.vocabulary or ())
    for name in shipped():
        kind, found = model_type(name), ""
        if kind not in ("medusa", "eagle"):
            oracle = load(name).oracle if kind == "llama" else load_ngram(name)
            found = ", ".join(f"{bits(oracle, characters.encode(text)):.3f}" for text in texts.values())
        took = 1000 * seconds_to_load(name)
        cells = f"`{name}`", MODELS.get(name, kind), f"{numbers(name):,}", f"{size(name):,}", found
        lines.append(f"| {' | '.join(cells)} | {took:.0f} ms |")
    total = sum(map(size, shipped()))
    return "\n".join([*lines, f"| together | | | {total:,} | | |"])


def checksums() -> str:
    """The sha256 of each model.safetensors, as `sha256sum -c` reads them."""
    lines = [f"{checksum(name)}  {name}/model.safetensors" for name in shipped()]
    return "\n".join(["```text", *lines, "```"])


def draw_training(log: Path) -> None:
    """The picture of the target's training."""
    sys.path.insert(0, str(TRAINING))
    import curve  # noqa: PLC0415 - not in the package

    curve.draw(log, PICTURE)


def main() -> None:
    """Measure, and write the page's tables and the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the models were trained")
    folder: Path = parser.parse_args().folder
    tables = {"models": models(held_out(folder)), "checksums": checksums()}
    for name, text in tables.items():
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), name, text), encoding="utf-8")
    if (log := folder / "target" / "log.jsonl").exists():
        draw_training(log)


if __name__ == "__main__":
    main()
