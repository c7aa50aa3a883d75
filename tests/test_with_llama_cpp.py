"""Models of llama-cpp-python as oracles: on a stand-in for its `Llama` and, where it is there, on that."""

import runpy
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from speculative import draft, from_logits, generate, sample, temperature
from speculative.model.cache import CachedLlama
from speculative.model.checkpoint import read_checkpoint, weight_shapes, write_checkpoint
from speculative.model.config import LlamaConfig
from speculative.model.llama import Llama
from speculative.model.tokenizer import write_tokenizer
from speculative.model.with_llama_cpp import llama_cpp_oracle

CHARACTERS = "\n abcdefghijk"
VOCAB_SIZE = len(CHARACTERS)
BOS, LONGEST = 0, 64
CONFIG = LlamaConfig(
    vocab_size=VOCAB_SIZE,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    tie_word_embeddings=False,
    max_position_embeddings=LONGEST,
    bos_token_id=BOS,
)


class StandIn:
    """What the oracle uses of a `Llama`, without a model: logits are made of the tokens in the cache.

    `eval` and the cache do as in llama-cpp-python, where the record (`input_ids`, `n_tokens`) is kept apart
    from the cache itself (here `cells`); `test_the_stand_in_does_as_the_real_one` compares the two.
    """

    def __init__(self, *, logits_all=True, swa_full=True, metadata=(), recurrent=False):
        self.input_ids = np.zeros(LONGEST, dtype=np.intc)
        self.scores = np.full((LONGEST, VOCAB_SIZE), np.nan, dtype=np.float32)
        self.n_tokens, self.cells, self.evaluated = 0, [], []
        self.metadata, self.context_params = dict(metadata), SimpleNamespace(swa_full=swa_full)
        self._logits_all, self._ctx, self._recurrent = logits_all, self, recurrent

    def n_vocab(self):
        return VOCAB_SIZE

    def reset(self):
        self.n_tokens = 0

    def kv_cache_seq_rm(self, sequence, first, last):
        assert sequence == last == -1
        if self._recurrent and 0 < first < len(self.cells):
            return False
        del self.cells[first:]
        return True

    def eval(self, tokens):
        self.kv_cache_seq_rm(-1, self.n_tokens, -1)
        self.evaluated.append(len(tokens))
        for token in tokens:
            self.cells.append(token)
            self.input_ids[self.n_tokens] = token
            self.scores[self.n_tokens] = logits_of(self.cells)
            self.n_tokens += 1


def logits_of(tokens):
    """Other logits after every sequence, the order of its tokens included."""
    seed = sum((i + 1) * (token + 3) ** 2 for i, token in enumerate(tokens))
    return np.random.default_rng(seed).normal(size=VOCAB_SIZE)


@cache
def checkpoint():
    """A folder with a random Llama whose rows are far from uniform and from each other."""
    folder = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(scale=0.4, size=shape) if len(shape) == 2 else 1 + rng.normal(scale=0.1, size=shape)
        for name, shape in weight_shapes(CONFIG).items()
    }
    write_checkpoint(folder, CONFIG, weights, dtype="float32")
    write_tokenizer(folder, CHARACTERS)
    return folder


@cache
def gguf_file():
    script = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "write_gguf.py"))
    path = checkpoint() / "model.gguf"
    script["write_gguf"](checkpoint(), path)
    return str(path)


def real(**options):
    """The random Llama in llama.cpp, all in float32."""
    llama_cpp = pytest.importorskip("llama_cpp")
    pytest.importorskip("gguf")
    threads = {"n_threads": 1, "n_threads_batch": 1}
    options = {"logits_all": True, "n_ctx": LONGEST, "n_batch": 8, "type_k": 0, "type_v": 0} | options
    return llama_cpp.Llama(gguf_file(), verbose=False, **threads, **options)


def uncached(llama):
    """Every row from a pass of its own."""

    def logits(context):
        llama.reset()
        llama.eval((BOS, *context))
        return llama.scores[len(context)].copy()

    return from_logits(logits, VOCAB_SIZE)


def difference(rows, expected):
    assert len(rows) == len(expected)
    return max(abs(row - other).max() for row, other in zip(rows, expected, strict=True))


def tokens(max_size):
    return st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=max_size).map(tuple)


