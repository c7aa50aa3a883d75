"""Random Llamas of many shapes, written and computed by `transformers`, read and computed here."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from speculative.model import bundled_text, load
from speculative.model.bundle import folder_of
from speculative.model.cache import CachedLlama
from speculative.model.checkpoint import read_checkpoint, weight_shapes, write_checkpoint
from speculative.model.config import LlamaConfig, read_config
from speculative.model.llama import Llama
from speculative.model.tokenizer import read_tokenizer, write_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

BUNDLED = sorted(path.parent.name for path in folder_of("shakespeare").parent.glob("*/tokenizer.json"))
RELATIVE = 1e-4  # of the largest logit
SHAPES = {
    "a key and a value for each query": {"num_key_value_heads": 4},
    "two for each key": {"num_key_value_heads": 2},
    "four for each key": {"num_key_value_heads": 1},
    "tied": {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "wide heads": {"num_key_value_heads": 2, "head_dim": 14},
    "narrow heads": {"num_key_value_heads": 4, "head_dim": 2},
    "another base": {
        "num_key_value_heads": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
    },
    "a first token": {"num_key_value_heads": 2, "bos_token_id": 7, "rms_norm_eps": 1e-3},
    "one layer, one head": {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 6},
}


def random_model(shape, seed=0):
    """A Llama of transformers with weights large enough that attention is far from uniform."""
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": 50,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 160,
        "bos_token_id": None,
        "initializer_range": 0.3,
    }
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**sizes, **shape})).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


def as_arrays(model):
    """The weights by name in float32."""
    return {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}


def logits_of(model, tokens):
    """What `transformers` computes for each of some tokens, shape (n, V)."""
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double().numpy()


def same(logits, expected):
    """Whether logits agree, up to a constant for each row, which leaves probabilities as they are."""
    logits = logits - logits.mean(axis=-1, keepdims=True)
    expected = expected - expected.mean(axis=-1, keepdims=True)
    return np.abs(logits - expected).max() <= RELATIVE * np.abs(expected).max()


def text(length, seed=1):
    return tuple(np.random.default_rng(seed).integers(50, size=length).tolist())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_saved_models_are_read(tmp_path, shape, dtype):
    model = random_model(SHAPES[shape]).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path)
    config, weights = read_checkpoint(tmp_path)
    expected = as_arrays(model)
    assert weights.keys() == weight_shapes(config).keys()
    assert expected.keys() - weights.keys() == ({"lm_head.weight"} if config.tie_word_embeddings else set())
    for name, weight in weights.items():
        np.testing.assert_array_equal(weight, expected[name])
    for field, value in asdict(config).items():
        if field != "rope_theta":
            assert value == getattr(model.config, field)
    assert config.rope_theta == model.config.rope_parameters["rope_theta"]


@pytest.mark.parametrize("shape", ["tied", "two for each key"])
def test_shards_are_read(tmp_path, shape):
    model = random_model(SHAPES[shape])
    model.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    _, weights = read_checkpoint(tmp_path)
    for name, weight in weights.items():
        np.testing.assert_array_equal(weight, as_arrays(model)[name])


def test_absent_fields_have_the_defaults_of_transformers(tmp_path):
    sizes = {
        "model_type": "llama",
        "vocab_size": 50,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    for old in ({}, {"rope_theta": 5e4}, {"rope_scaling": {"type": "default"}, "rope_theta": 3e4}):
        (tmp_path / "config.json").write_text(json.dumps({**sizes, **old}), encoding="utf-8")
        ours, theirs = read_config(tmp_path), transformers.AutoConfig.from_pretrained(tmp_path)
        for field, value in asdict(ours).items():
            if field != "rope_theta":
                assert value == getattr(theirs, field)
        assert ours.rope_theta == theirs.rope_parameters["rope_theta"]


@pytest.mark.parametrize("rope_type", ["linear", "dynamic", "yarn", "llama3"])
def test_scaled_positions_are_refused(tmp_path, rope_type):
    rope = {"rope_type": rope_type, "rope_theta": 1e4, "factor": 2.0}
    if rope_type == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 80}
    random_model({"rope_parameters": rope}).config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=rf'rope_parameters\.rope_type is "{rope_type}": only "default" is'):
        read_config(tmp_path)


@pytest.fixture(params=SHAPES)
def pair(request, tmp_path):
    """A model of transformers, and the same one read from its folder."""
    model = random_model(SHAPES[request.param])
    model.save_pretrained(tmp_path)
    return model, CachedLlama(Llama.of(*read_checkpoint(tmp_path)))


def first(model):
    return () if model.config.bos_token_id is None else (model.config.bos_token_id,)


def test_states_and_logits_agree(pair):
    model, ours = pair
    context = text(40)
    sequence = first(model) + context
    with torch.no_grad():
        expected = model.model(torch.tensor([sequence])).last_hidden_state[0].numpy()
    states = ours.states(context)
    assert np.abs(states - expected).max() <= RELATIVE * np.abs(expected).max()
    assert same(states @ as_arrays(model)["lm_head.weight"].T, logits_of(model, sequence))


def test_rows_agree_whatever_was_asked_before(pair):
    model, ours = pair
    tokens = text(155)
    expected = logits_of(model, first(model) + tokens)[len(first(model)) :]  # row i is after tokens[: i + 1]
    for length, drafted in ((1, 0), (9, 4), (14, 0), (3, 2), (150, 5), (20, 1), (151, 0)):
        rows = ours.oracle.score(tokens[:length], tokens[length : length + drafted])
        assert same(np.log(rows), expected[length - 1 : length + drafted])


def test_trees_agree_path_by_path(pair):
    model, ours = pair
    context, nodes, parents = text(12), text(9, seed=2), (0, 0, 1, 1, 2, 5, 3, 0, 6)
    paths = [()]
    for token, parent in zip(nodes, parents, strict=True):
        paths.append((*paths[parent], token))
    for length in (5, 12, 11):
        before = first(model) + context[:length]
        rows = ours.oracle.score_tree(context[:length], nodes, parents)
        assert same(np.log(rows), np.array([logits_of(model, before + path)[-1] for path in paths]))
    branch, after = context[:11] + paths[9], text(2, seed=3)  # what a verifier may accept: its rows are moved
    expected = logits_of(model, first(model) + branch + after)
    assert same(np.log(ours.oracle.score(branch, after)), expected[-3:])


def test_the_empty_context_has_the_law_after_the_first_token(tmp_path):
    model = random_model(SHAPES["a first token"])
    model.save_pretrained(tmp_path)
    ours = CachedLlama(Llama.of(*read_checkpoint(tmp_path)))
    assert same(np.log(ours.oracle(())), logits_of(model, (7,))[-1])


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_folders_written_here_are_read_by_transformers(tmp_path, tied, dtype):
    config = LlamaConfig(50, 24, 40, 2, 4, 1, 6, 1e-4, 2e4, tied, 64, 3)
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(scale=0.4, size=shape) for name, shape in weight_shapes(config).items()}
    write_checkpoint(tmp_path, config, weights, dtype)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert isinstance(model, transformers.LlamaForCausalLM)
    assert not any(report.values())
    assert read_config(tmp_path) == config
    ours = CachedLlama(Llama.of(*read_checkpoint(tmp_path)))
    tokens = text(30)
    assert same(np.log(ours.oracle(tokens)), logits_of(model, (3, *tokens))[-1])
    other = CachedLlama(Llama.of(replace(config, rope_theta=1e4), read_checkpoint(tmp_path)[1]))
    assert not same(np.log(other.oracle(tokens)), logits_of(model, (3, *tokens))[-1])


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_folders_are_read_by_transformers(name):
    folder, ours = folder_of(name), load(name)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    assert isinstance(model, transformers.LlamaForCausalLM)
    assert not any(report.values())
    beginning = bundled_text()[:200]
    tokens = ours.tokenizer.encode(beginning)
    assert tuple(transformers.AutoTokenizer.from_pretrained(folder)(beginning)["input_ids"]) == tokens
    assert same(np.log(ours.oracle.score((), tokens)), logits_of(model, first(model) + tokens))


def test_tokenizers_written_here_are_read_by_transformers(tmp_path):
    characters = "\n !\"'(),-.:;?ABCabc"
    config = LlamaConfig(len(characters), 4, 4, 1, 1, 1, 4, 1e-5, 1e4, False, 8, 0)
    write_checkpoint(
        tmp_path, config, {name: np.ones(shape) for name, shape in weight_shapes(config).items()}
    )
    write_tokenizer(tmp_path, characters)
    ours, theirs = read_tokenizer(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    sentence = "\n\nA  cab, (a B) .\n'C' ?\n ABC abc: \n"
    assert type(theirs) is transformers.PreTrainedTokenizerFast
    assert theirs.vocab_size == len(theirs) == len(characters)
    assert tuple(theirs(sentence)["input_ids"]) == ours.encode(sentence)
    for skip_special_tokens in (False, True):
        assert theirs.decode(ours.encode(sentence), skip_special_tokens=skip_special_tokens) == sentence
    theirs.save_pretrained(tmp_path)
    assert read_tokenizer(tmp_path).decode(ours.encode(sentence)) == sentence
