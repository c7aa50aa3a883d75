import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from speculative.model.checkpoint import read_checkpoint, weight_shapes, write_checkpoint
from speculative.model.config import LlamaConfig
from speculative.model.tensors import read_tensors, write_tensors

CONFIG = LlamaConfig(11, 8, 12, 2, 4, 2, 6, 1e-5, 1e4, False, 32, 0)
TIED = replace(CONFIG, tie_word_embeddings=True)
INDEX = "model.safetensors.index.json"


def random_weights(config, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in weight_shapes(config).items()}


WEIGHTS = random_weights(CONFIG)


def one_line(*parts):
    return f"^{'.*'.join(map(re.escape, parts))}$"


def save(path, tensors, kind="F32"):
    """Write a safetensors file: the length of the header, the header, and the tensors one after another."""
    ends = np.cumsum([0, *(tensor.nbytes for tensor in tensors.values())]).tolist()
    header = {
        name: {"dtype": kind, "shape": tensor.shape, "data_offsets": ends[i : i + 2]}
        for i, (name, tensor) in enumerate(tensors.items())
    }
    encoded = json.dumps(header).encode()
    data = b"".join(tensor.tobytes() for tensor in tensors.values())
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


def save_folder(folder, tensors, config=CONFIG, kind="F32"):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config.to_json()), encoding="utf-8")
    save(folder / "model.safetensors", tensors, kind)
    return folder