class Questions(RuleBasedStateMachine):
    """Texts grow, are cut, are left for others and come back; somebody else uses the same object."""

    make = StandIn

    @initialize()
    def start(self):
        make = type(self).make
        self.llama = make()
        self.oracle, self.uncached = llama_cpp_oracle(self.llama, bos_token_id=BOS), uncached(make())
        self.context, self.others = (), [()]

    @rule(more=tokens(5))
    def extend(self, more):
        self.context = (self.context + more)[: LONGEST - 9]

    @rule(keep=st.floats(0, 1))
    def reject(self, keep):
        self.context = self.context[: int(keep * len(self.context))]

    @rule(which=st.integers(0, 9), text=tokens(4))
    def switch(self, which, text):
        self.others += [self.context, text]
        self.context = self.others[which % len(self.others)]

    @rule(keep=st.floats(0, 1), text=tokens(3).filter(len))
    def use_otherwise(self, keep, text):
        self.llama.n_tokens = int(keep * self.llama.n_tokens)
        self.llama.eval(text[: LONGEST - self.llama.n_tokens])

    @rule()
    def row(self):
        assert difference([self.oracle(self.context)], [self.uncached(self.context)]) < 1e-5

    @rule(drafted=tokens(4), accepted=st.integers(0, 4))
    def score(self, drafted, accepted):
        rows = self.oracle.score(self.context, drafted)
        assert difference(rows, self.uncached.score(self.context, drafted)) < 1e-5
        self.extend(drafted[:accepted])

    @rule(drafted=tokens(5), data=st.data())
    def tree(self, drafted, data):
        parents = tuple(data.draw(st.integers(0, node)) for node in range(len(drafted)))
        rows = self.oracle.score_tree(self.context, drafted, parents)
        assert difference(rows, self.uncached.score_tree(self.context, drafted, parents)) < 1e-5

    @rule(seed=st.integers(0, 99))
    def decode(self, seed):
        drafter = draft.model(temperature(1.3)(self.uncached))
        old, new = (
            sample(generate, oracle, drafter, self.context, max_new_tokens=3, num_draft_tokens=2, rng=seed)
            for oracle in (self.uncached, self.oracle)
        )
        assert old.tokens == new.tokens
        self.extend(new.tokens)


class QuestionsForReal(Questions):
    make = real


TestQuestions, TestQuestionsForReal = Questions.TestCase, QuestionsForReal.TestCase
TestQuestions.settings = settings(max_examples=15, stateful_step_count=15)
TestQuestionsForReal.settings = settings(max_examples=8, stateful_step_count=15)

makers = pytest.mark.parametrize("make", [StandIn, real])


def test_a_pass_computes_only_what_is_missing():
    llama = StandIn()
    oracle = llama_cpp_oracle(llama, bos_token_id=BOS)
    oracle.score((2, 9, 4), (5, 6, 7))  # the first token, three, and three drafts
    oracle.score((2, 9, 4, 5, 8), (1, 1))  # one draft was accepted; another token and two drafts
    oracle((2, 9, 4, 5, 8, 1, 1))  # all is held: the last token again
    oracle.score_tree((2, 9), (3, 4), (0, 0))  # cut back, and two paths
    assert llama.evaluated == [7, 3, 1, 2, 2]


def test_rows_are_copies():
    llama = StandIn()
    row = llama_cpp_oracle(llama, bos_token_id=BOS)((3,))
    before = row.copy()
    llama.scores[:] = 0
    assert (row == before).all()


@makers
def test_the_longest_context_is_that_of_the_engine(make):
    llama = make()
    oracle = llama_cpp_oracle(llama, bos_token_id=BOS)
    assert oracle.context_limit == LONGEST - 1
    longest = (3,) * (LONGEST - 1)
    assert difference([oracle(longest)], [uncached(make())(longest)]) < 1e-5
    with pytest.raises(ValueError, match="over the limit of 63"):
        oracle((*longest, 3))


@makers
def test_without_a_first_token_the_context_is_all_there_is(make):
    oracle = llama_cpp_oracle(make(), bos_token_id=None)
    assert oracle.context_limit == LONGEST
    assert difference([oracle((BOS, 5))], [uncached(make())((5,))]) < 1e-5
    with pytest.raises(ValueError, match=r"an empty context, and this model has no first token"):
        oracle(())


def test_padding_is_left_out_before_the_softmax():
    oracle = llama_cpp_oracle(StandIn(), bos_token_id=BOS, vocabulary=CHARACTERS[:10])
    assert (oracle.vocab_size, oracle.vocabulary[2]) == (10, "a")
    full = uncached(StandIn())((5,))[:10]
    assert difference(oracle.score((), (5,))[1:], [full / full.sum()]) < 1e-12


