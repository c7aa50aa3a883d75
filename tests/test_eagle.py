"""A head that is made anew each round: what it is asked, and which law its drafts have."""

from functools import partial

import pytest

from speculative import Oracle, law, prove, rational, table, verify
from speculative.draft import best_first, eagle, model
from speculative.oracle.interface import contexts_after

FIRST, SECOND = rational(["1/2", "3/10", "1/5"]), rational(["1/5", "1/5", "3/5"])
MODELS = {0: table({(): FIRST, (0,): SECOND}), 1: table({(): SECOND, (1,): FIRST})}


def head(context):
    """Return a model that depends on where the round began."""
    return MODELS[len(context) % 2] if context else None


def test_the_models_contexts_begin_where_the_round_does():
    drafter = eagle(head, 3, model)
    tokens = law(lambda chance: drafter(chance, (2, 0), 2).tokens)
    even = MODELS[0]
    assert tokens == {(x, y): even(())[x] * even((x,))[y] for x in range(3) for y in range(3)}
    odd = law(lambda chance: drafter(chance, (0,), 1).tokens)
    assert odd == {(x,): SECOND[x] for x in range(3)}


def test_nothing_is_drafted_without_a_model():
    assert len(eagle(head, 3, model)(None, (), 2)) == 0


def test_c27_the_dynamic_tree_is_one_pass_a_level():
    """Level by level the root alone, then the two that are expanded, each time with what leads to them."""
    asked = []

    def counting(context):
        oracle = head(context)

        def score_rows(path, tokens, parents):
            asked.append((path, tuple(tokens), tuple(parents)))
            return [oracle.row(each) for each in contexts_after(path, tokens, parents)]

        return Oracle(oracle.row, 3, score_rows)

    drafter = eagle(counting, 3, partial(best_first, num_nodes=6, width=2))
    proposal = drafter(None, (2, 0), 3)
    assert asked == [((), (0, 1), (0, 0)), ((), (0, 2, 1, 0), (0, 1, 0, 3))]
    assert proposal.depth == 3
    plain = eagle(head, 3, partial(best_first, num_nodes=6, width=2))(None, (2, 0), 3)
    assert (plain.tokens, plain.parents) == (proposal.tokens, proposal.parents)


@pytest.mark.parametrize("context", [(0,), (2, 0)])
def test_head_and_verifier_together_are_lossless(context):
    target = table({(): SECOND, (1,): FIRST, (0,): rational(["0", "1/4", "3/4"])})
    for verifier, make_drafter in (
        (verify.block, model),
        (verify.recursive, partial(best_first, num_nodes=5, width=2)),
    ):
        drafter = eagle(head, 3, make_drafter)
        assert prove(verifier, target, drafter, context, num_draft_tokens=2).lossless


def test_c27_rows_of_another_round_are_reported():
    """A head left over from the round before drafts, and the present one's rows are declared."""

    def stale(oracle):
        def propose(chance, path, num_draft_tokens):
            drafted = model(MODELS[0])(chance, path, num_draft_tokens)
            return type(drafted)(drafted.tokens, tuple(oracle.score(path, drafted.tokens))[:-1])

        return propose

    target = table({(): rational(["1/3", "1/3", "1/3"])})
    assert prove(verify.token, target, eagle(head, 3, stale), (1, 1), num_draft_tokens=2).lossless
    assert prove(verify.token, target, eagle(head, 3, stale), (1,), num_draft_tokens=2).distance > 0


def test_what_is_no_head_or_no_maker_is_refused():
    with pytest.raises(ValueError, match=r"draft\.eagle of a ndarray and a function: give head\(context\)"):
        eagle(FIRST, 3, model)
    with pytest.raises(ValueError, match="a function and a NoneType"):
        eagle(head, 3, None)


def test_a_drafter_speaks_of_its_tokens():
    drafter = eagle(head, 3, model, vocabulary=("a", "b", "c"))
    assert (drafter.vocab_size, drafter.vocabulary) == (3, ("a", "b", "c"))
