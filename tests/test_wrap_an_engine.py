"""The page on engines: each section's code runs, in order, where the engine is installed."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from speculative.model.checkpoint import weight_shapes, write_checkpoint
from speculative.model.config import LlamaConfig
from speculative.model.text import Characters, bundled_text
from speculative.model.tokenizer import write_tokenizer

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to" / "wrap-an-engine.md").read_text(encoding="utf-8")


def code_of(section):
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL).group(1)
    return "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


@pytest.fixture
def my_model(tmp_path, monkeypatch):
    """A random Llama with one token a character, where the page looks for it."""
    monkeypatch.chdir(tmp_path)
    vocabulary = Characters.of(bundled_text()).vocabulary
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rms_norm_eps=1e-5,
        rope_theta=10_000.0,
        tie_word_embeddings=False,
        max_position_embeddings=256,
        bos_token_id=0,
    )
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(scale=0.4, size=shape) for name, shape in weight_shapes(config).items()}
    write_checkpoint("my-model", config, weights)
    write_tokenizer("my-model", vocabulary)


def printed_by(code):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    return printed.getvalue()


@pytest.mark.usefixtures("my_model")
def test_transformers():
    pytest.importorskip("transformers")
    printed = printed_by(code_of("transformers") + code_of("Any other engine"))
    assert re.fullmatch(r".+ in \d+ passes\nTrue\n", printed, re.DOTALL)


@pytest.mark.usefixtures("my_model")
def test_llama_cpp():
    pytest.importorskip("llama_cpp")
    pytest.importorskip("gguf")
    assert "python examples/write_gguf.py my-model my-model.gguf\n" in PAGE
    runpy.run_path(str(ROOT / "examples" / "write_gguf.py"))["write_gguf"]("my-model", "my-model.gguf")
    printed = printed_by(code_of(r"llama\.cpp") + code_of("Any other engine"))
    assert re.fullmatch(r".+ in \d+ passes\n", printed, re.DOTALL)


def test_there_is_code_in_each_section_that_has_an_engine():
    assert all(code_of(section) for section in ("transformers", r"llama\.cpp", "Any other engine"))
