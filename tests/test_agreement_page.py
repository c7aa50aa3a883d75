"""The script that sets drafts' own quality beside their agreement with the target, and its page."""

import re
import sys
from math import log2
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import agreement  # the script that measures

from speculative.cli.trained import TRAINED
from speculative.measure import acceptance_on_text
from speculative.model import bundled_text, fit_ngram, load
from speculative.oracle import from_probs, table

TARGET = table({(): [0.5, 0.25, 0.25], (0,): [0.25, 0.25, 0.5], (1,): [0.125, 0.75, 0.125]})
DRAFT = table({(): [0.25, 0.5, 0.25], (0,): [0.25, 0.5, 0.25], (1,): [0.25, 0.5, 0.25]})
TEXTS = [agreement.Texts((0, 1), (1, 2), (1, 1)), agreement.Texts((1, 0), (0, 0), (0, 2))]


@pytest.fixture(autouse=True)
def closed():
    yield
    mpl.pyplot.close("all")


def last(oracle):
    """The oracle after the last token alone."""
    return from_probs(lambda context: oracle(context[-1:]), 3)


def test_figures_are_those_of_the_rows():
    """The draft on what was written, both on what was sampled."""
    target = from_probs(lambda context: TARGET((context[-1] % 2,)), 3)
    found = agreement.figures(
        target,
        last(table({(0,): [0.5, 0.25, 0.25], (1,): [0.5, 0.125, 0.375], (2,): [0.25, 0.25, 0.5]})),
        TEXTS,
    )
    assert found.bits.tolist() == [(-log2(0.125) - log2(0.375)) / 2, 1.0]
    assert found.acceptance.tolist() == [0.125 + 0.125 + 0.125, 0.25 + 0.25 + 0.25]
    assert found.same_choice.tolist() == [0, 0]
    same = agreement.figures(target, target, TEXTS)
    assert same.acceptance.tolist() == same.same_choice.tolist() == [1, 1]


def test_acceptance_is_what_the_library_computes():
    found = agreement.figures(last(TARGET), last(DRAFT), [agreement.Texts((0,), (1,), (0, 1, 1, 0))] * 2)
    other = acceptance_on_text(
        last(TARGET), last(DRAFT), (0, 0, 1, 1, 0), 1, start=1, batches=2
    ).acceptance.mean
    assert found.acceptance.tolist() == [other] * 2


def test_an_n_gram_is_cut_to_its_order():
    seen = []

    def row(context):
        seen.append(context)
        return np.full(3, 1 / 3)

    ngram = from_probs(row, 3)
    for order in (1, 2, 4):
        agreement.shortened(ngram, order)((0, 1, 2, 0))
    assert seen == [(), (0,), (1, 2, 0)]


def test_texts_go_on_as_the_play_and_as_the_target():
    target = from_probs(lambda context: [0, 0, 1], 3)
    held_out = [0, 1] * 200
    texts = agreement.texts_of(target, held_out, 3, seed=1)
    assert len(texts) == 3
    for prompt, written, sampled in texts:
        assert (len(prompt), len(written), sampled) == (64, 128, (2,) * 128)
        assert set(zip(prompt + written, (prompt + written)[1:], strict=False)) == {(0, 1), (1, 0)}


def made(bits, acceptance):
    return agreement.Figures(*(np.array([value - 0.5, value + 0.5]) for value in (bits, acceptance, 0.5)))


def test_tables_and_picture():
    names = ("target", *agreement.MODELS, *agreement.NGRAMS, *agreement.OTHERS, *agreement.ORDERS)
    found = {name: made(2 + i / 10, 0.9 - i / 10) for i, name in enumerate(names)}
    lines = agreement.of_drafts(found).splitlines()
    assert len(lines) == 2 + len(found)
    assert lines[2] == "| target | 2.000 ± 6.353 |  |  |"  # t(1, .975) / sqrt(2) * sqrt(1 / 2)
    assert lines[3] == "| draft | 2.100 ± 6.353 | 0.800 ± 6.353 | 0.500 ± 6.353 |"
    assert agreement.of_pairs(found).splitlines()[2:] == [
        "| draft-kl against draft | +0.100 ± 0.000 | -0.100 ± 0.000 | +0.000 ± 0.000 |",
        "| draft-tv against draft | +0.200 ± 0.000 | -0.200 ± 0.000 | +0.000 ± 0.000 |",
        "| ngram against 5gram | +0.100 ± 0.000 | -0.100 ± 0.000 | +0.000 ± 0.000 |",
    ]
    axes = agreement.picture(found)
    shown = [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == "o"]
    assert sorted(shown) == [pytest.approx([2.1 + i / 10, 0.8 - i / 10]) for i in range(10)]
    assert {text.get_text() for text in axes.texts} == {"the target", *names[1:]}


def test_the_page_has_a_place_for_all_that_is_written_and_drafts_are_those_that_ship():
    page = agreement.PAGE.read_text(encoding="utf-8")
    places = re.findall(r"<!-- (\w+) -->\n", page)
    assert sorted(places) == sorted(agreement.BLOCKS)
    assert places == re.findall(r"<!-- end of (\w+) -->", page)
    assert {*agreement.MODELS, *agreement.NGRAMS, *agreement.OTHERS} <= set(TRAINED)


def test_c23_distilling_the_bundled_draft_raises_its_agreement():
    """On KL, beyond chance. And one that knows the text by heart is better at the task, and a worse draft."""
    model = load("shakespeare")
    target, held_out = model.oracle, model.tokenizer.encode(bundled_text())[-60_000:]
    texts = agreement.texts_of(target, held_out, prompts=10, seed=3)
    by_heart = fit_ngram(held_out, order=9, vocab_size=target.vocab_size)
    of_text, distilled, knows = (
        agreement.figures(target, draft, texts)
        for draft in (load("shakespeare-draft").oracle, load("shakespeare-draft-kl").oracle, by_heart)
    )
    assert agreement.over_prompts(distilled.acceptance - of_text.acceptance).low > 0
    assert agreement.over_prompts(knows.bits - distilled.bits).high < 0
    assert agreement.over_prompts(knows.acceptance - distilled.acceptance).high < 0
