"""Write the tables of the page on published rules from exact laws: `python docs/audit.py`.

Wrong rules are the ones that the tests build, in `tests/faults`; those of several paths that need a page of
code are here. `docs/explanation/published-rules.md` holds the tables between markers, and a test compares.
"""

import re
import sys
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from faults import drafts  # noqa: E402 - the path is set above
from faults.allowed import certain  # noqa: E402
from faults.setups import TWO_DRAFTS, distance_on_f, drafting, on_instance, rule  # noqa: E402
from faults.table import BLOCKS, CLASSIC  # noqa: E402
from faults.tree_table import ALLOWED_TREES, TREES  # noqa: E402
from speculative import BATTERY, draft, law, prove, rational, speculate, table, verify  # noqa: E402
from speculative.bound import whole  # noqa: E402
from speculative.distribution import excess, normalised, total_variation  # noqa: E402
from speculative.draft import hub, paths, tree  # noqa: E402

PAGE = ROOT / "docs" / "explanation" / "published-rules.md"
NAMED = {fault.name: fault.build for fault in (*CLASSIC, *BLOCKS, *TREES)}
RANDOM = next(instance for instance in BATTERY if instance.name == "random, V=3, k=3")
EVERY_TOKEN = next(instance for instance in BATTERY if instance.name == "another law after every token")
PAIR, OTHER = rational([".5", ".3", ".2"]), rational([".2", ".3", ".5"])


# Rules of trees, as published code has them


def k_seq_with(rho):
    """Return k-SEQ with a scale that is given; where it is too small the residual is clipped at 0."""

    def step(chance, one, target_probs):
        siblings, target = one.siblings(0), target_probs[0]
        passing = np.minimum(siblings.row, target / rho)
        for token in siblings.tokens:
            if chance.flip(min(1, target[token] / (rho * siblings.row[token]))):
                return (token, chance.pick(target_probs[one.child(0, token)]))
        tests = sum((1 - passing.sum()) ** i for i in range(len(siblings.tokens)))
        return (chance.pick(excess(target, tests * passing)),)

    return step


def multipath_with_ties(chance, one, target_probs):
    """GBV ranking by min(1, target / draft): its law breaks ties by number, its choice by order drawn."""
    node, lower, here, tokens, rows = 0, Fraction(0), Fraction(1), (), []
    scored = [target_probs[0]]
    count = len(one.siblings(0).tokens)
    while (siblings := one.siblings(node)) is not None:
        row, target = siblings.row, target_probs[node]
        ratio = np.array([min(1, q / p) if p else 0 for q, p in zip(target, row, strict=True)], dtype=object)
        order = np.argsort(ratio, kind="stable")
        upto = lower + here * np.cumsum(row[order])
        below = np.concatenate(([lower], upto[:-1]))
        skewed = np.empty_like(row)
        skewed[order] = upto**count - below**count
        token = max(siblings.tokens, key=lambda token: ratio[token])
        at = int(np.flatnonzero(order == token)[0])
        lower, here = below[at], here * row[token]
        tokens, rows = (*tokens, token), [*rows, normalised(skewed)]
        node = one.child(node, token)
        scored.append(target_probs[node])
    return verify.block(chance, drafts.Unchecked(tokens, rows), scored).tokens


def spechub_with_shortcut(chance, one, target_probs):
    """Accept the hub unseen where the draft gives it more than .999."""
    row = one.siblings(0).row
    best = int(row.argmax())
    if row[best] > Fraction(999, 1000):
        return (best, chance.pick(target_probs[one.child(0, best)]))
    return verify.spechub(chance, one, target_probs).tokens


# Few bits


def logits_of(seed, vocab_size=16):
    """Made-up logits: normal, of standard deviation 3."""
    return np.random.default_rng(seed).normal(0, 3, vocab_size)


def softmax(logits):
    """The row of some logits, summing to one exactly."""
    return normalised(rational(np.exp(logits - logits.max()).tolist()))