def test_threads_take_turns():
    oracle, plain = llama_cpp_oracle(StandIn(), bos_token_id=BOS), uncached(StandIn())
    contexts = [(i % 5, i // 5 % 5, i // 25) for i in range(125)]
    with ThreadPoolExecutor(4) as executor:
        assert difference(list(executor.map(oracle, contexts)), list(map(plain, contexts))) < 1e-12


# Refused


@makers
def test_logits_of_the_last_position_only_are_refused(make):
    with pytest.raises(ValueError, match=r"make it with Llama\(path, logits_all=True\)$"):
        llama_cpp_oracle(make(logits_all=False), bos_token_id=None)


def test_a_cache_that_lets_go_of_what_leaves_a_window_is_refused():
    window = {"general.architecture": "gemma3", "gemma3.attention.sliding_window": "512"}
    with pytest.raises(ValueError, match=r"leaves the window of 512 tokens, .* logits_all=True, swa_full=Tr"):
        llama_cpp_oracle(StandIn(swa_full=False, metadata=window), bos_token_id=None)
    for kept in (StandIn(metadata=window), StandIn(swa_full=False)):
        assert llama_cpp_oracle(kept, bos_token_id=BOS)(()).sum() == pytest.approx(1)


def test_a_cache_that_can_not_be_cut_back_is_refused():
    oracle = llama_cpp_oracle(StandIn(recurrent=True), bos_token_id=BOS)
    oracle.score((3,), (4, 5))
    oracle((3, 4, 5, 6))  # goes on: nothing to cut
    with pytest.raises(ValueError, match=r"^the cache holds 5 positions and can't be cut back to 3: give"):
        oracle((3, 4, 6))


def test_a_first_token_and_a_vocabulary_of_another_model_are_refused():
    with pytest.raises(ValueError, match=r"^bos_token_id is -1: give a token from 0 to 12, or None"):
        llama_cpp_oracle(StandIn(), bos_token_id=-1)
    with pytest.raises(ValueError, match=r"^vocabulary has 14 strings and the model gives 13 logits"):
        llama_cpp_oracle(StandIn(), bos_token_id=BOS, vocabulary=["a"] * 14)


# The real one


@pytest.mark.parametrize("seed", range(3))
def test_the_stand_in_does_as_the_real_one(seed):
    llama, stand_in = real(), StandIn()
    from llama_cpp import llama_memory_seq_pos_max  # noqa: PLC0415 - there, where `real` has not skipped

    assert llama.n_vocab() == stand_in.n_vocab()
    assert llama.scores.shape == stand_in.scores.shape
    assert llama.input_ids.shape == stand_in.input_ids.shape
    assert llama.context_params.swa_full == stand_in.context_params.swa_full
    assert llama._logits_all == stand_in._logits_all
    rng = np.random.default_rng(seed)
    for _ in range(40):
        first = int(rng.integers(llama.n_tokens + 1))
        text = rng.integers(VOCAB_SIZE, size=rng.integers(1, 6)).tolist()
        removes = rng.random() < 0.5
        for each in (llama, stand_in):
            if removes:
                assert each._ctx.kv_cache_seq_rm(-1, first, -1)
            each.n_tokens = first
            each.eval(text[: LONGEST - first])
        assert llama.n_tokens == stand_in.n_tokens
        held = stand_in.input_ids[: stand_in.n_tokens].tolist()
        assert llama.input_ids[: llama.n_tokens].tolist() == held == stand_in.cells
        assert llama_memory_seq_pos_max(llama._ctx.memory, 0) + 1 == len(stand_in.cells)


def test_rows_are_those_of_the_numpy_model():
    oracle = llama_cpp_oracle(real(), bos_token_id=BOS)
    ours = CachedLlama(Llama.of(*read_checkpoint(checkpoint()))).oracle
    text = tuple(np.random.default_rng(1).integers(VOCAB_SIZE, size=LONGEST - 1).tolist())
    assert difference(oracle.score((), text), ours.score((), text)) < 1e-4


def test_the_file_has_a_tokenizer_of_characters():
    llama = real()
    assert llama.token_bos() == BOS
    assert llama.tokenize(b"a cab\nbed", add_bos=False) == [CHARACTERS.index(x) for x in "a cab\nbed"]
    assert llama.detokenize([2, 1, 4, 2, 3]) == b"a cab"
