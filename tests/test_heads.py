"""Medusa heads and the EAGLE head, held against their formulas written down plainly."""

import copy
import pickle
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_llama import Plain, config_of, llama_of, weights_of
from speculative import draft, generate, sample, verify
from speculative.model import CachedLlama, EagleHead, MedusaHeads, eagle
from speculative.model.session import Session
from turns import in_between

V, WIDTH, INNER = 7, 16, 20


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def medusa_weights(heads=3, seed=1):
    rng = np.random.default_rng(seed)
    shapes = {"linear": (WIDTH, WIDTH), "lm_head": (V, WIDTH)}
    return {
        f"heads.{i}.{name}.weight": rng.normal(size=shape).astype(np.float32) * WIDTH**-0.5
        for i in range(heads)
        for name, shape in shapes.items()
    }


def eagle_config(**sizes):
    return config_of(num_hidden_layers=1, intermediate_size=INNER, **sizes)


def eagle_weights(seed=1, **sizes):
    layer = {
        name.removeprefix("model."): weight
        for name, weight in weights_of(eagle_config(**sizes), seed).items()
        if ".layers." in name
    }
    rng = np.random.default_rng(seed)
    combine = rng.normal(size=(WIDTH, 2 * WIDTH)).astype(np.float32) * WIDTH**-0.5
    return layer | {"fc.weight": combine, "norm.weight": 1 + 0.3 * rng.normal(size=WIDTH).astype(np.float32)}