def save_shards(folder, tensors, num_shards=3, placed=None):
    """Write tensors to shards, dealt out in turn, with an index."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG.to_json()), encoding="utf-8")
    file_of = {name: f"model-{i % num_shards}.safetensors" for i, name in enumerate(tensors)}
    for file in set(file_of.values()):
        save(folder / file, {name: tensors[name] for name in tensors if file_of[name] == file})
    (folder / INDEX).write_text(json.dumps({"weight_map": placed or file_of}), encoding="utf-8")
    return folder


def same(read, expected):
    assert list(read) == list(expected)
    for name, tensor in read.items():
        assert tensor.dtype == np.float32
        np.testing.assert_array_equal(tensor, expected[name])


def test_the_names_and_shapes_are_those_of_a_llama():
    shapes = weight_shapes(CONFIG)
    assert shapes["model.embed_tokens.weight"] == shapes["lm_head.weight"] == (11, 8)
    assert shapes["model.layers.1.self_attn.q_proj.weight"] == (24, 8)
    assert shapes["model.layers.1.self_attn.v_proj.weight"] == (12, 8)
    assert shapes["model.layers.1.self_attn.o_proj.weight"] == (8, 24)
    assert shapes["model.layers.1.mlp.down_proj.weight"] == (8, 12)
    assert len(shapes) == 2 * 9 + 3
    assert shapes.keys() - weight_shapes(TIED).keys() == {"lm_head.weight"}


def test_float32_is_read_as_it_is(tmp_path):
    config, weights = read_checkpoint(str(save_folder(tmp_path, WEIGHTS)))
    assert config == CONFIG
    same(weights, WEIGHTS)


def test_float16_is_widened(tmp_path):
    halves = {name: weight.astype(np.float16) for name, weight in WEIGHTS.items()}
    same(read_checkpoint(save_folder(tmp_path, halves, kind="F16"))[1], halves)


def test_bfloat16_is_widened(tmp_path):
    halves = {name: (weight.view(np.uint32) >> 16).astype(np.uint16) for name, weight in WEIGHTS.items()}
    _, weights = read_checkpoint(save_folder(tmp_path, halves, kind="BF16"))
    same(
        weights,
        {name: (weight.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, weight in WEIGHTS.items()},
    )


@pytest.mark.parametrize(("kind", "exponent"), [("F16", 5), ("BF16", 8)])
def test_every_finite_half_is_widened_exactly(tmp_path, kind, exponent):
    bits = np.arange(2**16, dtype=np.uint16)
    fraction_bits = 15 - exponent
    biased = (bits.astype(int) >> fraction_bits) & (2**exponent - 1)
    bits, biased = bits[biased < 2**exponent - 1], biased[biased < 2**exponent - 1]
    fraction = bits & (2**fraction_bits - 1)
    bias = 2 ** (exponent - 1) - 1
    magnitudes = np.ldexp(
        fraction + np.where(biased == 0, 0.0, 2.0**fraction_bits),
        np.maximum(biased, 1) - bias - fraction_bits,
    )
    save(tmp_path / "model.safetensors", {"all": bits}, kind)
    read = read_tensors(tmp_path, {"all": bits.shape})["all"]
    np.testing.assert_array_equal(np.abs(read), magnitudes)
    np.testing.assert_array_equal(np.signbit(read), bits >> 15)


@pytest.mark.parametrize("num_shards", [1, 3])
def test_shards_are_read_as_one_file_is(tmp_path, num_shards):
    same(read_checkpoint(save_shards(tmp_path, WEIGHTS, num_shards))[1], WEIGHTS)


def test_one_file_is_read_before_an_index(tmp_path):
    save_shards(tmp_path, random_weights(CONFIG, seed=1))
    same(read_checkpoint(save_folder(tmp_path, WEIGHTS))[1], WEIGHTS)


def test_rotary_frequencies_of_old_checkpoints_are_left_out(tmp_path):
    old = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(3, np.float32)}
    same(read_checkpoint(save_folder(tmp_path, WEIGHTS | old))[1], WEIGHTS)


def test_a_tied_model_has_no_output_matrix(tmp_path):
    tied = random_weights(TIED)
    same(read_checkpoint(save_folder(tmp_path, tied, TIED))[1], tied)
    twice = tied | {"lm_head.weight": tied["model.embed_tokens.weight"]}
    same(read_checkpoint(save_folder(tmp_path, twice, TIED))[1], tied)


def test_a_tied_model_with_another_output_matrix_is_refused(tmp_path):
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{tmp_path}: lm_head.weight differs from model.embed_tokens.weight, but config.json has "
            "tie_word_embeddings true: set it to false, or leave the tensor out"
        ),
    ):
        read_checkpoint(save_folder(tmp_path, WEIGHTS, TIED))


def changed(name, tensor):
    return {each: tensor if each == name else weight for each, weight in WEIGHTS.items()}


def poisoned(value):
    weight = WEIGHTS["lm_head.weight"].copy()
    weight[3, 5] = value
    return changed("lm_head.weight", weight)


NORM = "model.layers.0.input_layernorm.weight"
FAULTS = {
    "another shape": (
        changed("lm_head.weight", np.ones((10, 8), np.float32)),
        "tensor lm_head.weight has shape (10, 8): the config calls for (11, 8)",
    ),
    "turned": (
        changed("lm_head.weight", WEIGHTS["lm_head.weight"].T),
        "tensor lm_head.weight has shape (8, 11): the config calls for (11, 8)",
    ),
    "bias": (
        WEIGHTS | {"model.layers.0.self_attn.q_proj.bias": np.zeros(24, np.float32)},
        "tensor model.layers.0.self_attn.q_proj.bias is unknown: leave it out, the config calls for no such "
        "tensor",
    ),
    "NaN": (poisoned(np.nan), "tensor lm_head.weight has nan at (3, 5): only finite weights are supported"),
    "infinite": (
        poisoned(-np.inf),
        "tensor lm_head.weight has -inf at (3, 5): only finite weights are supported",
    ),
    "missing": (
        {name: weight for name, weight in WEIGHTS.items() if name != NORM},
        f"tensor {NORM} is missing: the config calls for it",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_tensors_that_do_not_fit_the_config_are_named(tmp_path, case):
    tensors, fault = FAULTS[case]
    with pytest.raises(ValueError, match=one_line(f"{tmp_path / 'model.safetensors'}: {fault}")):
        read_checkpoint(save_folder(tmp_path, tensors))


@pytest.mark.parametrize(("dtype", "kind"), [("int64", "I64"), ("float64", "F64"), ("uint8", "F8_E4M3")])
def test_numbers_of_another_type_are_refused(tmp_path, dtype, kind):
    path = tmp_path / "model.safetensors"
    save(path, {"one": np.zeros(3, dtype)}, kind)
    with pytest.raises(
        ValueError, match=one_line(f"{path}: tensor one is {kind}: only F32, F16, BF16 are supported")
    ):
        read_tensors(tmp_path, {"one": (3,)})


@pytest.mark.parametrize("length", [0, 4, 8, 100, -1])
@pytest.mark.parametrize("shards", [False, True])
def test_a_truncated_file_is_refused(tmp_path, length, shards):
    path = save_shards(tmp_path, WEIGHTS) / "model-1.safetensors"
    if shards is False:
        path = save_folder(tmp_path, WEIGHTS) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(
        ValueError, match=one_line(f"{path} is no whole safetensors file (", "): give a whole one")
    ):
        read_checkpoint(tmp_path)


def test_a_pickle_is_refused_unread(tmp_path):
    path = save_folder(tmp_path, WEIGHTS) / "model.safetensors"
    path.rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{tmp_path} has no model.safetensors, and pytorch_model.bin is a pickle, which could run code "
            "when it is read: save the model as safetensors, as save_pretrained of transformers does"
        ),
    ):
        read_checkpoint(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path):
    (save_folder(tmp_path, WEIGHTS) / "model.safetensors").unlink()
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{tmp_path} has neither model.safetensors nor {INDEX}: give a folder with one of them"
        ),
    ):
        read_checkpoint(tmp_path)


def test_a_shard_that_is_missing_is_named(tmp_path):
    (save_shards(tmp_path, WEIGHTS) / "model-2.safetensors").unlink()
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{tmp_path / 'model-2.safetensors'} is missing, but {INDEX} names it: give all files"
        ),
    ):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("placed", "file", "place"),
    [("model-0.safetensors", "model-0.safetensors", "not there"), (None, "model-2.safetensors", "there")],
)
def test_an_index_that_does_not_fit_its_files_is_refused(tmp_path, placed, file, place):
    file_of = {name: f"model-{i % 3}.safetensors" for i, name in enumerate(WEIGHTS)}
    assert file_of["lm_head.weight"] == "model-2.safetensors"
    if placed is None:
        del file_of["lm_head.weight"]
    else:
        file_of["lm_head.weight"] = placed
    save_shards(tmp_path, WEIGHTS, placed=file_of)
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{tmp_path / file}: tensor lm_head.weight is {place}, {INDEX} says otherwise: give the index "
            "and the files of one model"
        ),
    ):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "index",
    [[], {}, {"weight_map": []}, {"weight_map": {"a": 3}}, {"weight_map": {"a": "../model.safetensors"}}],
)
def test_an_index_that_is_none_is_refused(tmp_path, index):
    save_shards(tmp_path, WEIGHTS)
    (tmp_path / INDEX).write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{tmp_path / INDEX} has no weight_map from tensors to files of the folder: give the one that "
            "save_pretrained writes"
        ),
    ):
        read_checkpoint(tmp_path)


def test_an_index_of_no_files_lacks_all_tensors(tmp_path):
    save_shards(tmp_path, WEIGHTS)
    (tmp_path / INDEX).write_text('{"weight_map": {}}', encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=one_line(
            f"{tmp_path / INDEX}: tensor model.embed_tokens.weight is missing: the config calls for it"
        ),
    ):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("config", [CONFIG, TIED])
def test_what_is_written_is_read_back(tmp_path, config):
    weights = random_weights(config)
    write_checkpoint(tmp_path / "new" / "folder", config, weights, dtype="float32")
    read, read_weights = read_checkpoint(tmp_path / "new" / "folder")
    assert read == config
    same(read_weights, weights)
    write_checkpoint(str(tmp_path / "new" / "folder"), config, weights)
    same(
        read_checkpoint(tmp_path / "new" / "folder")[1],
        {name: weight.astype(np.float16) for name, weight in weights.items()},
    )


def test_a_turned_array_is_written_as_it_looks(tmp_path):
    turned = np.arange(6.0).reshape(2, 3).T
    write_tensors(tmp_path / "model.safetensors", {"turned": turned})
    same(read_tensors(tmp_path, {"turned": (3, 2)}), {"turned": turned})


@pytest.mark.parametrize(
    ("config", "weights", "dtype", "fault"),
    [
        (CONFIG, WEIGHTS, "bfloat16", 'dtype is \'bfloat16\': give "float16" or "float32"'),
        (
            replace(CONFIG, head_dim=7),
            WEIGHTS,
            "float16",
            "config: head_dim is 7: only even numbers are supported, for rotary positions",
        ),
        (
            TIED,
            WEIGHTS,
            "float16",
            "weight lm_head.weight is unknown: give those that weight_shapes(config) names",
        ),
        (
            CONFIG,
            random_weights(TIED),
            "float16",
            "weight lm_head.weight is missing: give one of shape (11, 8)",
        ),
        (
            CONFIG,
            changed(NORM, np.ones((8, 1))),
            "float16",
            f"weight {NORM} has shape (8, 1): give one of shape (8,)",
        ),
        (
            CONFIG,
            poisoned(65520.0),
            "float16",
            "tensor lm_head.weight as float16 has inf at (3, 5): only finite weights are supported",
        ),
    ],
)
def test_what_cannot_be_read_back_is_not_written(tmp_path, config, weights, dtype, fault):
    with pytest.raises(ValueError, match=one_line(fault)):
        write_checkpoint(tmp_path, config, weights, dtype)
    assert not list(tmp_path.iterdir())


def test_optional_tensors_come_last(tmp_path):
    tensors = {"b": np.ones(2, np.float32), "a": np.zeros(1, np.float32)}
    save(tmp_path / "model.safetensors", tensors)
    same(read_tensors(tmp_path, {"b": (2,)}, optional={"a": (1,), "c": (1,)}), tensors)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=5).filter(lambda name: name != "__metadata__"),
        arrays.arrays(
            np.float16,
            arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
            elements=st.floats(-65504, 65504, width=16),
        ),
        max_size=4,
    )
)
def test_tensors_of_any_name_and_shape_come_back(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("tensors")
    write_tensors(folder / "model.safetensors", tensors)
    same(read_tensors(folder, {name: tensor.shape for name, tensor in tensors.items()}), tensors)
