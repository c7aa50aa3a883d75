"""`generate` on checkpoints: tiny random ones, for every drafter, and whatever may not fit."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from plain_llama import config_of, weights_of
from speculative import draft, temperature, verify
from speculative.chance import sample
from speculative.cli.account import time_line
from speculative.cli.models import drafter_for, is_checkpoint, load_checkpoint
from speculative.cli.pieces import INCOMPLETE, Pieces
from speculative.cli.run import Outcome
from speculative.cli.timing import TURNS, Stretch, Timing, measure
from speculative.cli.trained import TRAINED, Kind, Loop, kind_named, load_drafter, of_itself
from speculative.decode import Round, autoregress, stream
from speculative.model import (
    bundled_text,
    load,
    load_eagle,
    load_medusa,
    load_ngram,
    weight_shapes,
    write_checkpoint,
    write_tokenizer,
)
from speculative.model.bundle import folder_of
from speculative.model.tensors import write_tensors
from speculative.oracle import from_probs

LETTERS = ("\n", " ", *"abcdefg")
SMALL = {"seed": 1, "num_hidden_layers": 1}


@pytest.fixture
def checkpoint(tmp_path):
    """Write a tiny random Llama with one token a character, and return its folder."""

    def folder(name, vocabulary=LETTERS, *, seed=0, **sizes):
        config = config_of(**{"vocab_size": len(vocabulary), "bos_token_id": 0, **sizes})
        write_checkpoint(tmp_path / name, config, weights_of(config, seed), "float32")
        write_tokenizer(tmp_path / name, vocabulary)
        return str(tmp_path / name)

    return folder


@pytest.fixture
def heads(tmp_path):
    """Write random heads for those Llamas, and return their folder."""

    def folder(kind, name=None, *, vocab_size=9, **sizes):
        config = config_of(vocab_size=vocab_size, **sizes)
        width, rng = config.hidden_size, np.random.default_rng(7)
        if kind == "medusa":
            shapes = {
                f"heads.{i}.{layer}.weight": (size, width)
                for i in range(3)
                for layer, size in (("linear", width), ("lm_head", vocab_size))
            }
        else:
            layer = weight_shapes(replace(config, num_hidden_layers=1))
            shapes = {
                key.removeprefix("model."): shape
                for key, shape in layer.items()
                if ".layers." in key or key == "model.norm.weight"
            }
            shapes["fc.weight"] = (width, 2 * width)
        target = tmp_path / (name or kind)
        target.mkdir()
        weights = {
            key: np.float32(rng.normal(size=shape) / shape[-1] ** 0.5) for key, shape in shapes.items()
        }
        write_tensors(target / "model.safetensors", weights, "float32")
        fields = {"model_type": kind, "num_heads": 3, "intermediate_size": config.intermediate_size}
        (target / "config.json").write_text(json.dumps(fields))
        return str(target)

    return folder


@pytest.fixture
def data(run):
    """Run with --json and return what it holds."""

    def loaded(*arguments):
        result = run("generate", "--seed", "3", "--json", *arguments)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return json.loads(result.stdout)

    return loaded


@pytest.fixture
def bundle(monkeypatch, tmp_path):
    """Let the package ship what is written here."""

    def found(name):
        return tmp_path / name if str(name).startswith("shakespeare") else folder_of(name)

    monkeypatch.setattr("speculative.model.bundle.folder_of", found)
    monkeypatch.setattr("speculative.cli.models.folder_of", found)


def shown_by(run, *arguments):
    result = run("generate", "--seed", "3", *arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


TREE = "--verifier", "recursive", "--tree", "best-first:5"
WITH_WEIGHTS = [name for name, kind in TRAINED.items() if kind.shaped]


@pytest.mark.parametrize("shape", [(), TREE])
@pytest.mark.parametrize("kind", ["llama", "medusa", "eagle"])
def test_a_folder_drafts_what_the_library_drafts_from_it(data, run, checkpoint, heads, kind, shape):
    """The tokens are those of the library's own parts, put together by hand, under the same seed."""
    folder = checkpoint("target")
    other = checkpoint("small", **SMALL) if kind == "llama" else heads(kind)
    options = "abc", "--target", folder, "--drafter", other, "--tokens", "40", *shape
    found = data(*options)
    target, warp = load(folder, sliding=True), temperature(1 if shape else 0.7)
    make = partial(draft.best_first, num_nodes=5) if shape else draft.model
    if kind == "llama":
        drafter = make(warp(load(other, sliding=True).oracle))
    elif kind == "medusa":
        rows = load_medusa(target, other)
        drafter = draft.medusa(lambda context: [warp.row(row) for row in rows(context)], 9, make)
    else:
        head = load_eagle(target, other)
        drafter = draft.eagle(lambda context: warp(head(context)), 9, make)
    program = partial(
        stream, max_new_tokens=40, verify=verify.recursive if shape else verify.token, num_draft_tokens=3
    )
    warped = temperature(0.7)(target.oracle)
    rounds = list(sample(program, warped, drafter, target.tokenizer.encode("abc"), rng=3))
    assert found["text"] == "".join(target.tokenizer.decode(one.tokens) for one in rounds)
    assert [one["accepted"] for one in found["rounds"]] == [one.accepted for one in rounds]
    assert found["accepted"] > 0
    assert (found["tokens_per_target_pass"]["expected"] is None) == bool(shape)
    shown = shown_by(run, *options)
    assert f"a round by {other}, " in shown
    assert f"target {folder}, 4,208 weights, temperature(0.7); " in shown
    assert "Were a draft pass" not in shown


