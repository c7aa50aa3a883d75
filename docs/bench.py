"""Measure decoding on the clock and write the tables of its page: `python docs/bench.py`, some 15 minutes.

What is measured is kept part by part in docs/_build/bench: a run that was stopped, or that was to stop by
`--minutes 4`, goes on where it was. Parts older than the weights are measured anew; for others, delete them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

if __name__ == "__main__":  # before numpy is loaded
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ[variable] = "1"

from speed import with_table

from speculative import autoregress, draft, generate, model, sample, temperature, verify
from speculative.bench import compare_greedy, excerpts
from speculative.cli.cases import Case, cases_of
from speculative.cli.trained import TRAINED, kind_named, load_drafter
from speculative.cost import speedup
from speculative.model import CachedLlama, cache, eagle, medusa, session
from speculative.model import llama as layers
from speculative.oracle import Oracle, from_logits

DOCS = Path(__file__).parent
PAGE, KEPT = DOCS / "explanation" / "it-pays.md", DOCS / "_build" / "bench"
WEIGHTS = Path(model.__file__).parent / "weights"
TREES = {1: "--tree sequoia:3 --tree sequoia:7", 0: "--tree best-first:3 --tree best-first:7"}
"""By temperature: drawn ones, and the most probable ones. With the last token they make 4 and 8 rows."""
OTHERS = "".join(
    f"--drafter {name} " for name in ("5gram", "draft", "draft-tv", "lookup", "suffix", "lookahead")
)
LENGTHS = " ".join(f"--draft-tokens {k}" for k in range(1, 9))
DISTILLED = "--drafter neural --drafter draft-kl --draft-tokens 2 --draft-tokens 3 --draft-tokens 5"
RUNS = {
    1: {
        "n-gram": f"--drafter ngram {LENGTHS}",
        "block verification": "--drafter ngram --drafter draft-kl --verifier block --draft-tokens 3 "
        "--draft-tokens 5",
        "distilled draft": DISTILLED,
        "Medusa": f"--drafter medusa --draft-tokens 2 --draft-tokens 3 {TREES[1]}",
        "EAGLE": f"--drafter eagle --draft-tokens 2 --draft-tokens 3 {TREES[1]}",
        "traversal": f"--drafter eagle --verifier traversal --draft-tokens 3 {TREES[1]}",
        "others": f"{OTHERS}--draft-tokens 3",
    },
    0: {
        "n-gram": "--drafter ngram --draft-tokens 3 --draft-tokens 5 --draft-tokens 7",
        "distilled draft": DISTILLED,
        "Medusa": f"--drafter medusa --draft-tokens 2 --draft-tokens 3 {TREES[0]}",
        "EAGLE": f"--drafter eagle --draft-tokens 2 --draft-tokens 3 {TREES[0]}",
        "others": f"{OTHERS}--draft-tokens 3",
    },
}
"""What is run, by temperature."""
NARROW = "--drafter ngram --drafter neural --draft-tokens 1 --draft-tokens 3 --draft-tokens 7"
"""What is run once more with the products that OpenBLAS has for processors without AVX-512."""
GOALS = {
    "the best of all": (None, {1: 2.5, 0: 3.0}),
    "distilled draft": (("neural", "draft-kl", "draft-tv"), {1: 1.5, 0: 1.5}),
    "Medusa": (("medusa",), {1: 1.5, 0: 1.5}),
    "EAGLE": (("eagle",), {1: 1.5, 0: 1.5}),
}
"""Of some drafters, or of all: the speedup to be reached, by temperature."""
THREADS = 1, 2
PROMPTS = {1: 20, 0: 60}
FRESH = 100  # the seed of the prompts that the fastest are raced on again
COMPARED = {
    **{name: cases_of(name, kind_named(name), (), (), [3])[-1] for name in TRAINED},
    **{
        f"{name}, tree": cases_of(name, kind_named(name), (), ["best-first:7"], [3])[-1]
        for name in ("medusa", "eagle")
    },
}
"""Whose greedy texts are compared with plain decoding's."""
GREEDY_PROMPTS = 157  # of 128 new tokens: 20,096
CLOSE = 0.1
PROFILED = {
    "plain, T = 1": (None, 1, 0),
    "ngram, T = 1, k = 3": ("ngram", 1, 3),
    "neural, T = 1, k = 3": ("neural", 1, 3),
    "draft-kl, T = 1, k = 3": ("draft-kl", 1, 3),
    "eagle, T = 1, k = 3": ("eagle", 1, 3),
    "plain, T = 0": (None, 0, 0),
    "ngram, T = 0, k = 3": ("ngram", 0, 3),
}
SECTIONS = "layers", "cache", "laws", "drafting", "verification", "loop"
COMPUTED = "draft-kl", "eagle", "medusa"
"""Drafters whose own time is looked into."""
WITHIN = {
    "products": ((layers, "multiplied"), (cache, "product"), (eagle, "product"), (medusa, "product")),
    "attention": ((session.Buffers, "attend"),),
}
"""What is called there, by section; the rest is calls."""


