"""Models of transformers as oracles: any sequence of questions gets the rows of passes without a cache."""

import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from speculative import draft, from_logits, generate, sample, temperature, verify
from speculative.model.with_transformers import transformers_oracle

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VOCAB_SIZE = 23
BOS = 1
LONGEST = 64

SIZES = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LONGEST,
    "bos_token_id": BOS,
    "eos_token_id": None,
    "pad_token_id": None,
}
OLD_SIZES = {"vocab_size": VOCAB_SIZE, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": LONGEST}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "factor": 4.0,
    "short_factor": [1.0, 1.0],
    "long_factor": [2.0, 3.0],
    "original_max_position_embeddings": LONGEST // 4,
}
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "eager": lambda: transformers.LlamaConfig(**SIZES, attn_implementation="eager"),
    "longrope": lambda: transformers.LlamaConfig(**SIZES, rope_parameters=LONG),
    "window": lambda: transformers.MistralConfig(**SIZES, sliding_window=5),
    "learned positions": lambda: transformers.GPT2Config(**OLD_SIZES),
    "alibi": lambda: transformers.FalconConfig(
        vocab_size=VOCAB_SIZE, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, alibi=True
    ),
}
ONE_PASS = {"llama", "eager", "longrope"}


@cache
def a_model(name="llama", seed=0):
    """A random model whose rows are far from uniform and from each other."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.4)
    return model


def uncached_logits(model, tokens):
    """The logits after all of `tokens`, in a pass of its own."""
    with torch.inference_mode():
        return model(torch.tensor([tokens]), use_cache=False).logits[0, -1].double().numpy()


def uncached(model):
    return from_logits(lambda context: uncached_logits(model, (BOS, *context)), VOCAB_SIZE)


def difference(rows, expected):
    assert len(rows) == len(expected)
    return max(abs(row - other).max() for row, other in zip(rows, expected, strict=True))


def counting(model):
    """Return a list that gets the number of tokens of every pass, and what ends that."""
    sizes = []
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, arguments: sizes.append(arguments[0].shape[-1])
    )
    return sizes, hook.remove


def tokens(max_size):
    return st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=max_size).map(tuple)


class Questions(RuleBasedStateMachine):
    """Texts grow, are cut, are left for others and come back, and each may be asked about in three ways."""

    name = "llama"

    @initialize()
    def start(self):
        self.model = a_model(self.name)
        self.oracle, self.uncached = transformers_oracle(self.model, bos_token_id=BOS), uncached(self.model)
        self.context, self.others = (), [()]

    @rule(more=tokens(5))
    def extend(self, more):
        self.context += more

    @rule(keep=st.floats(0, 1))
    def reject(self, keep):
        self.context = self.context[: int(keep * len(self.context))]

    @rule(which=st.integers(0, 9), text=tokens(4))
    def switch(self, which, text):
        self.others += [self.context, text]
        self.context = self.others[which % len(self.others)]

    @rule()
    def row(self):
        assert difference([self.oracle(self.context)], [self.uncached(self.context)]) < 1e-5

    @rule(drafted=tokens(4), accepted=st.integers(0, 4))
    def score(self, drafted, accepted):
        rows = self.oracle.score(self.context, drafted)
        assert difference(rows, self.uncached.score(self.context, drafted)) < 1e-5
        self.context += drafted[:accepted]

    @rule(drafted=tokens(6), data=st.data())
    def tree(self, drafted, data):
        parents = tuple(data.draw(st.integers(0, node)) for node in range(len(drafted)))
        rows = self.oracle.score_tree(self.context, drafted, parents)
        assert difference(rows, self.uncached.score_tree(self.context, drafted, parents)) < 1e-5
        node, path = data.draw(st.integers(0, len(drafted))), ()
        while node:
            path, node = (drafted[node - 1], *path), parents[node - 1]
        self.context += path

    @rule(seed=st.integers(0, 99))
    def decode(self, seed):
        drafter = draft.model(temperature(1.3)(self.uncached))
        old, new = (
            sample(generate, oracle, drafter, self.context, max_new_tokens=3, num_draft_tokens=2, rng=seed)
            for oracle in (self.uncached, self.oracle)
        )
        assert old.tokens == new.tokens
        self.context += new.tokens


class QuestionsOfAWindow(Questions):
    name = "window"


few = settings(max_examples=6, stateful_step_count=10)
TestQuestions, TestQuestionsOfAWindow = Questions.TestCase, QuestionsOfAWindow.TestCase
TestQuestions.settings = TestQuestionsOfAWindow.settings = few

TREE = (3, 4, 5, 6, 7, 8), (0, 1, 1, 0, 4, 2)


@pytest.mark.parametrize("name", CONFIGS)
def test_rows_of_every_kind_of_model_are_those_without_a_cache(name):
    model = a_model(name)
    oracle, plain = transformers_oracle(model, bos_token_id=BOS), uncached(model)
    context = (2, 9, 4, 4, 7, 11)
    for text in (context, (*context, 3, 5), (*context, 8), context[:2], ()):
        assert difference(oracle.score(text, (5, 6)), plain.score(text, (5, 6))) < 1e-5
        assert difference(oracle.score_tree(text, *TREE), plain.score_tree(text, *TREE)) < 1e-5


@pytest.mark.parametrize("name", CONFIGS)
def test_a_tree_takes_one_pass_where_positions_are_rotary_and_nothing_is_out_of_sight(name):
    oracle = transformers_oracle(a_model(name), bos_token_id=BOS)
    sizes, end = counting(a_model(name))
    oracle.score_tree((2, 9), *TREE)
    end()
    assert len(sizes) == (1 if name in ONE_PASS else 3)


def test_a_pass_computes_only_what_is_missing():
    oracle = transformers_oracle(a_model(), bos_token_id=BOS)
    sizes, end = counting(a_model())
    oracle.score((2, 9, 4), (5, 6, 7))  # the first token, three, and three drafts
    oracle.score((2, 9, 4, 5, 8), (1, 1))  # one draft was accepted; another token and two drafts
    oracle((2, 9, 4, 5, 8, 1, 1))  # all is held: the last token again
    oracle.score_tree((2, 9, 4), (3, 4, 5), (0, 1, 0))  # cut back, and three nodes
    oracle((2, 9, 4, 3, 4, 2))  # the first path is kept
    oracle((2, 9, 4, 5, 2))  # another path is not
    end()
    assert sizes == [7, 3, 1, 4, 1, 2]


def test_without_a_first_token_the_context_is_all_there_is():
    oracle = transformers_oracle(a_model(), bos_token_id=None)
    assert oracle.context_limit == LONGEST
    assert difference([oracle((BOS, 5))], [uncached(a_model())((5,))]) < 1e-5
    with pytest.raises(ValueError, match=r"an empty context, and this model has no first token"):
        oracle(())


def test_the_longest_context_is_the_models():
    oracle = transformers_oracle(a_model(), bos_token_id=BOS)
    assert oracle.context_limit == LONGEST - 1
    longest = (3,) * (LONGEST - 1)
    assert difference([oracle(longest)], [uncached(a_model())(longest)]) < 1e-5
    with pytest.raises(ValueError, match="over the limit of 63"):
        oracle((*longest, 3))
    assert transformers_oracle(a_model("longrope"), bos_token_id=BOS).context_limit == LONGEST // 4 - 1
    endless = transformers.AutoModelForCausalLM.from_config(
        transformers.BloomConfig(vocab_size=VOCAB_SIZE, hidden_size=16, n_layer=1, n_head=2)
    )
    assert transformers_oracle(endless.eval(), bos_token_id=BOS).context_limit is None


def test_padding_is_left_out_before_the_softmax():
    oracle = transformers_oracle(a_model(), bos_token_id=BOS, vocabulary="abcdefghijklmnopqrst")
    assert (oracle.vocab_size, oracle.vocabulary[2]) == (20, "c")
    full = uncached(a_model())((5,))[:20]
    assert difference(oracle.score((), (5,))[1:], [full / full.sum()]) < 1e-5


def test_rows_follow_the_models_number_type():
    half = transformers.AutoModelForCausalLM.from_config(CONFIGS["llama"](), dtype=torch.bfloat16).eval()
    oracle = transformers_oracle(half, bos_token_id=BOS)
    rows = oracle.score_tree((2, 9), *TREE)
    assert rows[0].dtype == np.float64
    assert 0 < difference(rows, uncached(half.float()).score_tree((2, 9), *TREE)) < 1e-2


def test_a_pass_that_fails_leaves_nothing_half_done():
    def stop(*_):
        raise KeyboardInterrupt

    model = a_model()
    oracle = transformers_oracle(model, bos_token_id=BOS)
    oracle((2, 9))
    hook = (
        model.get_decoder().layers[1].register_forward_pre_hook(stop)
    )  # the first layer has its keys by then
    with pytest.raises(KeyboardInterrupt):
        oracle((2, 9, 4))
    hook.remove()
    assert difference([oracle((2, 9, 4))], [uncached(model)((2, 9, 4))]) < 1e-5


def test_threads_take_turns():
    model, inside, together = a_model(), [], []

    def enter(*_):
        inside.append(True)
        time.sleep(0.002)  # for another thread to come in
        together.append(len(inside))

    hooks = model.register_forward_pre_hook(enter), model.register_forward_hook(lambda *_: inside.clear())
    contexts = list(itertools.product(range(3), repeat=3))
    with ThreadPoolExecutor(4) as executor:
        rows = list(executor.map(transformers_oracle(model, bos_token_id=BOS), contexts))
    for hook in hooks:
        hook.remove()
    assert together == [1] * len(contexts)
    assert difference(rows, list(map(uncached(model), contexts))) < 1e-5


@pytest.mark.parametrize("tree", [False, True])
def test_greedy_decoding_gives_the_tokens_of_transformers_own_loop(tree):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES | {"max_position_embeddings": 256})
    target, small = (transformers.LlamaForCausalLM(config).eval() for _ in range(2))
    with torch.no_grad():
        for parameter, other in zip(target.parameters(), small.parameters(), strict=True):
            if parameter.ndim > 1:
                other.copy_(parameter.normal_(std=0.7) + 0.05 * torch.randn_like(parameter))
    prompt = (BOS, 5, 2, 9)
    theirs = target.generate(torch.tensor([prompt]), max_new_tokens=200, do_sample=False)[0, 4:].tolist()
    oracle, guess = (transformers_oracle(model, bos_token_id=None) for model in (target, small))
    if tree:
        drafter, rule = draft.tree(guess, (3, 2, 1), scheme=draft.top), verify.recursive
    else:
        drafter, rule = draft.model(temperature(0)(guess)), verify.token
    ours = sample(
        generate,
        temperature(0)(oracle),
        drafter,
        prompt,
        max_new_tokens=200,
        num_draft_tokens=3,
        verify=rule,
        rng=0,
    )
    assert ours.tokens == tuple(theirs)
    assert len(set(theirs)) > 5
    assert {one.accepted for one in ours.rounds} == {0, 1, 2, 3}


# Refused


def test_without_the_packages_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ModuleNotFoundError, match=r'^transformers_oracle needs torch: pip install -e "\.\[transf'
    ):
        transformers_oracle(a_model(), bos_token_id=None)


def test_what_is_no_model_in_evaluation_mode_is_refused():
    with pytest.raises(ValueError, match=r"^the model is a str: give one of transformers', such as"):
        transformers_oracle("llama", bos_token_id=None)
    model = transformers.LlamaForCausalLM(CONFIGS["llama"]()).train()
    with pytest.raises(ValueError, match=r"training mode, where dropout is at work: call model\.eval\(\)"):
        transformers_oracle(model, bos_token_id=None)


@pytest.mark.parametrize("name", ["recurrent", "no logits"])
def test_a_model_without_a_cache_that_can_be_cut_back_is_refused(name):
    if name == "recurrent":
        config = transformers.MambaConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, state_size=2)
        model = transformers.MambaForCausalLM(config)
    else:
        model = transformers.LlamaModel(CONFIGS["llama"]())
    with pytest.raises(ValueError, match=r"has no cache that can be cut back to any length: give a causal"):
        transformers_oracle(model.eval(), bos_token_id=None)


def test_a_first_token_and_a_vocabulary_of_another_model_are_refused():
    with pytest.raises(ValueError, match=r"^bos_token_id is 23: give a token from 0 to 22, or None"):
        transformers_oracle(a_model(), bos_token_id=VOCAB_SIZE)
    with pytest.raises(ValueError, match=r"^vocabulary has 24 strings and the model gives 23 logits"):
        transformers_oracle(a_model(), bos_token_id=BOS, vocabulary=["a"] * (VOCAB_SIZE + 1))