def test_one_warp_goes_to_both(data, checkpoint):
    """C8: as its own draft a model is always right, under any warp."""
    folder = checkpoint("target")
    warps = "--temperature", "0.5", "--top-k", "3", "--top-p", "0.9"
    found = data("abc", "--target", folder, "--drafter", folder, "--tokens", "30", *warps)
    assert found["accepted"] == found["drafted"] > 0
    assert found["models"].endswith("temperature(0.5), top_k(3), top_p(0.9)")


@pytest.mark.parametrize("tree", ["best-first:6", "2,2:top"])
@pytest.mark.parametrize("kind", ["llama", "medusa", "eagle"])
def test_the_most_probable_tokens_are_a_tree_at_any_temperature(data, checkpoint, heads, kind, tree):
    """Of a draft with temperature 0 there would be a chain, one token with any probability at each place."""
    other = checkpoint("small", **SMALL) if kind == "llama" else heads(kind)
    options = "abc", "--target", checkpoint("target"), "--drafter", other, "--tokens", "6", *TREE[:3], tree
    found = data(*options, "--temperature", "0")
    assert found["rounds"][0]["drafted"] == 6
    greedy = data(*options[:-4], "--temperature", "0")
    assert found["text"] == greedy["text"]


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
@pytest.mark.parametrize("warp", [("--top-k", "1"), ("--temperature", "0"), ("--temperature", "3")])
def test_the_law_of_heads_is_warped_as_the_targets(data, checkpoint, heads, kind, warp):
    """Accepted as often as their declared laws say: unwarped draws would be off by many errors."""
    options = "--target", checkpoint("target"), "--drafter", heads(kind), "--tokens", "300"
    found = data("abc", *options, *warp)
    for one in (found["tokens_per_target_pass"], *found["acceptance_by_position"]):
        assert one["measured"] == pytest.approx(one["expected"], abs=4 * one["error"] + 1e-9)


@pytest.mark.parametrize("drafter", ["lookup", "suffix", "lookahead", "llama", "medusa", "eagle"])
def test_at_temperature_0_the_text_is_that_of_the_target_alone(data, checkpoint, heads, drafter):
    """Longer than the model's 24 positions, so that its window moves on."""
    folder = checkpoint("target")
    written = {"llama": lambda: checkpoint("small", **SMALL), "medusa": lambda: heads("medusa")}
    name = written.get(drafter, lambda: heads("eagle") if drafter == "eagle" else drafter)()
    found = data("abc", "--target", folder, "--drafter", name, "--tokens", "80", "--temperature", "0")
    target = load(folder, sliding=True)
    greedy = temperature(0)(target.oracle)
    alone = sample(autoregress, greedy, target.tokenizer.encode("abc"), max_new_tokens=80, rng=0)
    assert found["text"] == target.tokenizer.decode(alone.tokens)
    assert found["verifier"] == ("recursive" if drafter == "lookahead" else "token")
    assert found["drafted"] > 0
    if drafter == "llama":  # which has no more positions than the target; at the end fewer are asked for
        assert all(one["drafted"] == 3 for one in found["rounds"][:-3])


