import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculative.model.config import LlamaConfig, read_config

SIZES = {
    "model_type": "llama",
    "vocab_size": 65,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
FULL = {
    **SIZES,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000,
    "tie_word_embeddings": True,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
}


def read(**changes):
    return LlamaConfig.from_json({**FULL, **changes}, "config.json")


def without(field):
    return {name: value for name, value in FULL.items() if name != field}


def test_all_fields_are_read():
    assert read() == LlamaConfig(
        vocab_size=65,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rms_norm_eps=1e-5,
        rope_theta=500_000.0,
        tie_word_embeddings=True,
        max_position_embeddings=256,
        bos_token_id=0,
    )


def test_absent_fields_have_the_documented_defaults():
    config = LlamaConfig.from_json(SIZES, "config.json")
    assert config == LlamaConfig(65, 24, 40, 2, 4, 4, 6, 1e-6, 10_000.0, False, 2048, 1)


def test_null_is_the_default_where_the_architecture_says_so():
    config = read(num_key_value_heads=None, head_dim=None, rope_scaling=None, rope_parameters=None)
    assert (config.num_key_value_heads, config.head_dim) == (4, 6)
    assert read(bos_token_id=None).bos_token_id is None


def test_the_rotary_base_is_read_from_the_new_place_and_from_the_old_one():
    new = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}
    assert LlamaConfig.from_json({**SIZES, **new}, "config.json").rope_theta == 5e4
    assert LlamaConfig.from_json({**SIZES, **new, "rope_theta": 50_000}, "config.json").rope_theta == 5e4
    old = {"rope_theta": 5e4, "rope_scaling": {"type": "default", "rope_type": "default"}}
    assert LlamaConfig.from_json({**SIZES, **old}, "config.json").rope_theta == 5e4
    without_base = {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0}}
    assert LlamaConfig.from_json({**SIZES, **without_base}, "config.json").rope_theta == 1e4


def test_the_rotary_base_is_written_in_both_places():
    fields = read().to_json()
    assert fields["rope_theta"] == fields["rope_parameters"]["rope_theta"] == 5e5


def test_what_a_llama_does_not_read_is_ignored():
    assert (
        read(attention_bias=False, hidden_act="silu", torch_dtype="bfloat16", eos_token_id=[1, 2]) == read()
    )


UNSUPPORTED = [
    ({"model_type": "mistral"}, 'model_type is "mistral": only "llama" is supported'),
    ({"hidden_act": "gelu"}, 'hidden_act is "gelu": only "silu" is supported'),
    ({"attention_bias": True}, "attention_bias is true: only false is supported"),
    ({"attention_bias": 0}, "attention_bias is 0: only false is supported"),
    ({"mlp_bias": True}, "mlp_bias is true: only false is supported"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5: only 1 is supported"),
    (
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}},
        'quantization_config is {"quant_method": "gptq", "bits": 4, "group_size": 128, "d...: '
        "only null is supported",
    ),
    ({"vocab_size": "65"}, 'vocab_size is "65": only integers from 1 on are supported'),
    ({"hidden_size": 24.0}, "hidden_size is 24.0: only integers from 1 on are supported"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0: only integers from 1 to 1000 are supported"),
    (
        {"num_hidden_layers": 10**9},
        "num_hidden_layers is 1000000000: only integers from 1 to 1000 are supported",
    ),
    ({"intermediate_size": True}, "intermediate_size is true: only integers from 1 on are supported"),
    (
        {"max_position_embeddings": None},
        "max_position_embeddings is null: only integers from 1 to 1048576 are supported",
    ),
    (
        {"max_position_embeddings": 10**30},
        f"max_position_embeddings is {10**30}: only integers from 1 to 1048576 are supported",
    ),
    (
        {"num_key_value_heads": 3},
        "num_key_value_heads is 3, which does not divide num_attention_heads, 4: only equal groups of query "
        "heads are supported",
    ),
    ({"num_key_value_heads": -2}, "num_key_value_heads is -2: only integers from 1 on are supported"),
    ({"head_dim": 7}, "head_dim is 7: only even numbers are supported, for rotary positions"),
    (
        {"head_dim": None, "hidden_size": 20},
        "head_dim is 5 (hidden_size / num_attention_heads): only even numbers are supported, for rotary "
        "positions",
    ),
    ({"head_dim": "8"}, 'head_dim is "8": only integers from 1 on are supported'),
    ({"rms_norm_eps": 0}, "rms_norm_eps is 0: only positive numbers are supported"),
    ({"rms_norm_eps": float("nan")}, "rms_norm_eps is NaN: only positive numbers are supported"),
    ({"rms_norm_eps": True}, "rms_norm_eps is true: only positive numbers are supported"),
    ({"rope_theta": float("inf")}, "rope_theta is Infinity: only positive numbers are supported"),
    ({"rope_theta": "1e4"}, 'rope_theta is "1e4": only positive numbers are supported'),
    (
        {"rope_parameters": {"rope_theta": -1.0}},
        "rope_parameters: rope_theta is -1.0: only positive numbers are supported",
    ),
    (
        {"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn", "factor": 4.0}},
        'rope_parameters.rope_type is "yarn": only "default" is supported, rotary positions without scaling',
    ),
    (
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        'rope_scaling.rope_type is "llama3": only "default" is supported, rotary positions without scaling',
    ),
    (
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        'rope_scaling.type is "linear": only "default" is supported, rotary positions without scaling',
    ),
    (
        {"rope_parameters": {"partial_rotary_factor": 0.25}},
        "rope_parameters.partial_rotary_factor is 0.25: only 1 is supported, rotary positions without "
        "scaling",
    ),
    ({"rope_scaling": "linear"}, 'rope_scaling is "linear": only an object or null is supported'),
    (
        {"rope_parameters": {"rope_theta": 1e4}},
        "rope_parameters.rope_theta is 10000.0 and rope_theta is 500000.0: give one value",
    ),
    ({"tie_word_embeddings": "yes"}, 'tie_word_embeddings is "yes": only true and false are supported'),
    ({"bos_token_id": 65}, "bos_token_id is 65: only null and integers from 0 to 64 are supported"),
    ({"bos_token_id": -1}, "bos_token_id is -1: only null and integers from 0 to 64 are supported"),
    ({"bos_token_id": [1]}, "bos_token_id is [1]: only null and integers from 0 to 64 are supported"),
    ({"bos_token_id": False}, "bos_token_id is false: only null and integers from 0 to 64 are supported"),
]