def bfloat16(values):
    """Round to the 8 significant bits of bfloat16, to even."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    return rounded.astype(np.uint32).view(np.float32).astype(float)


def float16(values):
    """Round to float16."""
    return np.asarray(values).astype(np.float16).astype(float)


def judged_by_another_row(target, sampled, declared):
    """The law of a token drawn from `sampled` and judged as if drawn from `declared`."""
    accepted = sampled * np.minimum(1, target / declared)
    rest = excess(target, declared)
    return accepted + (1 - accepted.sum()) * rest / rest.sum()


def judged_in_bits(bits):
    """The distance where uniforms are multiples of 2^-bits, in the test only."""
    target, small = softmax(logits_of(1)), softmax(logits_of(2))
    kept = np.array(
        [Fraction(ceil(min(1, q / p) * 2**bits), 2**bits) for q, p in zip(target, small, strict=True)]
    )
    rest = excess(target, small)
    out = small * kept + (1 - (small * kept).sum()) * rest / rest.sum()
    return total_variation(out, target)


def sampled_in_bits(arithmetic):
    """The distance where every draw is made with uniforms of a float type: 11 or 24 bits."""
    target = np.array(softmax(logits_of(1)), dtype=float)
    small = np.array(softmax(logits_of(2)), dtype=float)
    one = law(
        speculate, table([target, target]), draft.model(table(small)), num_draft_tokens=1,
        arithmetic=arithmetic,
    ).map(lambda round_: round_.tokens[0])  # fmt: skip
    wanted = normalised(rational(target.tolist()))
    return total_variation(np.array([one.get(token, Fraction(0)) for token in range(16)]), wanted)


# Tables


def shown(number):
    """A number as the tables print it: short fractions as they are, too."""
    text = str(number)
    if isinstance(number, Fraction) and number and len(text) <= 9 and number.denominator > 1:
        return f"{text} = {float(number):.4g}"
    return text if isinstance(number, int) else f"{float(number):.4g}"


def lines(head, rows):
    """A table in markdown."""
    table_lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in table_lines)


def of_blocks():
    """Chains: wrong block verification on two instances, with block verification beside it."""
    rows = []
    for name, build in [("block verification", rule(verify.block))] + [
        (label, NAMED[name]) for label, name in BLOCK_RULES
    ]:
        cells = [name]
        for instance in (TWO_DRAFTS, RANDOM):
            proof = on_instance(build, instance)
            cells += [shown(proof.distance), shown(proof.expected_accepted)]
        rows.append(cells)
    return lines(["rule", "distance", "accepted", "distance, random", "accepted, random"], rows)


BLOCK_RULES = [
    ("products of uniforms, residual of the token", "block: products of uniforms, residual of the token"),
    ("products of uniforms, residual of the block", "block: products of uniforms"),
    (
        "products of uniforms, draft probabilities 1",
        "block: products of uniforms, sampled draft taken as certain",
    ),
    ("whole draft by the uncapped ratio", "block: the last test by the uncapped ratio"),
    ("capped at new maxima only", "block: capped at new maxima only"),
    ("the first failure ends the search", "block: the first failure ends the search"),
    ("residual of the token", "block: residual of the token"),
    ("greedy block, nothing carried", "greedy block: nothing carried"),
]


def of_drafts():
    """Drafts that are not what they are declared to be, under two right rules."""
    rows = []
    for label, make in (
        ("sampled, as declared", draft.model),
        ("sampled; dropped where its probability is below .22", drafts.dropped_when_improbable),
        ("argmax, declared with the soft law", drafts.argmax_with_soft_law),
    ):
        cells = [label]
        for function in (verify.token, verify.block):
            proof = on_instance(drafting(make, function), TWO_DRAFTS)
            cells += [
                shown(distance_on_f(drafting(make, function))),
                shown(proof.distance),
                shown(proof.expected_accepted),
            ]
        rows.append(cells)
    head = ["draft", "token, F", "token, two drafts", "accepted", "block, F", "block, two drafts", "accepted"]
    return lines(head, rows)


TREE_RULES = [
    ("without replacement, as declared", None),
    ("without replacement, declared independent", "without replacement, declared independent"),
    ("independent, declared without replacement", "independent, declared without replacement"),
    ("the most probable two, declared independent", "most probable siblings with the soft law"),
    ("independent; each path verified alone, the longest kept", "each path verified alone, the longest kept"),
]


def of_trees():
    """Siblings that are not drawn as declared, and each path by itself."""
    rows = []
    for label, name in TREE_RULES:
        build = ALLOWED_TREES["without replacement"] if name is None else NAMED[name]
        proof = on_instance(build, TWO_DRAFTS)
        rows.append(
            [label, shown(distance_on_f(build)), shown(proof.distance), shown(proof.expected_accepted)]
        )
    return lines(["siblings", "distance, F", "distance, two drafts", "accepted"], rows)


def of_multi_draft():
    """k-SEQ's rounding, GBV's ties, SpecHub's shortcut: each beside the rule itself."""
    two = paths(table(OTHER), 2)
    rows = []

    def add(label, function, target, drafter, k):
        proof = prove(function, table(target), drafter, num_draft_tokens=k)
        best = whole(table(target), drafter, num_draft_tokens=k).expected_accepted
        rows.append([label, shown(proof.distance), shown(float(proof.expected_accepted)), shown(best)])

    add("k-SEQ", verify.k_seq, PAIR, two, 1)
    for digits in (1, 2, 3):
        rho = Fraction(floor(1.456776 * 10**digits), 10**digits)
        add(f"k-SEQ, scale {float(rho)}, rounded down", k_seq_with(rho), PAIR, two, 1)
    tied = rational([".3", ".5", ".2"]), rational([".2", ".3", ".5"])
    add("GBV", verify.multipath, tied[0], paths(table(tied[1]), 2), 2)
    add("GBV, ties at 1 by order drawn", multipath_with_ties, tied[0], paths(table(tied[1]), 2), 2)
    sure = rational([".5", ".3", ".2"]), rational([".9995", ".0003", ".0002"])
    pairs = tree(table(sure[1]), (2,), scheme=hub)
    add("SpecHub", verify.spechub, sure[0], pairs, 1)
    add("SpecHub, the hub accepted where its p > .999", spechub_with_shortcut, sure[0], pairs, 1)
    return lines(["rule", "distance", "accepted", "optimum"], rows)