def test_lookahead_says_what_it_drafts(run, checkpoint):
    options = "--target", checkpoint("target"), "--drafter", "lookahead", "--tokens", "20", "--seed", "1"
    shown = shown_by(run, *options)
    assert "; a tree of guesses a round by lookahead, at most 3 deep, recursive verification" in shown


def test_lookahead_reads_the_pass_that_the_round_before_has_made():
    passes = []

    def score_tree(context, tokens, parents):
        passes.append(context)
        return np.full((1 + len(tokens), 3), 1 / 3)

    oracle = from_probs(lambda context: score_tree(context, (), ())[0], 3, score_tree=score_tree)
    loop = of_itself(oracle, temperature(0.5), draft.model)
    program = partial(stream, max_new_tokens=30, num_draft_tokens=3, verify=verify.recursive)
    assert len(list(sample(program, *loop, (0,), rng=0))) == len(passes)


def test_times_are_those_of_another_text_by_a_fresh_drafter(data, checkpoint, monkeypatch):
    """Of the same text caches would know rows, and lookahead its n-grams."""
    given = []

    def measured(make, context, num_tokens, **options):
        given.append((make, options))
        return measure(make, context, num_tokens, **options)

    def made(*arguments):
        given.append(of_itself(*arguments))
        return given[-1]

    monkeypatch.setattr("speculative.cli.run.measure", measured)
    monkeypatch.setitem(TRAINED, "lookahead", Kind("target", lambda _: made))
    data("abc", "--target", checkpoint("target"), "--drafter", "lookahead", "--tokens", "9")
    first, (_, options), *timed = given
    assert len({id(loop.drafter) for loop in (first, *timed)}) == 1 + len(timed) > 2
    assert options["seed"] != 3
    assert options["verify"] is verify.recursive


def test_the_drafter_of_a_folder_is_one_that_fits_any(data, checkpoint):
    found = data("--target", checkpoint("target"), "--tokens", "12")
    assert (found["drafter"], found["prompt"]) == ("suffix", "")
    assert drafter_for("shakespeare") == drafter_for("ngram") == drafter_for("a.py:b") == "ngram"


def test_a_drafter_of_the_users_own(data, checkpoint, write):
    source = (
        "from speculative import Draft, point_mass\n"
        "def always_a(chance, context, num_draft_tokens): return Draft((2,), (point_mass(2, 9),))\n"
    )
    where = f"{write('drafters.py', source)}:always_a"
    found = data("--target", checkpoint("target"), "--drafter", where, "--tokens", "40")
    assert 0 < found["accepted"] < found["drafted"]
    assert max(one["drafted"] for one in found["rounds"]) == 1


def ngram(folder, vocabulary):
    """One row for all contexts, the later the token the more probable."""
    folder.mkdir()
    config = {"model_type": "ngram", "vocabulary": vocabulary}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokens = np.arange(len(vocabulary))
    probs = (1 + tokens) / sum(1 + tokens)
    entries = {"entries": [len(tokens)], "entry_tokens": tokens, "entry_roots": np.rint(255 * probs**0.5)}
    tensors = {"children": [0], "tokens": [0], **entries}
    save_file(
        {name: np.array(each, dtype=np.uint8) for name, each in tensors.items()}, folder / "model.safetensors"
    )
    return folder