class Run(NamedTuple):
    """The cases of one temperature and one number of threads."""

    temperature: int
    threads: int
    cases: list[dict[str, Any]]


class Again(NamedTuple):
    """The fastest case of a drafter, or of all, raced again on prompts that it was not chosen by."""

    goal: str
    temperature: int
    threads: int
    case: dict[str, Any]


class Parts:
    """What has been measured, a file for each part."""

    def __init__(self, folder: Path, minutes: float) -> None:
        self._folder, self._until = folder, time.monotonic() + 60 * minutes
        self._newest = max((file.stat().st_mtime for file in WEIGHTS.glob("*/*")), default=0.0)
        folder.mkdir(parents=True, exist_ok=True)

    def of(self, name: str, measure: Callable[[], Any]) -> Any:
        """Return a part as it was kept, or measure and keep it."""
        file = self._folder / f"{name}.json"
        if not file.exists() or file.stat().st_mtime < self._newest:
            if time.monotonic() > self._until:
                raise SystemExit(f"{name} is next: run it again, and it goes on from there")
            began = time.monotonic()
            part = file.with_suffix(".part")
            part.write_text(json.dumps(measure(), indent=1), encoding="utf-8")
            part.replace(file)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return json.loads(file.read_text(encoding="utf-8"))


def measured(temperature: int, threads: int, arguments: str, **environment: str) -> list[dict[str, Any]]:
    """Return the cases of one call of the command, with more variables of the environment."""
    command = [sys.executable, "-m", "speculative.cli", "bench", "--json", "--threads", str(threads)]
    command += ["--temperature", str(temperature), *arguments.split()]
    if "--prompts" not in command:
        command += ["--prompts", str(PROMPTS[temperature])]
    if temperature == 0:  # a repeat would write the same text, and find rows that were made for it
        command += ["--repeats", "1"]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(done.stdout)["cases"]


def all_runs(parts: Parts) -> list[Run]:
    """Measure every case, on one thread."""
    return [
        Run(
            heat,
            1,
            [
                case
                for name, arguments in runs.items()
                for case in parts.of(f"T = {heat}, {name}", partial(measured, heat, 1, arguments))
            ],
        )
        for heat, runs in RUNS.items()
    ]


def all_again(parts: Parts, runs: list[Run]) -> list[Again]:
    """Race the fastest case of each goal again."""
    found = []
    for run in runs:
        for goal, (drafters, _) in GOALS.items():
            chosen = best(run, drafters)
            for threads in THREADS:
                name = f"T = {run.temperature}, {threads} thread{'s'[: threads - 1]}, again {label(chosen)}"
                case = parts.of(name, partial(again, chosen, run.temperature, threads))
                found.append(Again(goal, run.temperature, threads, case))
    return found


def again(case: dict[str, Any], temperature: int, threads: int) -> dict[str, Any]:
    """Race a case on other prompts, twice as many."""
    arguments = f"--drafter {case['drafter']} --verifier {case['verifier']} --seed {FRESH}"
    arguments += f" --prompts {2 * PROMPTS[temperature]}"
    arguments += f" --draft-tokens {case['draft_tokens']}" + (
        f" --tree {case['tree']}" if case["tree"] else ""
    )
    same = "drafter", "verifier", "draft_tokens", "tree"
    (found,) = (
        each
        for each in measured(temperature, threads, arguments)
        if all(each[name] == case[name] for name in same)
    )
    return found


def label(case: dict[str, Any]) -> str:
    """Name a case."""
    return f"{case['drafter']} {case['verifier']} {what(case)}"


