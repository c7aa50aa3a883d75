"""Measure decoding on the clock and write the tables of its page: `python docs/bench.py`, six minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # before numpy is loaded
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

from speed import with_table

from speculative import autoregress, draft, generate, model, sample, temperature, verify
from speculative.bench import Contender, compare_greedy, excerpts
from speculative.cli.trained import load_drafter
from speculative.cost import speedup
from speculative.model import CachedLlama, cache, session
from speculative.oracle import from_logits

PAGE = Path(__file__).parent / "explanation" / "it-pays.md"
TREES = {1: "--tree sequoia:3 --tree sequoia:7", 0: "--tree best-first:3 --tree best-first:7"}
"""By temperature: drawn ones, and the most probable ones. With the last token they make 4 and 8 rows."""
OTHERS = "".join(f"--drafter {name} " for name in ("draft", "draft-tv", "lookup", "suffix", "lookahead"))
LENGTHS = " ".join(f"--draft-tokens {k}" for k in range(1, 9))
RUNS = {
    1: (
        f"--drafter ngram {LENGTHS}",
        "--drafter ngram --verifier block --draft-tokens 3",
        "--drafter draft-kl --draft-tokens 2 --draft-tokens 3 --draft-tokens 5",
        f"--drafter medusa --drafter eagle --draft-tokens 2 --draft-tokens 3 {TREES[1]}",
        f"{OTHERS} --draft-tokens 3",
    ),
    0: (
        "--drafter ngram --draft-tokens 3 --draft-tokens 5 --draft-tokens 7",
        "--drafter draft-kl --draft-tokens 2 --draft-tokens 3 --draft-tokens 5",
        f"--drafter medusa --drafter eagle --draft-tokens 2 --draft-tokens 3 {TREES[0]}",
        f"{OTHERS} --draft-tokens 3",
    ),
}
"""What is run, by temperature."""
TWO_THREADS = "--drafter ngram --drafter draft-kl --drafter medusa --drafter eagle --draft-tokens 3"
GOALS = {
    "the best of all": (None, {1: 2.5, 0: 3.0}),
    "distilled draft": ("draft-kl", {1: 1.5, 0: 1.5}),
    "Medusa": ("medusa", {1: 1.5, 0: 1.5}),
    "EAGLE": ("eagle", {1: 1.5, 0: 1.5}),
}
COMPARED = {"ngram": 3, "draft-kl": 3, "medusa": 3, "eagle": 3}
GREEDY_PROMPTS = 157  # of 128 new tokens: 20,096
PROFILED = {
    "plain, T = 1": (None, 1, 0),
    "ngram, T = 1, k = 3": ("ngram", 1, 3),
    "draft-kl, T = 1, k = 3": ("draft-kl", 1, 3),
    "eagle, T = 1, k = 3": ("eagle", 1, 3),
    "plain, T = 0": (None, 0, 0),
    "ngram, T = 0, k = 3": ("ngram", 0, 3),
}
SECTIONS = "layers", "cache", "laws", "drafting", "verification", "loop"


class Run(NamedTuple):
    """The cases of one temperature and one number of threads."""

    temperature: int
    threads: int
    cases: list[dict[str, Any]]


def measured(temperature: int, threads: int, arguments: str) -> list[dict[str, Any]]:
    """Return the cases of one call of the command."""
    command = [sys.executable, "-m", "speculative.cli", "bench", "--json", "--threads", str(threads)]
    command += ["--temperature", str(temperature), *arguments.split()]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["cases"]


def all_runs() -> list[Run]:
    """Measure everything that the tables need."""
    runs = [
        Run(heat, 1, [case for arguments in RUNS[heat] for case in measured(heat, 1, arguments)])
        for heat in RUNS
    ]
    return runs + [Run(heat, 2, measured(heat, 2, TWO_THREADS)) for heat in RUNS]


def what(case: dict[str, Any]) -> str:
    """Say what a case drafts."""
    return f"tree {case['tree']}, {case['draft_tokens']} deep" if case["tree"] else f"{case['draft_tokens']}"


def with_spread(spread: dict[str, float]) -> str:
    """Write a median with its quartiles."""
    return f"{spread['median']:.2f} ({spread['low']:.2f} to {spread['high']:.2f})"


def table(heads: str, rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    """Return a table; the first column to the left, the others to the right."""
    names = heads.split("; ")
    lines = ["| " + " | ".join(names) + " |", "|---" + "|--:" * (len(names) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def of_cases(run: Run) -> str:
    """Return the table of one run, the cases of each drafter together."""

    def row(case: dict[str, Any]) -> tuple[str, ...]:
        off = case["predicted_speedup"] / case["speedup"]["median"] - 1
        return (
            f"{case['drafter']}, `{case['verifier']}`",
            what(case),
            " ".join(f"{share:.2f}".lstrip("0") for share in case["acceptance_by_position"]),
            f"{case['tokens_per_target_pass']:.2f}",
            f"{1e6 * case['seconds_per_token']['median']:.0f}",
            with_spread(case["speedup"]),
            f"{case['predicted_speedup']:.2f}",
            f"{100 * off:+.0f} %",
        )

    plain = sorted(case["seconds_per_token_plain"]["median"] for case in run.cases)
    heads = "drafter; drafts; accepted, if reached; tokens a pass; µs a token; speedup; forecast; off by"
    made = table(heads, [row(case) for case in run.cases])
    return f"{made}\n\nA plain token took {1e6 * plain[len(plain) // 2]:.0f} µs."


def best(run: Run, drafter: str | None) -> dict[str, Any]:
    """Return the fastest case, of one drafter or of all."""
    fitting = [case for case in run.cases if drafter in (None, case["drafter"])]
    return max(fitting, key=lambda case: case["speedup"]["median"])


def of_goals(runs: list[Run]) -> str:
    """Return the table of what was to be reached, and what was."""
    rows = []
    for name, (drafter, least) in GOALS.items():
        for run in runs:
            case, goal = best(run, drafter), least[run.temperature]
            reached = case["speedup"]["median"] >= goal
            rows.append(
                (
                    name,
                    str(run.temperature),
                    str(run.threads),
                    f"{goal:.1f}",
                    with_spread(case["speedup"]),
                    f"{case['drafter']}, {what(case)}",
                    "yes" if reached else "**no**",
                )
            )
    return table("; temperature; threads; goal; reached; with; met", rows)


def of_lengths(run: Run) -> str:
    """Return what each draft length of the n-gram was to bring, from less and less of the run itself."""
    cases = [case for case in run.cases if (case["drafter"], case["verifier"]) == ("ngram", "token")]
    alpha = cases[0]["acceptance_by_position"][0]
    rows = []
    for case in cases:
        k, parts = case["draft_tokens"], case["parts"]
        alone = speedup(alpha, k, case["cost"], verification=case["verification"])
        naive = speedup(alpha, k, case["cost"])
        rows.append(
            (
                str(k),
                f"{parts['passes_by_rows'][str(k + 1)] / parts['plain_token']:.2f}",
                f"{k * case['cost']:.2f}",
                f"{naive:.2f}",
                f"{alone:.2f}",
                f"{case['predicted_speedup']:.2f}",
                with_spread(case["speedup"]),
            )
        )
    heads = "k; pass; drafts; a pass is a pass; from alpha; from tokens a pass; measured"
    return f"{table(heads, rows)}\n\nalpha = {alpha:.2f}, the acceptance of a first draft."


def of_parts(runs: list[Run]) -> str:
    """Return what a token takes, by part, of each drafter's best case."""
    rows = []
    for run in runs:
        if run.threads > 1:
            continue
        for drafter in dict.fromkeys(case["drafter"] for case in run.cases):
            case = best(run, drafter)
            parts, tokens = case["parts"], case["tokens_per_target_pass"]
            scoring = case["verification"] * parts["plain_token"] - parts["loop"]
            each = [1e6 * part / tokens for part in (scoring, parts["drafting"], parts["loop"])]
            measured = 1e6 * case["seconds_per_token"]["median"]
            rows.append(
                (
                    f"{drafter}, T = {run.temperature}, {what(case)}",
                    *(f"{part:.0f}" for part in each),
                    f"{sum(each):.0f}",
                    f"{measured:.0f}",
                )
            )
    return table("; target's pass; drafting; loop; together; measured", rows)


