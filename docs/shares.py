"""Write the tables of the page on the optimum: `python docs/shares.py --models 40 --seed 0`."""

import argparse
import itertools
import re
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from speculative import Oracle, table, verify
from speculative.bound import expected_accepted, whole
from speculative.draft import model, paths

PAGE = Path(__file__).parent / "explanation" / "optimum.md"
ONE_PATH = {"token, one path": verify.token, "block, one path": verify.block}
SEVERAL_PATHS = {
    "recursive": verify.recursive,
    "recursive distinct": verify.recursive_distinct,
    "traversal": verify.traversal,
    "multipath": verify.multipath,
    "recursive, lifted": verify.lift(verify.recursive_plan),
    "transport": verify.transport,
    "transport, lifted": verify.lifted_transport,
}
COUNTED = ["recursive", "recursive distinct", "traversal", "multipath", "recursive, lifted"]


class Setting(NamedTuple):
    """The size of the random models, and how much is drafted."""

    vocab_size: int
    num_draft_tokens: int
    num_paths: int


SETTINGS = [Setting(3, 2, 2), Setting(2, 3, 2), Setting(2, 2, 3), Setting(3, 1, 2)]
SIZES = [
    Setting(3, 2, 2),
    Setting(4, 2, 2),
    Setting(10, 2, 2),
    Setting(3, 3, 2),
    Setting(4, 3, 2),
    Setting(3, 3, 3),
    Setting(2, 6, 2),
]


def random_pair(setting: Setting, seed: int, number: int) -> tuple[Oracle, Oracle]:
    """Return a target and a draft with a row after every context, each uniform among all laws."""
    rng = np.random.default_rng([seed, *setting, number])
    tokens = range(setting.vocab_size)
    contexts = [c for n in range(setting.num_draft_tokens + 1) for c in itertools.product(tokens, repeat=n)]

    def oracle() -> Oracle:
        return table({context: rng.dirichlet(np.ones(setting.vocab_size)) for context in contexts})

    return oracle(), oracle()


def shares(setting: Setting, models: int, seed: int) -> dict[str, list[float]]:
    """Return each verifier's shares of the optimum over random models."""
    found: dict[str, list[float]] = {name: [] for name in (*ONE_PATH, *SEVERAL_PATHS)}
    of = partial(expected_accepted, num_draft_tokens=setting.num_draft_tokens)
    for number in range(models):
        target, draft = random_pair(setting, seed, number)
        tree = paths(draft, num_paths=setting.num_paths)
        best = whole(target, tree, num_draft_tokens=setting.num_draft_tokens).expected_accepted
        for name, verifier in ONE_PATH.items():
            found[name].append(of(verifier, target, model(draft)) / best)
        for name, verifier in SEVERAL_PATHS.items():
            found[name].append(of(verifier, target, tree) / best)
    return found


def below_block(setting: Setting, models: int, seed: int) -> dict[str, int]:
    """Return with how many random models a verifier of several paths accepts less than block of one path."""
    of = partial(expected_accepted, num_draft_tokens=setting.num_draft_tokens)
    below = dict.fromkeys(COUNTED, 0)
    for number in range(models):
        target, draft = random_pair(setting, seed, number)
        tree = paths(draft, num_paths=setting.num_paths)
        one_path = of(verify.block, target, model(draft))
        for name in COUNTED:
            below[name] += of(SEVERAL_PATHS[name], target, tree) < one_path - 1e-9
    return below


def interval(values: list[float]) -> str:
    """Return mean and half of Student's 95 % interval of the mean."""
    half = stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.3f} ± {half:.3f}"


def shares_table(models: int, seed: int, settings: list[Setting] = SETTINGS) -> str:
    """Return the table of shares, a column for each setting."""
    found = {setting: shares(setting, models, seed) for setting in settings}
    return _table({setting: {name: interval(of[name]) for name in of} for setting, of in found.items()})


def below_block_table(models: int, seed: int, settings: list[Setting] = SETTINGS[:3]) -> str:
    """Return the table of models with less than block verification, a column for each setting."""
    return _table({setting: below_block(setting, models, seed) for setting in settings})


def _table(columns: dict[Setting, dict[str, object]]) -> str:
    lines = ["| | " + " | ".join(map(_named, columns)) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in next(iter(columns.values())):
        lines.append(f"| {name} | " + " | ".join(str(cells[name]) for cells in columns.values()) + " |")
    return "\n".join(lines)


def _named(setting: Setting) -> str:
    return f"V = {setting.vocab_size}, k = {setting.num_draft_tokens}, {setting.num_paths} paths"


def times_table(seed: int) -> str:
    """Return the time of the whole-round program by size, on this machine."""
    lines = ["| | drafts | variables | seconds |", "|---|---|---|---|"]
    for setting in SIZES:
        target, draft = random_pair(setting, seed, 0)
        start = time.process_time()
        optimum = whole(
            target, paths(draft, num_paths=setting.num_paths), num_draft_tokens=setting.num_draft_tokens
        )
        seconds = time.process_time() - start
        lines.append(f"| {_named(setting)} | {optimum.drafts:,} | {optimum.variables:,} | {seconds:.2g} |")
    return "\n".join(lines)


def with_block(page: str, name: str, text: str) -> str:
    """Return the page with the text between the comments of that name."""
    marked = re.compile(rf"(<!-- {name}[^>]* -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def main() -> None:
    """Compute the tables and put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=40, help="random models for each setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", action="store_true", help="only measure the program's time by size")
    options = parser.parse_args()
    if options.times:
        blocks = {"times": times_table(options.seed)}
    else:
        blocks = {
            "shares": shares_table(options.models, options.seed),
            "below block": below_block_table(5 * options.models, options.seed),
        }
    page = PAGE.read_text(encoding="utf-8")
    for name, text in blocks.items():
        page = with_block(page, name, text)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