def what(case: dict[str, Any]) -> str:
    """Say what a case drafts."""
    return f"tree {case['tree']}, {case['draft_tokens']} deep" if case["tree"] else f"{case['draft_tokens']}"


def off(case: dict[str, Any]) -> float:
    """How far the forecast is above the measured speedup, as a share of it."""
    return case["predicted_speedup"] / case["speedup"]["median"] - 1


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
        return (
            f"{case['drafter']}, `{case['verifier']}`",
            what(case),
            " ".join(f"{share:.2f}".lstrip("0") for share in case["acceptance_by_position"]),
            f"{case['tokens_per_target_pass']:.2f}",
            f"{1e6 * case['seconds_per_token']['median']:.0f}",
            with_spread(case["speedup"]),
            f"{case['predicted_speedup']:.2f}",
            f"{100 * off(case):+.0f} %",
        )

    plain = sorted(case["seconds_per_token_plain"]["median"] for case in run.cases)
    heads = "drafter; drafts; accepted, if reached; tokens a pass; µs a token; speedup; forecast; off by"
    made = table(heads, [row(case) for case in run.cases])
    return f"{made}\n\nA plain token took {1e6 * plain[len(plain) // 2]:.0f} µs."


def best(run: Run, drafters: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the fastest case, of some drafters or of all."""
    fitting = [case for case in run.cases if drafters is None or case["drafter"] in drafters]
    return max(fitting, key=lambda case: case["speedup"]["median"])


def of_goals(raced: list[Again]) -> str:
    """Return the table of what was to be reached, and what was."""
    rows = []
    for goal, heat, threads, case in raced:
        least = GOALS[goal][1][heat]
        rows.append(
            (
                goal,
                str(heat),
                str(threads),
                f"{least:.1f}",
                with_spread(case["speedup"]),
                label(case),
                "yes" if case["speedup"]["median"] >= least else "**no**",
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
        for drafter in dict.fromkeys(case["drafter"] for case in run.cases):
            case = best(run, (drafter,))
            parts, tokens = case["parts"], case["tokens_per_target_pass"]
            scoring = case["verification"] * parts["plain_token"] - parts["loop"]
            each = [1e6 * part / tokens for part in (scoring, parts["drafting"], parts["loop"])]
            measured = 1e6 * case["seconds_per_token"]["median"]
            rows.append(
                (
                    f"{label(case)}, T = {run.temperature}",
                    *(f"{part:.0f}" for part in each),
                    f"{sum(each):.0f}",
                    f"{measured:.0f}",
                )
            )
    return table("; target's pass; drafting; loop; together; measured", rows)


def dearer(case: dict[str, Any]) -> tuple[float, float]:
    """How much longer a plain token took alone than in the race, and a round in the race than its parts.

    Together, as factors, they are what the forecast is off by, but for medians of ratios being no ratios of
    medians.
    """
    parts, round_cost = case["parts"], case["verification"] + case["draft_tokens"] * case["cost"]
    a_round = case["seconds_per_token"]["median"] * case["tokens_per_target_pass"]
    plain = parts["plain_token"] / case["seconds_per_token_plain"]["median"]
    return plain - 1, a_round / (round_cost * parts["plain_token"]) - 1


def of_misses(runs: list[Run], raced: list[Again]) -> str:
    """Return which forecasts were off by more than a tenth, and where that comes from."""
    told = {}  # a case that serves two goals counts once
    for run in runs:
        told |= {f"{label(case)}, T = {run.temperature}": case for case in run.cases}
    for _, heat, threads, case in raced:
        told[f"{label(case)}, T = {heat}, again, {threads} thread{'s'[: threads - 1]}"] = case
    missed = {name: case for name, case in told.items() if abs(off(case)) > CLOSE}
    plain, rounds = (sum(each) / len(told) for each in zip(*map(dearer, told.values()), strict=True))
    said = (
        f"Of {len(told)} forecasts, {len(told) - len(missed)} were within 10 % of what was then measured. On "
        f"average a plain token took {100 * plain:+.0f} % by itself against in the race, and a round "
        f"{100 * rounds:+.0f} % in the race against the sum of its parts."
    )
    if not missed:
        return said
    rows = []
    for name, case in missed.items():
        spread, (alone, together) = case["speedup"], dearer(case)
        within = spread["low"] <= case["predicted_speedup"] <= spread["high"]
        larger = (
            f"a round took {100 * together:+.0f} % against its parts"
            if abs(together) >= abs(alone)
            else f"a plain token took {100 * alone:+.0f} % by itself"
        )
        rows.append(
            (
                name,
                with_spread(spread),
                f"{case['predicted_speedup']:.2f}",
                f"{100 * off(case):+.0f} %",
                larger + (", within the quartiles" if within else ""),
            )
        )
    return f"{said} Those further off, and the larger of the two reasons:\n\n" + table(
        "; measured; forecast; off by; because", rows
    )


class Sections:
    """Time by section: what is called within a section counts there, unless it is a section itself.

    All within the section `whole` counts there.
    """

    def __init__(self, whole: str) -> None:
        self.seconds: Counter[str] = Counter()
        self._whole = whole
        self._within, self._since = ["loop"], time.perf_counter()

    def _turn(self) -> None:
        now = time.perf_counter()
        self.seconds[self._within[-1]] += now - self._since
        self._since = now

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as a section."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._within.append(self._whole if self._within[-1] == self._whole else name)
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
    sections, warp = Sections("drafting"), temperature(heat)
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
    target = asked_in(sections, "laws", target)
    options: dict[str, Any] = {"max_new_tokens": 128}
    if name is not None:
        options |= {
            "num_draft_tokens": num_draft_tokens,
            "verify": sections.of("verification", verify.token),
        }
    program = (autoregress, target) if name is None else (generate, target, drafter)
    total: Counter[str] = Counter()
    with looked_into(sections, {"layers": ((session, "forward"), (cache, "product"))}):
        for seed, prompt in enumerate(prompts):
            least = None
            for turn in range(5):
                llama.oracle(prompt[:-1])
                sections.run(partial(sample, *program, prompt, rng=(seed, turn), **options))
                if least is None or sections.seconds.total() < least.total():
                    least = sections.seconds.copy()
            total += least
    return {section: 1e6 * total[section] / (128 * len(prompts)) for section in SECTIONS}


def asked_in(sections: Sections, name: str, oracle: Oracle) -> Oracle:
    """Return an oracle whose rows are made in a section."""
    return replace(oracle, row=sections.of(name, oracle.row), score_rows=sections.of(name, oracle.score_rows))


def looked_into(sections: Sections, places: dict[str, tuple[tuple[Any, str], ...]]) -> ExitStack:
    """Make functions sections until the end of a block."""
    stack = ExitStack()
    for section, functions in places.items():
        for owner, name in functions:
            made = sections.of(section, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, made))
    return stack


def of_drafter(llama: CachedLlama, name: str, prompts: list[tuple[int, ...]]) -> dict[str, float]:
    """Return microseconds a drafted token by what is done, the least of some decodes of each prompt."""
    sections, total, drafted = Sections("target"), Counter[str](), 0
    target, drafter = load_drafter(name, llama)(llama.oracle, temperature(1), draft.model)
    drafter = replace(drafter, propose=sections.of("calls", drafter.propose))
    target = asked_in(sections, "target", target)
    options: dict[str, Any] = {"max_new_tokens": 128, "num_draft_tokens": 3}
    with looked_into(sections, WITHIN):
        for seed, prompt in enumerate(prompts):
            found = []
            for turn in range(5):
                llama.oracle(prompt[:-1])
                program = partial(sample, generate, target, drafter, prompt, rng=(seed, turn), **options)
                made = sections.run(program)
                found.append((sections.seconds.copy(), sum(one.drafted for one in made.rounds)))
            least, drafts = min(found, key=lambda one: time_within(one[0]) / one[1])
            total, drafted = total + least, drafted + drafts
    return {section: 1e6 * total[section] / drafted for section in (*WITHIN, "calls")}


def time_within(seconds: Counter[str]) -> float:
    """The time of all that a drafter does."""
    return sum(seconds[section] for section in (*WITHIN, "calls"))


def all_drafters(llama: CachedLlama, prompts: list[tuple[int, ...]]) -> dict[str, dict[str, float]]:
    """Look into every drafter."""
    return {name: of_drafter(llama, name, prompts) for name in COMPUTED}


def of_drafters(found: dict[str, dict[str, float]]) -> str:
    """Return the table of where a drafted token's time goes."""
    rows = [
        (name, *(f"{each:.1f}" for each in one.values()), f"{sum(one.values()):.1f}")
        for name, one in found.items()
    ]
    return table("µs a drafted token; products; attention; calls and the rest; together", rows)


def of_ceilings(raced: list[Again]) -> str:
    """Return the table of what a round would have to cost for each goal, on one thread."""
    rows = []
    for goal, heat, _, case in (one for one in raced if one.threads == 1):
        tokens, k, least = case["tokens_per_target_pass"], case["draft_tokens"], GOALS[goal][1][heat]
        rows.append(
            (
                goal,
                str(heat),
                label(case),
                f"{tokens:.2f}",
                f"{case['verification']:.2f}",
                f"{case['cost']:.2f}",
                f"{tokens / case['verification']:.2f}",
                f"{least:.1f}",
                f"{(tokens / least - case['verification']) / k:.2f}",
            )
        )
    heads = "; temperature; with; tokens a pass; pass and loop; a draft; if drafts were free; goal; may cost"
    return table(heads, rows)


def all_profiles(llama: CachedLlama, prompts: list[tuple[int, ...]]) -> dict[str, dict[str, float]]:
    """Profile every case."""
    return {case: profiled(llama, case, prompts) for case in PROFILED}


def of_profile(found: dict[str, dict[str, float]]) -> str:
    """Return the table of where a token's time goes."""
    rows = []
    for case, seconds in found.items():
        outside = seconds["verification"] + seconds["loop"]
        rows.append((case, *(f"{seconds[section]:.1f}" for section in SECTIONS), f"{outside:.1f}"))
    return table(f"µs a token; {'; '.join(SECTIONS)}; outside the models", rows)


def compared(llama: CachedLlama, case: Case, prompts: list[tuple[int, ...]]) -> dict[str, Any]:
    """Compare greedy texts token for token."""
    contender = case.contender(load_drafter(case.drafter, llama), llama.oracle, temperature(0))
    found = compare_greedy(llama.oracle, contender, prompts)
    return {
        "tokens": found.tokens,
        "identical": found.identical,
        "differences": [each._asdict() for each in found.differences],
    }


def of_identity(found: dict[str, dict[str, Any]]) -> str:
    """Return the table of greedy texts compared token for token, every difference by itself."""
    rows = []
    for name, one in found.items():
        places = [
            f"prompt {each['prompt'] + 1}, character {each['position'] + 1}: {each['gap']:.1e}"
            for each in one["differences"]
        ]
        rows.append((name, f"{one['tokens']:,}", f"{one['identical']:,}", "; ".join(places) or "none"))
    return table("drafter; tokens compared; identical; differences, logits apart", rows)


def main() -> None:
    """Measure, and put the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no further part after so long")
    parts = Parts(KEPT, parser.parse_args().minutes)
    runs = all_runs(parts)
    raced = all_again(parts, runs)
    llama = model.load("shakespeare", sliding=True)
    assert llama.tokenizer is not None
    held_out = llama.tokenizer.encode(model.bundled_text())
    prompts = excerpts(held_out, GREEDY_PROMPTS, 64, seed=2)
    identity = {
        name: parts.of(f"T = 0, text of {name}", partial(compared, llama, case, prompts))
        for name, case in COMPARED.items()
    }
    narrow = parts.of("without AVX-512", partial(measured, 1, 1, NARROW, OPENBLAS_CORETYPE="Haswell"))
    profiles = parts.of("profile", partial(all_profiles, llama, prompts[:6]))
    drafters = parts.of("profile of drafters", partial(all_drafters, llama, prompts[:6]))
    texts = {
        "goals": of_goals(raced),
        "sampled": of_cases(runs[0]),
        "greedy": of_cases(runs[1]),
        "lengths": of_lengths(runs[0]),
        "parts": of_parts(runs),
        "misses": of_misses(runs, raced),
        "narrow": of_cases(Run(1, 1, narrow)),
        "profile": of_profile(profiles),
        "drafters": of_drafters(drafters),
        "ceilings": of_ceilings(raced),
        "identity": of_identity(identity),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, text in texts.items():
        page = with_table(page, name, text)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
