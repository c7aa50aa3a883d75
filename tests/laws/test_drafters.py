"""Every drafter that needs no weights, crossed with every lossless verifier: refused or verified exactly.

Models are small tables, heads are rows, texts are short and repeat themselves. Those that look at the text
are also proved through whole decodes, where what they draft depends on what was verified before.
"""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import VERIFIERS, Oracle, autoregress, draft, generate, law, prove, rational, table, verify
from speculative.draft import (
    best_first,
    eagle,
    lookahead,
    medusa,
    model,
    paths,
    suffix,
    suffix_tree,
    top,
    tree,
)
from speculative.oracle import keep_last_pass
from speculative.oracle.interface import contexts_after
from speculative.testing import pairs, rows

LOSSLESS = [
    name
    for name, entry in VERIFIERS.items()
    if entry.lossless and not entry.carries  # what is carried is of one draft model
]
OF_ANY_DRAFT = [name for name in LOSSLESS if VERIFIERS[name].drafts in {"tokens", "tree"}]

TARGET = table(
    {
        (): rational(["1/2", "3/10", "1/5"]),
        (0,): rational(["1/5", "1/5", "3/5"]),
        (1,): rational(["0", "7/10", "3/10"]),
        (2,): rational(["2/5", "2/5", "1/5"]),
    }
)
HEADS = (rational(["1/5", "1/5", "3/5"]), rational(["1/3", "2/3", "0"]))
SMALL = table(
    {
        (): rational(["1/5", "1/5", "3/5"]),
        (0,): rational(["3/5", "1/5", "1/5"]),
        (1,): rational(["1/3", "1/3", "1/3"]),
        (2,): rational(["1/10", "1/10", "4/5"]),
    }
)
TEXT = (0, 2, 1, 0, 2, 0, 1, 0, 2)  # after 0 2 came 1 and 0


def heads(context):
    """Return rows that depend on the context, as hidden states do."""
    return HEADS if len(context) % 2 else HEADS[::-1]


def head(context):
    """Return the round's draft model, which knows of the context only what its length says."""
    return in_one_pass(SMALL if len(context) % 2 else table(HEADS[1]))


def in_one_pass(oracle):
    """Return an oracle that scores whole trees: what a draft head with a tree mask does."""

    def score_rows(context, tokens, parents):
        return [oracle.row(each) for each in contexts_after(context, tokens, parents)]

    return Oracle(oracle.row, oracle.vocab_size, score_rows)


def after_some_rounds(chance, context, num_draft_tokens):
    """Draft by lookahead with a pool and a window that a text has left behind, anew for each run."""
    drafter = lookahead(TARGET, window=2, ngram=3)
    for end in (1, 2, 4, 5, 7):
        drafter(chance, context[:end], 3)
    return drafter(chance, context, num_draft_tokens)


CHAINS = {
    "suffix": suffix(3),
    "lookup": draft.lookup(3),
    "Medusa, sampled": medusa(heads, 3, model),
    "EAGLE": eagle(head, 3, model),
}
TREES = {
    "suffix tree": suffix_tree(3),
    "Medusa, the product": medusa(heads, 3, partial(tree, branching=(2, 2), scheme=top)),
    "Medusa, sparse": medusa(heads, 3, partial(best_first, num_nodes=4)),
    "Medusa, two sampled paths": medusa(heads, 3, partial(paths, num_paths=2)),
    "EAGLE-2": eagle(head, 3, partial(best_first, num_nodes=4, width=2)),
    "lookahead": after_some_rounds,
}
DRAFTERS = CHAINS | TREES


def refused_or_lossless(name, drafter):
    """Return "refused" or "lossless", or else by how much the law is off."""
    entry = VERIFIERS[name]
    reference = TARGET if entry.target_warp is None else entry.target_warp(TARGET)
    options = {"context": TEXT, "num_draft_tokens": 2, "reference": reference}
    try:
        proof = prove(entry.function, TARGET, drafter, **options)
    except ValueError as error:
        return "refused" if len(str(error).splitlines()) == 1 else str(error)
    return "lossless" if proof.lossless else proof.distance


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("name", LOSSLESS)
def test_it_is_refused_or_verified_without_loss(name, drafter):
    found = refused_or_lossless(name, DRAFTERS[drafter])
    if found == "refused":
        assert drafter in TREES
        assert name not in OF_ANY_DRAFT
    else:
        assert found == "lossless"


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_something_is_drafted(drafter):
    depths = law(lambda chance: DRAFTERS[drafter](chance, TEXT, 2).depth)
    assert depths == {2: 1}


@settings(max_examples=8)
@given(pairs(vocab_sizes=(3, 3), num_draft_tokens=(1, 2)), st.lists(rows(3), min_size=1, max_size=3))
def test_medusa_on_any_rows(pair, some_rows):
    options = {"num_draft_tokens": pair.num_draft_tokens}
    for verifier, make_drafter in (
        (verify.block, model),
        (verify.recursive, partial(best_first, num_nodes=4)),
        (verify.traversal, partial(tree, branching=(2, 2))),
    ):
        drafter = medusa(lambda _: some_rows, 3, make_drafter)
        assert prove(verifier, pair.target, drafter, **options).lossless


# --- whole decodes


def decoded(make_drafter, verifier, target=TARGET, num_tokens=4):
    """Return the law of a text of `num_tokens`; the drafter is made in the run."""

    def program(chance):
        kept = keep_last_pass(target)
        options = {"max_new_tokens": num_tokens, "num_draft_tokens": 3, "verify": verifier}
        return generate(chance, kept, make_drafter(kept), TEXT[:3], **options).tokens

    return law(program)


def alone(target=TARGET, num_tokens=4):
    return law(lambda chance: autoregress(chance, target, TEXT[:3], max_new_tokens=num_tokens).tokens)


OF_THE_TEXT = {
    "suffix": lambda _: suffix(3),
    "suffix tree": lambda _: suffix_tree(3),
    "lookup": lambda _: draft.lookup(3),
    "lookahead": partial(lookahead, window=2, ngram=2),
    "lookahead, 3-grams": partial(lookahead, window=2, ngram=3, guesses=2),
}
MEMORY = suffix_tree(3)


@pytest.mark.parametrize("name", OF_THE_TEXT)
@pytest.mark.parametrize("verifier", [verify.match, verify.recursive, verify.traversal])
def test_a_text_has_the_law_of_the_target_alone(name, verifier):
    found = decoded(OF_THE_TEXT[name], verifier)
    assert found.exact
    assert found == alone()


def test_so_it_has_with_a_drafter_that_is_shared_by_all_runs_where_its_memory_is_not_seen():
    assert decoded(lambda _: MEMORY, verify.recursive) == alone()


@pytest.mark.parametrize("name", ["lookahead", "suffix tree"])
@settings(max_examples=5)
@given(pair=pairs(vocab_sizes=(3, 3)))
def test_so_it_has_on_any_laws(name, pair):
    found = decoded(OF_THE_TEXT[name], verify.recursive, pair.target, num_tokens=3)
    assert found == alone(pair.target, num_tokens=3)