class PlainEagle(Plain):
    """The layer over all entries at once, drafted ones added one after the other."""

    def __init__(self, plain, weights):
        named = {f"model.{name}": weight for name, weight in weights.items()}
        super().__init__(eagle_config(bos_token_id=plain.config.bos_token_id), named)
        self.plain, self.combine = plain, weights["fc.weight"].astype(np.float64)

    def logits(self, context, path=()):
        states = self.plain.states(context)[:-1]
        tokens = list((*self.first, *context)[1:])
        for token in (*path, None):
            embedded = self.plain.weights["model.embed_tokens.weight"][tokens]
            guesses = self._entries(np.concatenate([embedded, states], axis=-1) @ self.combine.T)
            tokens, states = [*tokens, token], np.concatenate([states, guesses[-1:]])
        return states[-1] @ self.plain.weights["lm_head.weight"].T

    def _entries(self, x):
        layer, w = "model.layers.0.", self.weights
        x = x + self._attention(layer, self._norm(x, f"{layer}input_layernorm"))
        y = self._norm(x, f"{layer}post_attention_layernorm")
        gate, up = (y @ w[f"{layer}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{layer}mlp.down_proj.weight"].T
        return self._norm(x, "model.norm")


tokens = st.integers(0, V - 1)
texts = st.lists(tokens, min_size=1, max_size=14).map(tuple)


@st.composite
def moves(draw):
    """Contexts one after the other: each goes on with the last one, or leaves it somewhere."""
    contexts = [draw(texts)]
    for _ in range(draw(st.integers(0, 4))):
        kept = contexts[-1][: draw(st.integers(0, len(contexts[-1])))]
        contexts.append((*kept, *draw(st.lists(tokens, min_size=1, max_size=3)))[:14])
    return contexts


@given(moves(), st.integers(0, 3), st.sampled_from([3, None]))
@settings(max_examples=15)
def test_medusa_rows_are_those_of_the_formula(contexts, seed, bos):
    llama, plain = llama_of(seed, bos_token_id=bos)
    weights = medusa_weights(seed=seed + 1)
    heads = MedusaHeads.of(CachedLlama(llama), weights)
    for context in contexts:
        rows = heads(context)
        if bos is None and len(context) == 1:
            assert rows == []
            continue
        state = plain.states(context)[-2]
        assert len(rows) == 3
        for i, row in enumerate(rows):
            x = weights[f"heads.{i}.linear.weight"] @ state
            logits = weights[f"heads.{i}.lm_head.weight"] @ (state + x / (1 + np.exp(-x)))
            np.testing.assert_allclose(row, softmax(logits), atol=1e-5)


@given(moves(), st.integers(0, 3), st.sampled_from([3, None]), st.data())
@settings(max_examples=15)
def test_eagle_rows_are_those_of_the_formula(contexts, seed, bos, data):
    """Whatever was read and drafted before: chains, trees, paths asked twice, texts that were left."""
    llama, plain = llama_of(seed, bos_token_id=bos)
    weights = eagle_weights(seed + 1)
    head, formula = EagleHead(CachedLlama(llama), weights), PlainEagle(plain, weights)
    for context in contexts:
        oracle = head(context)
        if bos is None and len(context) == 1:
            assert oracle is None
            continue
        path = tuple(data.draw(st.lists(tokens, max_size=3)))
        np.testing.assert_allclose(oracle(path), softmax(formula.logits(context, path)), atol=1e-5)
        size = data.draw(st.integers(1, 5))
        nodes = data.draw(st.lists(tokens, min_size=size, max_size=size))
        parents = [data.draw(st.integers(0, i)) for i in range(size)]
        paths = [path]
        for token, parent in zip(nodes, parents, strict=True):
            paths.append((*paths[parent], token))
        rows = oracle.score_tree(path, nodes, parents)
        for row, each in zip(rows, paths, strict=True):
            np.testing.assert_allclose(row, softmax(formula.logits(context, each)), atol=1e-5)


def test_an_earlier_rounds_model_still_answers():
    """The model of a round is a function: asked after a later round it says what it said."""
    llama, _ = llama_of()
    head = EagleHead(CachedLlama(llama), eagle_weights())
    first = head((1, 2, 3, 4))
    before = first((5,))
    assert abs(head((1, 2, 0, 6))((5,)) - before).max() > 1e-4
    np.testing.assert_allclose(first((5,)), before, atol=1e-6)


def test_a_text_that_is_the_beginning_of_what_was_read():
    """Nothing is computed anew, and what was drafted behind the longer one is gone."""
    llama, plain = llama_of()
    weights = eagle_weights()
    head, formula = EagleHead(CachedLlama(llama), weights), PlainEagle(plain, weights)
    for context in ((1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 4)):
        np.testing.assert_allclose(head(context)((6,)), softmax(formula.logits(context, (6,))), atol=1e-5)


def test_heads_have_nothing_to_say_before_the_first_state():
    llama, _ = llama_of()
    target = CachedLlama(llama)
    assert MedusaHeads.of(target, medusa_weights())(()) == []
    assert EagleHead(target, eagle_weights())(()) is None


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ((99, 1), r"token 99 in text .* is outside the vocabulary: give tokens from 0 to 6"),
        ((-1, 1), "token -1 in text"),
        ((1, -1), "token -1 in text"),
        ((1.0, 2), "is not made of tokens: give a tuple of ints"),
        ("ab", "is not made of tokens: give a tuple of ints"),
    ],
)
def test_contexts_that_are_none(context, message):
    target = CachedLlama(llama_of(bos_token_id=None)[0])
    with pytest.raises(ValueError, match=message):
        EagleHead(target, eagle_weights())(context)(())
    if context != (1, -1):  # what Medusa's heads read ends before it
        with pytest.raises(ValueError, match=message):
            MedusaHeads.of(target, medusa_weights())(context)


def test_contexts_are_lists_too():
    target = CachedLlama(llama_of()[0])
    for head in (
        MedusaHeads.of(target, medusa_weights()),
        lambda text: EagleHead(target, eagle_weights())(text)(()),
    ):
        np.testing.assert_array_equal(head([1, 2]), head((1, 2)))


def test_a_draft_ends_where_the_target_does():
    llama, _ = llama_of(max_position_embeddings=20, bos_token_id=None)
    head = EagleHead(CachedLlama(llama), eagle_weights())
    assert head((1,) * 17).context_limit == 3
    assert EagleHead(CachedLlama(llama, sliding=True), eagle_weights())((1,) * 17).context_limit == 64


