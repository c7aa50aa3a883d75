"""Claims C24 to C27, C29: every drafter, crossed with every lossless verifier, refused or verified exactly.

Models are small tables, heads are rows, texts are short and repeat themselves. All are proved through whole
decodes too, where what they draft depends on what was verified before, each with a fault that is caught.
"""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speculative import (
    VERIFIERS,
    Draft,
    Oracle,
    autoregress,
    draft,
    generate,
    law,
    prove,
    rational,
    speculate,
    table,
    verify,
)
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


def decoded(make_drafter, verifier, target=TARGET, num_tokens=4, num_draft_tokens=3):
    """Return the law of a text of `num_tokens`; the drafter is made in the run."""

    def program(chance):
        kept = keep_last_pass(target)
        options = {"max_new_tokens": num_tokens, "num_draft_tokens": num_draft_tokens, "verify": verifier}
        return generate(chance, kept, make_drafter(kept), TEXT[:3], **options).tokens

    return law(program)


def alone(target=TARGET, num_tokens=4):
    return law(lambda chance: autoregress(chance, target, TEXT[:3], max_new_tokens=num_tokens).tokens)


def in_rounds(drafter, verifier, target=TARGET):
    """Return the law of a text of four tokens, in two rounds or more."""
    found = decoded(lambda _: drafter, verifier, target, num_draft_tokens=2)
    assert found.exact
    return found


def declaring(drafter, rows_of):
    """Return a drafter that draws as another one does, and declares other rows."""

    def propose(chance, context, num_draft_tokens):
        tokens = drafter(chance, context, num_draft_tokens).tokens
        return Draft(tokens, tuple(rows_of(context, tokens)))

    return propose


LONG = table(
    {
        (): rational(["1/2", "3/10", "1/5"]),
        (0,): rational(["1/5", "1/5", "3/5"]),
        (1,): rational(["0", "7/10", "3/10"]),
        (2,): rational(["2/5", "2/5", "1/5"]),
        (1, 0): rational(["3/5", "1/5", "1/5"]),
        (2, 1): rational(["1/4", "1/4", "1/2"]),
        (0, 2): rational(["1/10", "1/5", "7/10"]),
    }
)
"""A target of the same family as `SMALL`, which looks at one token where this one looks at two."""
IN_PAIRS = law(lambda chance: autoregress(chance, LONG, (), max_new_tokens=2).tokens)


def distilled():
    """Return, for each last token, the mean of the target's rows over its own texts of two tokens.

    Of all models that look at one token this one has the least mean KL divergence from the target there.
    """
    rows_of = {(): LONG(())}
    for last in range(3):
        weights = {pair: mass for pair, mass in IN_PAIRS.items() if pair[1] == last}
        rows_of[(last,)] = sum(mass * LONG(pair) for pair, mass in weights.items()) / sum(weights.values())
    return table(rows_of)


DISTILLED = distilled()


@pytest.mark.parametrize("verifier", [verify.token, verify.block])
def test_c24_with_a_smaller_model_of_the_family_a_text_has_the_law_of_the_target_alone(verifier):
    assert in_rounds(model(SMALL), verifier, LONG) == alone(LONG)


def test_c24_rows_of_the_next_place_are_caught():
    shifted = declaring(model(SMALL), lambda context, tokens: SMALL.score(context, tokens)[1:])
    assert in_rounds(shifted, verify.token, LONG).distance(alone(LONG)) > 0


@pytest.mark.parametrize("verifier", [verify.token, verify.block])
def test_c25_with_a_distilled_draft_a_text_has_the_law_of_the_target_alone(verifier):
    assert in_rounds(model(DISTILLED), verifier, LONG) == alone(LONG)


def test_c25_the_distilled_draft_is_accepted_more_often():
    """In a round after each text of two tokens, as often as the target writes it."""
    accepted = []
    for drafting in (SMALL, DISTILLED):
        drafter = model(drafting)
        rounds = {pair: law(speculate, LONG, drafter, pair, num_draft_tokens=1) for pair in IN_PAIRS}
        accepted.append(
            sum(IN_PAIRS[pair] * one.mean(lambda one: one.accepted) for pair, one in rounds.items())
        )
    assert 0 < accepted[0] < accepted[1] < 1


def test_c25_the_law_before_distillation_is_caught_where_that_after_it_is_declared():
    stale = declaring(model(SMALL), lambda context, tokens: DISTILLED.score(context, tokens)[:-1])
    assert in_rounds(stale, verify.token, LONG).distance(alone(LONG)) > 0


def of_kind(kind):
    """Return drafters with verifiers; two sampled paths have too many ways to go for a whole decode."""
    return [
        pytest.param(drafter, verifier, id=f"{name}, {verifier.__name__}")
        for name, drafter in DRAFTERS.items()
        if name.startswith(kind) and "paths" not in name
        for verifier in ([verify.block] if name in CHAINS else [verify.recursive, verify.traversal])
    ]


@pytest.mark.parametrize(("drafter", "verifier"), of_kind("Medusa"))
def test_c26_with_medusa_heads_a_text_has_the_law_of_the_target_alone(drafter, verifier):
    assert in_rounds(drafter, verifier) == alone()


@pytest.mark.parametrize(("drafter", "verifier"), of_kind("EAGLE"))
def test_c27_with_an_eagle_head_a_text_has_the_law_of_the_target_alone(drafter, verifier):
    assert in_rounds(drafter, verifier) == alone()


def test_c26_c27_states_of_another_round_are_caught():
    """Drawn from what the target knew a token earlier, and declared with what it knows now."""
    both = rational(["1/5", "1/5", "3/5"]), rational(["1/3", "1/2", "1/6"])

    def turned(context):
        return both if len(context) % 2 else both[::-1]

    def stale(maker, of_context):
        drafter = maker(lambda context: of_context(context[:-1]), 3, model)
        return declaring(drafter, lambda context, tokens: turned(context)[: len(tokens)])

    def as_oracle(context):
        return table(list(turned(context)))

    for drafter in (stale(medusa, turned), stale(eagle, as_oracle)):
        assert in_rounds(drafter, verify.token).distance(alone()) > 0


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
def test_c29_with_what_came_before_or_lookahead_a_text_has_the_law_of_the_target_alone(name, verifier):
    found = decoded(OF_THE_TEXT[name], verifier)
    assert found.exact
    assert found == alone()


def test_c29_so_it_has_with_a_drafter_that_is_shared_by_all_runs_where_its_memory_is_not_seen():
    assert decoded(lambda _: MEMORY, verify.recursive) == alone()


@pytest.mark.parametrize("name", ["lookahead", "suffix tree"])
@settings(max_examples=5)
@given(pair=pairs(vocab_sizes=(3, 3)))
def test_c29_so_it_has_on_any_laws(name, pair):
    found = decoded(OF_THE_TEXT[name], verify.recursive, pair.target, num_tokens=3)
    assert found == alone(pair.target, num_tokens=3)


@pytest.mark.parametrize("make", [draft.lookup, suffix])
def test_c29_copies_declared_as_draws_of_the_target_are_caught(make):
    """All of them are then accepted."""
    copied = declaring(make(3), lambda context, tokens: LONG.score(context, tokens)[:-1])
    assert in_rounds(copied, verify.token, LONG).distance(alone(LONG)) > 0