def of_misses(runs: list[Run]) -> str:
    """Say which forecasts were off by more than a tenth."""
    cases = [(run, case) for run in runs for case in run.cases]
    missed = [
        f"{case['drafter']} ({what(case)}, T = {run.temperature}, {run.threads} threads): {off:+.0%}"
        for run, case in cases
        if abs(off := case["predicted_speedup"] / case["speedup"]["median"] - 1) > 0.1
    ]
    told = f"Of {len(cases)} forecasts, {len(cases) - len(missed)} were within 10 % of what was then measured"
    return f"{told}; the others: {'; '.join(missed)}." if missed else f"{told}."


class Sections:
    """Time by section: what is called within a section counts there, unless it is a section itself."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._within, self._since = ["loop"], time.perf_counter()

    def _turn(self) -> None:
        now = time.perf_counter()
        self.seconds[self._within[-1]] += now - self._since
        self._since = now

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as a section; all within drafting is drafting."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._within.append("drafting" if self._within[-1] == "drafting" else name)
            try:
                return function(*args, **kwargs)
            finally:
                self._turn()
                self._within.pop()

        return call

    def run(self, program: Callable[[], Any]) -> Any:
        """Run a program; what is no section is the loop."""
        self.seconds.clear()
        self._since = time.perf_counter()
        done = program()
        self._turn()
        return done


def profiled(llama: CachedLlama, case: str, prompts: list[tuple[int, ...]]) -> dict[str, float]:
    """Return microseconds a token by section, the least of some decodes of each prompt."""
    name, heat, num_draft_tokens = PROFILED[case]
    sections, warp = Sections(), temperature(heat)
    originals = session.forward, cache.product
    oracle = from_logits(
        sections.of("cache", llama._row),
        llama.oracle.vocab_size,
        score_tree=sections.of("cache", llama._rows),
        vocabulary=llama.oracle.vocabulary,
    )
    if name is None:
        target = warp(oracle)
    else:
        target, drafter = load_drafter(name, llama)(oracle, warp, draft.model)
        drafter = replace(drafter, propose=sections.of("drafting", drafter.propose))
    target = replace(
        target, row=sections.of("laws", target.row), score_rows=sections.of("laws", target.score_rows)
    )
    options: dict[str, Any] = {"max_new_tokens": 128}
    if name is not None:
        options |= {
            "num_draft_tokens": num_draft_tokens,
            "verify": sections.of("verification", verify.token),
        }
    program = (autoregress, target) if name is None else (generate, target, drafter)
    total: Counter[str] = Counter()
    session.forward, cache.product = (sections.of("layers", each) for each in originals)
    try:
        for seed, prompt in enumerate(prompts):
            least = None
            for _ in range(5):
                llama.oracle(prompt[:-1])
                sections.run(partial(sample, *program, prompt, rng=seed, **options))
                if least is None or sections.seconds.total() < least.total():
                    least = sections.seconds.copy()
            total += least
    finally:
        session.forward, cache.product = originals
    return {section: 1e6 * total[section] / (128 * len(prompts)) for section in SECTIONS}


def of_profile(llama: CachedLlama, prompts: list[tuple[int, ...]]) -> str:
    """Return the table of where a token's time goes."""
    rows = []
    for case in PROFILED:
        found = profiled(llama, case, prompts)
        outside = found["verification"] + found["loop"]
        rows.append((case, *(f"{found[section]:.1f}" for section in SECTIONS), f"{outside:.1f}"))
    return table(f"µs a token; {'; '.join(SECTIONS)}; outside the models", rows)