@pytest.mark.usefixtures("bundle")
class TestBundled:
    """The names, on stand-ins with the same vocabulary."""

    @pytest.fixture(autouse=True)
    def _ship(self, checkpoint, heads, tmp_path):
        vocabulary = sorted({*bundled_text(), "Z", "z"})
        checkpoint("shakespeare", vocabulary)
        for seed, name in enumerate(("draft", "draft-kl", "draft-tv"), 1):
            checkpoint(f"shakespeare-{name}", vocabulary, seed=seed, num_hidden_layers=1)
        for kind in ("medusa", "eagle"):
            heads(kind, f"shakespeare-{kind}", vocab_size=len(vocabulary))
        for name in ("ngram", "neural", "5gram"):
            ngram(tmp_path / f"shakespeare-{name}", vocabulary)

    def test_the_default(self, data):
        found = data("--tokens", "12")
        assert found["models"].startswith("target shakespeare, ")
        assert (found["drafter"], found["verifier"], found["draft_tokens"]) == ("ngram", "token", 3)
        assert (found["prompt"], found["drafts"]) == ("MACBETH:\n", "3 drafts a round by ngram")
        timing = found["timing"]
        assert timing["tokens"] == 5 * TURNS  # the most that are measured on here
        assert len(timing["speedup_by_stretch"]) == TURNS
        assert timing["speedup"] == timing["seconds_per_token_alone"] / timing["seconds_per_token"]

    @pytest.mark.parametrize("name", WITH_WEIGHTS)
    def test_every_name_has_its_own_drafter(self, data, tmp_path, name):
        named = data("--drafter", name, "--tokens", "12")
        by_folder = data("--drafter", str(tmp_path / f"shakespeare-{name}"), "--tokens", "12")
        assert named["rounds"] == by_folder["rounds"]
        fewer = "at most " if name in ("medusa", "eagle") else ""
        assert named["drafts"] == f"{fewer}3 drafts a round by {name}"

    def test_the_ngram_is_the_distilled_one(self):
        target, ngram = load("shakespeare"), load_ngram()
        loop = load_drafter("ngram", target)(target.oracle, temperature(1), draft.model)
        context = target.tokenizer.encode("MACB")
        assert sample(loop.drafter, context, 1, rng=0).probs[0] == pytest.approx(ngram(context))


def test_a_name_goes_before_a_folder_of_that_name(tmp_path, monkeypatch, checkpoint):
    """And ./NAME, or a Path, is the folder."""
    for name in ("draft", "shakespeare", "ngram"):
        checkpoint(name)
    monkeypatch.chdir(tmp_path)
    assert kind_named("draft") is TRAINED["draft"]
    assert kind_named("./draft").load.args == (Path("draft"),)
    assert folder_of("shakespeare") != Path("shakespeare")
    assert folder_of("./shakespeare") == folder_of(Path("shakespeare")) == Path("shakespeare")
    assert load_checkpoint("./shakespeare", "suffix").description == "target ./shakespeare, 4,208 weights"
    assert load_checkpoint("shakespeare", "suffix").description.startswith("target shakespeare, ")
    assert not is_checkpoint("ngram")
    assert is_checkpoint("./ngram")


class TestRefused:
    """One line on stderr and nothing else."""

    @pytest.fixture
    def refused(self, run):
        def line(*arguments):
            result = run("generate", "--tokens", "9", *arguments)
            assert (result.exit_code, result.stdout) == (2, "")
            assert result.stderr.startswith("speculative generate: ")
            assert result.stderr.count("\n") == 1
            return result.stderr.removeprefix("speculative generate: ")

        return line

    @pytest.fixture
    def target(self, checkpoint):
        return checkpoint("target")

    @pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
    def test_a_folder_without_a_file(self, refused, target, checkpoint, tmp_path, file):
        other = checkpoint("other")
        (tmp_path / "other" / file).unlink()
        for line in (refused("--target", other), refused("--target", target, "--drafter", other)):
            assert re.match(rf"--(target|drafter) {other}: ", line)
            assert file in line

    def test_a_tokenizer_whose_package_is_missing(self, refused, target, checkpoint, tmp_path, monkeypatch):
        other = checkpoint("other")
        (tmp_path / "other" / "tokenizer.json").write_text("{}")
        monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
        for line in (refused("--target", other), refused("--target", target, "--drafter", other)):
            assert "needs the tokenizers package: pip install" in line

    def test_a_drafter_with_other_tokens(self, refused, target, checkpoint):
        fewer = checkpoint("fewer", LETTERS[:-1])
        assert refused("--target", target, "--drafter", fewer) == (
            f"--drafter {fewer}: the target has 9 tokens and the draft 8: give a draft with the target's "
            "vocabulary\n"
        )
        others = checkpoint("others", (*LETTERS[:-1], "h"))
        line = refused("--target", target, "--drafter", others)
        assert line.startswith(f"--drafter {others}: token 8 is 'g' to the target and 'h' to the draft")

    def test_the_bundled_ngram_has_other_tokens(self, refused, target):
        line = refused("--target", target, "--drafter", "ngram")
        assert line == (
            "--drafter ngram: the target has 9 tokens and the draft 65: give a draft with the target's "
            "vocabulary\n"
        )

    @pytest.mark.parametrize("kind", ["medusa", "eagle"])
    def test_heads_of_another_width(self, refused, target, heads, kind):
        other = heads(kind, hidden_size=32)
        line = refused("--target", target, "--drafter", other)
        assert line.startswith(f"--drafter {other}: ")
        assert "has shape" in line

    @pytest.mark.parametrize("fields", ["[]", "{}", "no"])
    def test_a_folder_that_does_not_say_what_it_is(self, refused, target, tmp_path, fields):
        (tmp_path / "strange").mkdir()
        (tmp_path / "strange" / "config.json").write_text(fields)
        line = refused("--target", target, "--drafter", str(tmp_path / "strange"))
        assert line.startswith(f"--drafter {tmp_path / 'strange'}: ")
        assert "config.json" in line

    def test_weights_that_are_not_there(self, refused, target, monkeypatch):
        """Each name that needs some, in a package that ships none."""

        def absent(name):
            if str(name).startswith("shakespeare"):
                raise ValueError(f"{name!r} is neither a bundled model nor a folder: give one")
            return folder_of(name)

        monkeypatch.setattr("speculative.model.bundle.folder_of", absent)
        for name in WITH_WEIGHTS:
            line = refused("--target", target, "--drafter", name)
            assert line.startswith(f"--drafter {name}: 'shakespeare-{name}' is neither a bundled model nor a")

    def test_own_code_without_that_function(self, refused, target, write):
        where = f"{write('drafters.py', 'def one(chance, context, num_draft_tokens): pass')}:two"
        line = refused("--target", target, "--drafter", where)
        assert line.startswith(f"'{where}': no function 'two' in ")

    def test_heads_as_a_target(self, refused, heads):
        line = refused("--target", heads("eagle"))
        assert "model_type" in line

    def test_a_character_that_the_target_has_no_token_for(self, refused, target):
        assert refused("abz", "--target", target) == (
            "the prompt has 'z' at position 2, which the target has no token for: leave it out\n"
        )

    def test_no_prompt_where_nothing_begins_a_text(self, refused, checkpoint):
        line = refused("--target", checkpoint("bare", bos_token_id=None))
        assert "an empty context, and this model has no first token" in line
        assert line.endswith("give one token or more\n")