@pytest.mark.parametrize(("changes", "fault"), UNSUPPORTED, ids=[fault for _, fault in UNSUPPORTED])
def test_what_is_not_supported_is_refused_in_one_line(changes, fault):
    with pytest.raises(ValueError, match=f"^{re.escape(f'config.json: {fault}')}$"):
        read(**changes)


@pytest.mark.parametrize("field", [field for field in SIZES if field != "model_type"])
def test_a_size_that_is_missing_is_named(field):
    with pytest.raises(ValueError, match=rf"^config\.json has no {field}: give an integer, 1 or more$"):
        LlamaConfig.from_json(without(field), "config.json")


def test_a_missing_model_type_is_not_guessed():
    with pytest.raises(ValueError, match=r'^config\.json has no model_type: only "llama" is supported$'):
        LlamaConfig.from_json(without("model_type"), "config.json")


def test_the_width_of_a_head_is_not_guessed():
    with pytest.raises(
        ValueError,
        match=r"^config\.json has no head_dim, and hidden_size, 26, is no multiple of num_attention_heads, "
        "4: give head_dim$",
    ):
        read(head_dim=None, hidden_size=26)


def test_something_that_is_no_object_is_refused():
    with pytest.raises(
        ValueError, match=r"^config\.json holds \[1\]: give an object with the fields of a Llama$"
    ):
        LlamaConfig.from_json([1], "config.json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda each: (
        st.lists(each, max_size=2)
        | st.dictionaries(st.sampled_from(["rope_type", "type", "rope_theta", "partial_rotary_factor"]), each)
    ),
    max_leaves=4,
)
fields = st.sampled_from([*FULL, "rope_parameters", "rope_scaling", "hidden_act", "quantization_config"])


@given(st.dictionaries(fields, values, min_size=1, max_size=3))
def test_whatever_a_field_holds_it_is_read_or_refused_in_one_line(changes):
    try:
        config = read(**changes)
    except ValueError as error:
        message = str(error)
    else:
        message = "config.json"
        assert LlamaConfig.from_json(config.to_json(), message) == config
    assert message.startswith("config.json")
    assert "\n" not in message


@st.composite
def configs(draw):
    count = st.integers(1, 10**6)
    key_value_heads, vocab_size = draw(count), draw(count)
    positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
    return LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=draw(count),
        intermediate_size=draw(count),
        num_hidden_layers=draw(st.integers(1, 1000)),
        num_attention_heads=key_value_heads * draw(count),
        num_key_value_heads=key_value_heads,
        head_dim=2 * draw(count),
        rms_norm_eps=draw(positive),
        rope_theta=draw(positive),
        tie_word_embeddings=draw(st.booleans()),
        max_position_embeddings=draw(count),
        bos_token_id=draw(st.none() | st.integers(0, vocab_size - 1)),
    )


@given(configs())
def test_what_is_written_is_read_back(config):
    assert LlamaConfig.from_json(json.loads(json.dumps(config.to_json())), "config.json") == config


def test_a_folder_without_a_file_that_holds_an_object_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"none is no folder: give one with config\.json, model\.safetensors and"
    ):
        read_config(tmp_path / "none")
    with pytest.raises(ValueError, match=r" has no config\.json: give a folder that has one$"):
        read_config(tmp_path)
    path = tmp_path / "config.json"
    for content in (b"", b'{"vocab_size": 65,', b"\xff\xfe", b"[" * 10**5):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=rf"^{re.escape(str(path))} is no JSON \(.*\): give a whole file$"
        ):
            read_config(tmp_path)
    path.write_text(json.dumps(FULL), encoding="utf-8")
    assert read_config(str(tmp_path)) == read()