def of_identity(llama: CachedLlama, prompts: list[tuple[int, ...]]) -> str:
    """Return the table of greedy texts compared token for token."""
    rows = []
    for name, k in COMPARED.items():
        source = load_drafter(name, llama)
        contender = Contender(lambda source=source: source(llama.oracle, temperature(0), draft.model), k)
        found = compare_greedy(llama.oracle, contender, prompts)
        gaps = [f"{each.gap:.1e}" for each in found.differences]
        rows.append((name, f"{found.tokens:,}", str(len(gaps)), ", ".join(gaps) or "none"))
    return table("drafter; tokens compared; differences; logits apart", rows)


def main() -> None:
    """Measure, and put the tables into the page."""
    runs = all_runs()
    llama = model.load("shakespeare", sliding=True)
    assert llama.tokenizer is not None
    held_out = llama.tokenizer.encode(model.bundled_text())
    prompts = excerpts(held_out, GREEDY_PROMPTS, 64, seed=2)
    texts = {
        "goals": of_goals(runs),
        "sampled": of_cases(runs[0]),
        "greedy": of_cases(runs[1]),
        "lengths": of_lengths(runs[0]),
        "parts": of_parts(runs),
        "misses": of_misses(runs),
        "profile": of_profile(llama, prompts[:6]),
        "identity": of_identity(llama, prompts),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, text in texts.items():
        page = with_table(page, name, text)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