class TestSubwords:
    """Characters of several tokens each: bytes."""

    @pytest.fixture
    def folder(self, checkpoint, tmp_path):
        """One token a byte."""
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE({spelled: i for i, spelled in enumerate(alphabet)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        folder = checkpoint("bytes", [chr(i + 200) for i in range(256)], bos_token_id=None)
        tokenizer.save(f"{folder}/tokenizer.json")
        return folder

    def test_the_text_is_that_of_all_tokens_together(self, run, data, folder):
        options = "Müßig €5", "--target", folder, "--drafter", "suffix", "--tokens", "200"
        found = data(*options)
        tokenizer = load(folder).tokenizer
        target = load(folder, sliding=True).oracle
        program = partial(stream, max_new_tokens=200, num_draft_tokens=3)
        context = tokenizer.encode("Müßig €5")
        assert len(context) == 12
        drafter = draft.suffix(256, vocabulary=target.vocabulary)
        rounds = list(sample(program, temperature(0.7)(target), drafter, context, rng=3))
        tokens = sum((one.tokens for one in rounds), ())
        assert found["prompt"] == "Müßig €5"
        assert found["prompt"] + found["text"] == tokenizer.decode(context + tokens)
        assert len(found["text"]) < 200
        pieces = [piece for one in found["rounds"] for piece in one["tokens"]]
        assert "" in pieces
        assert found["text"].startswith("".join(pieces))
        shown = run("generate", *options, "--seed", "3").stdout
        assert "Müßig €5" in shown

    def test_a_run_that_ends_inside_a_character(self, run, data, folder):
        """Its beginning is shown as the decoder writes it; at temperature 0 a shorter run is a beginning."""
        options = "ab", "--target", folder, "--temperature", "0"
        pieces = [piece for one in data(*options, "--tokens", "40")["rounds"] for piece in one["tokens"]]
        shown = run("generate", *options, "--tokens", str(1 + pieces.index(""))).stdout
        assert any(f"{before}\ufffd{after}\n" in shown for before, after in ("[]", "{}", "<>"))


class TestPieces:
    @staticmethod
    def pieces(tokens, decode):
        pieces = Pieces(decode)
        return [pieces.add(token) for token in tokens], pieces.rest()

    @given(st.lists(st.sampled_from([*"aé€😀�".encode(), 0xFF, 0xC3, 0x20]), max_size=30))
    def test_bytes_in_any_order(self, tokens):
        """Of whole characters each comes with its last byte; what is none comes as the decoder writes it."""

        def decode(tokens):
            return bytes(tokens).decode(errors="replace")

        pieces, rest = self.pieces(tokens, decode)
        assert "".join(pieces) + rest == decode(tokens)
        assert not any(piece.endswith(INCOMPLETE) for piece in pieces)

    def test_whole_characters(self):
        pieces, rest = self.pieces("é€a".encode(), lambda tokens: bytes(tokens).decode(errors="replace"))
        assert (pieces, rest) == (["", "é", "", "", "€", "a"], "")

    def test_words_whose_spaces_are_left_out_at_the_beginning(self):
        words = ["▁to", "▁be", "", "▁", "or"]

        def decode(tokens):
            return "".join(words[token] for token in tokens).replace("▁", " ").removeprefix(" ")

        pieces, rest = self.pieces([0, 1, 2, 3, 4, 1], decode)
        assert (pieces, rest) == (["to", " be", "", " ", "or", " be"], "")

    def test_a_long_text_takes_no_longer(self):
        most = []

        def decode(tokens):
            most.append(len(tokens))
            return "x" * len(tokens)

        assert self.pieces(range(1000), decode) == (["x"] * 1000, "")
        assert max(most) == 2


class TestTiming:
    """Both ways in turns."""

    @staticmethod
    def of(num_tokens, context=(0,), context_limit=None, asked=None):
        def row(context):
            if asked is not None:
                asked.append(context)
            return np.full(3, 1 / 3)

        oracle = from_probs(row, 3, context_limit=context_limit)
        return measure(
            lambda: Loop(oracle, draft.model(oracle)),
            context,
            num_tokens,
            seed=1,
            num_draft_tokens=2,
            verify=verify.token,
        )

    @pytest.mark.parametrize(("num_tokens", "measured"), [(1, 3), (5, 15), (900, 1200)])
    def test_as_many_tokens_as_were_generated_up_to_a_bound_some_times_over(self, num_tokens, measured):
        timing = self.of(num_tokens)
        assert timing.tokens == measured
        assert len(timing.stretches) == TURNS == 3

    def test_it_ends_at_a_context_limit_and_where_it_takes_long(self, monkeypatch):
        assert self.of(80, context_limit=40).tokens == 3 * 40
        monkeypatch.setattr("speculative.cli.timing.ENOUGH", 0)
        assert len(self.of(80).stretches) == 1

    @pytest.mark.parametrize("context", [(), (2,), (2, 0, 1)])
    def test_the_prompt_but_for_its_last_token_is_read_before(self, context):
        """A prompt of one token has nothing before it: the law of an empty context is not asked for."""
        asked = []
        self.of(3, context=context, asked=asked)
        assert min(map(len, asked)) == max(0, len(context) - (len(context) > 1))

    @pytest.mark.parametrize(
        ("stretches", "said"),
        [
            (
                ((10, 1.0, 3.0), (30, 3.0, 3.0)),
                "1.50 times as fast (1.00 to 3.00), 5.00 s saved on 100 tokens.",
            ),
            (
                ((20, 2.0, 1.0), (20, 2.0, 1.0)),
                "0.50 times as fast (0.50 to 0.50), 5.00 s lost on 100 tokens.",
            ),
            (((10, 1.0, 2.0),), "2.00 times as fast, 10.00 s saved on 100 tokens."),
        ],
    )
    def test_what_is_said_of_them(self, stretches, said):
        timing = Timing(tuple(Stretch(*one) for one in stretches))
        rounds = (Round((0, 0), 1, 1, "bonus", (1, 1)),) * 50
        assert time_line(Outcome(rounds, None, [], 50, 1.0, timing)).endswith(f" by plain decoding: {said}")
        assert time_line(Outcome(rounds, None, [], 50, 1.0, timing)).startswith("100.000 ms a token, and ")

    def test_the_figures(self):
        timing = Timing((Stretch(10, 1.0, 3.0), Stretch(30, 3.0, 3.0)))
        assert (timing.tokens, timing.per_token, timing.per_token_alone) == (40, 0.1, 0.15)
        assert timing.speedup == pytest.approx(1.5)
        assert timing.by_stretch == [3.0, 1.0]
