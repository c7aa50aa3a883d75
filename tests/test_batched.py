"""A Llama for several texts: threads take turns, copies share nothing, and what is asked is checked."""

import copy
import pickle
import re
from functools import partial

import numpy as np
import pytest

from plain_llama import llama_of
from speculative.model import BatchedLlama, Characters, batched
from turns import in_between

TEXT = (1, 2, 4, 5, 6, 0)


def same_law(row, logits):
    shares = np.exp(logits - logits.max())
    np.testing.assert_allclose(row, shares / shares.sum(), atol=1e-5)


def announced(model, text):
    model.batch.ahead({0: (text, (), ())})
    return model.batch.oracles[0](text)


@pytest.mark.parametrize("ask", [announced, lambda model, text: model.batch.oracles[0](text)])
def test_two_threads_take_turns(ask):
    llama, plain = llama_of()
    model = BatchedLlama(llama, 2)
    model.read({0: (TEXT, (), ())})
    texts = (*TEXT, 1), (6,) * 9
    rows = in_between(batched, "forward", *(partial(ask, model, text) for text in texts))
    for text, row in zip(texts, rows, strict=True):
        same_law(row, plain.row(text))
        same_law(model.batch.oracles[0]((*text, 2)), plain.row((*text, 2)))


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_has_read_nothing_and_shares_no_buffer(again):
    """A text of 16 tokens is read alone, through a view of its slot's part of the buffers."""
    llama, plain = llama_of()
    model = BatchedLlama(llama, 2, tokenizer=Characters("abcdefg"), context_limit=20)
    model.read({0: (TEXT, (5, 6), (0, 0))})
    other = again(model)
    assert other.nbytes == model.nbytes
    for slot, oracle in enumerate(other.batch.oracles):
        assert (oracle.vocabulary, oracle.context_limit) == (tuple("abcdefg"), 20)
        text = (slot, 6, 3) * 6
        same_law(oracle(text), plain.row(text))
    same_law(model.batch.oracles[0].score(TEXT, (6, 1))[2], plain.row((*TEXT, 6, 1)))


@pytest.mark.parametrize(
    ("slot", "question", "message"),
    [
        (2, ((), (), ()), "slot 2: give slots from 0 to 1"),
        (-1, ((), (), ()), "slot -1: give slots from 0 to 1"),
        ("a", ((), (), ()), "slot 'a': give slots from 0 to 1"),
        (0.0, ((), (), ()), "slot 0.0: give slots from 0 to 1"),
        (0, ((7,), (), ()), "token 7 in context (7,) is outside the vocabulary: give tokens from 0 to 6"),
        (1, (5, (), ()), "the context 5 is not made of tokens: give a tuple of ints"),
        (
            1,
            ((1,) * 21, (), ()),
            "a context of 21 tokens is over the limit of 20: give a shorter context, or draft fewer tokens",
        ),
        (
            0,
            ((1,) * 19, (1, 2, 3), (0, 1, 0)),
            "a context of 21 tokens is over the limit of 20: give a shorter context, or draft fewer tokens",
        ),
        (
            0,
            ((1,), (-1,), (0,)),
            "token -1 in draft (-1,) is outside the vocabulary: give tokens from 0 to 6",
        ),
        (0, ((1,), (1,), ()), "a tree of 1 tokens and 0 parents: give one parent a token"),
        (0, ((1,), (1,), (1,)), "node 1 has parent 1: give an earlier node, 0 for the root"),
    ],
)
def test_questions_that_are_refused(slot, question, message):
    llama, plain = llama_of()
    model = BatchedLlama(llama, 2, context_limit=20)
    model.read({0: (TEXT, (5,), (0,)), 1: ((2,), (), ())})
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model.read({1: ((3,), (), ()), slot: question})
    for oracle, text in zip(model.batch.oracles, [(*TEXT, 5), (2,)], strict=True):
        same_law(oracle(text), plain.row(text))


def test_a_draft_outside_the_vocabulary_is_refused_by_the_pass_that_a_loop_asks_for():
    model = BatchedLlama(llama_of()[0], 2)
    with pytest.raises(ValueError, match=r"^token 7 in draft \(7,\) is outside the vocabulary: "):
        model.batch.ahead({0: ((1,), (7,), (0,))})


def test_lists_and_arrays_are_tokens_too():
    llama, plain = llama_of()
    model = BatchedLlama(llama, 2)
    model.read({0: ([1, 2], np.array([3, 4]), [0, 0]), 1: (np.array([5]), [], [])})
    model.llama = None  # nothing is computed any more
    same_law(model.batch.oracles[0].score_tree((1, 2), (3, 4), (0, 0))[2], plain.row((1, 2, 4)))
    same_law(model.batch.oracles[1]((5,)), plain.row((5,)))