def test_the_target_runs_once_a_round(monkeypatch):
    """The states that heads read were computed when drafts were scored: only the prompt needs a pass more."""
    llama, _ = llama_of(max_position_embeddings=64)
    target = CachedLlama(llama)
    passes = []
    forward = Session.__init__.__globals__["forward"]
    monkeypatch.setitem(
        Session.__init__.__globals__, "forward", lambda *given: passes.append(1) or forward(*given)
    )
    for head in (
        draft.medusa(MedusaHeads.of(target, medusa_weights()), V, draft.model),
        draft.eagle(EagleHead(target, eagle_weights()), V, partial(draft.best_first, num_nodes=5)),
    ):
        passes.clear()
        generation = sample(
            generate, target.oracle, head, (1, 2, 3), max_new_tokens=30, verify=verify.recursive, rng=1
        )
        assert len(passes) == len(generation.rounds) + 1
        target.states((6, 6))  # leave the text


def test_an_interrupted_pass_is_done_again(monkeypatch):
    llama, plain = llama_of()
    weights = eagle_weights()
    head, formula = EagleHead(CachedLlama(llama), weights), PlainEagle(plain, weights)
    head((1, 2))(())
    product = EagleHead.__init__.__globals__["product"]

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setitem(EagleHead.__init__.__globals__, "product", broken)
    with pytest.raises(KeyboardInterrupt):
        head((1, 2, 4, 5))(())
    monkeypatch.setitem(EagleHead.__init__.__globals__, "product", product)
    np.testing.assert_allclose(head((1, 2))((4,)), softmax(formula.logits((1, 2), (4,))), atol=1e-5)
    np.testing.assert_allclose(
        head((1, 2, 4, 5))((1,)), softmax(formula.logits((1, 2, 4, 5), (1,))), atol=1e-5
    )


@pytest.mark.parametrize(("owner", "name", "after"), [(eagle, "product", False), (EagleHead, "_go_to", True)])
def test_two_threads_take_turns(owner, name, after):
    llama, plain = llama_of()
    weights = eagle_weights()
    head, formula = EagleHead(CachedLlama(llama), weights), PlainEagle(plain, weights)
    head((1, 2, 3, 4))((5,))
    asked = ((1, 2, 3, 4, 5), (6,)), ((6, 6, 6, 6, 6, 6), (2, 2))
    rows = in_between(owner, name, *(partial(head(context), path) for context, path in asked), after=after)
    for row, (context, path) in zip(rows, asked, strict=True):
        np.testing.assert_allclose(row, softmax(formula.logits(context, path)), atol=1e-5)


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda head: pickle.loads(pickle.dumps(head))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_has_read_nothing_and_shares_no_buffer(again):
    llama, plain = llama_of()
    weights = eagle_weights()
    head, formula = EagleHead(CachedLlama(llama), weights), PlainEagle(plain, weights)
    oracle = head((1, 2, 3, 4))
    oracle((5,))
    other = again(head)
    for head_of, context, path in [(other, (6, 6, 6, 6), (1,)), (head, (1, 2, 3, 4), (5, 2))]:
        np.testing.assert_allclose(head_of(context)(path), softmax(formula.logits(context, path)), atol=1e-5)


@pytest.mark.parametrize("name", sorted(eagle_weights()))
def test_every_weight_of_the_eagle_head_matters(name):
    """Negative control: the comparison sees each of them."""
    llama, plain = llama_of()
    weights = eagle_weights()
    changed = {
        **weights,
        name: weights[name] + np.float32(0.3) * np.eye(*weights[name].shape[-2:], dtype=np.float32)[0],
    }
    row = EagleHead(CachedLlama(llama), changed)((1, 2, 3))((4,))
    assert abs(row - softmax(PlainEagle(plain, weights).logits((1, 2, 3), (4,)))).max() > 1e-4


def test_logits_that_are_no_numbers_are_refused():
    weights = medusa_weights()
    weights["heads.1.lm_head.weight"][2] = np.nan
    heads = MedusaHeads.of(CachedLlama(llama_of()[0]), weights)
    with pytest.raises(ValueError, match=re.escape("the logits at context (1, 2) have nan for token 2")):
        heads((1, 2))