def of_bits():
    """Rounding of logits and of uniforms, on 16 tokens."""
    target = softmax(logits_of(1))
    declared = softmax(logits_of(2))
    rows = []
    for name, rounded in (("bfloat16", bfloat16), ("float16", float16)):
        sampled = softmax(rounded(logits_of(2)))
        out = judged_by_another_row(target, sampled, declared)
        rows.append(
            [
                f"draft sampled from logits in {name}, ratio in float64",
                f"{float(total_variation(out, target)):.1e}",
            ]
        )
    for bits in (8, 11, 16, 24):
        rows.append([f"tests with uniforms of {bits} bits", f"{float(judged_in_bits(bits)):.1e}"])
    for arithmetic, bits in (("float16", 11), ("float32", 24)):
        rows.append(
            [
                f"all draws with uniforms of {arithmetic}, {bits} bits",
                f"{float(sampled_in_bits(arithmetic)):.1e}",
            ]
        )
    return lines(["rounding", "distance"], rows)


def of_couplings():
    """Acceptance of the couplings, and noise that is shared where it must not be."""
    rows = []
    for name, function in (("token", verify.token), ("gumbel", verify.gumbel), ("minhash", verify.minhash)):
        proof = prove(function, table(PAIR), draft.model(table(OTHER)), num_draft_tokens=1)
        rows.append([f"`{name}`", shown(proof.distance), f"{float(proof.expected_accepted):.6f}"])
    same = np.minimum(PAIR, OTHER).sum() / np.maximum(PAIR, OTHER).sum()
    rows.append(["the same dart, as the formula for `minhash` counts", "", f"{float(same):.6f}"])
    shared = next(fault for fault in CLASSIC if fault.name == "draft and residual share one race")
    rows.append(["draft and residual share one noise, on F", shown(distance_on_f(shared.build)), ""])
    return lines(["rule", "distance", "accepted"], rows)


def of_certain_drafts():
    """Block beside token verification, where the draft is certain and where it is sampled."""
    rows = []
    for label, make in (("sampled", draft.model), ("argmax, declared as certain", certain)):
        for instance in (TWO_DRAFTS, EVERY_TOKEN):
            values = [
                shown(on_instance(drafting(make, function), instance).expected_accepted)
                for function in (verify.token, verify.block)
            ]
            rows.append([label, instance.name, *values])
    return lines(["draft", "instance", "accepted by token", "accepted by block"], rows)


def of_two_paths():
    """GBV and traversal beside block verification, where the draft is as good as it can be."""
    rows = []
    for row in (["1/2", "1/2"], ["1/3", "1/3", "1/3"], ["3/5", "3/10", "1/10"]):
        model = table(rational(row))
        one, two = draft.model(model), paths(model, 2)
        values = [
            shown(prove(function, model, drafter, num_draft_tokens=2).expected_accepted)
            for function, drafter in ((verify.block, one), (verify.traversal, two), (verify.multipath, two))
        ]
        rows.append([" ".join(row), *values])
    return lines(["target and draft", "block, one path", "traversal, two paths", "GBV, two paths"], rows)


TABLES = {
    "blocks": of_blocks,
    "drafts": of_drafts,
    "trees": of_trees,
    "multi-draft": of_multi_draft,
    "bits": of_bits,
    "couplings": of_couplings,
    "certain drafts": of_certain_drafts,
    "two paths": of_two_paths,
}


def with_tables(page):
    """Return the page with every table as it now comes out."""
    for name, make in TABLES.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text = make()
        page, found = marked.subn(lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}", page)
        assert found == 1, name
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
