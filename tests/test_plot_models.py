"""Pictures of a model at work: a cache after a round, one round token by token, a text by its rounds."""

from fractions import Fraction

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from speculative import Draft, plot, rational, sample, table, verify
from speculative.decode import Round
from speculative.draft import DraftTree, Siblings, model, top
from speculative.model import Llama, LlamaConfig, weight_shapes
from speculative.model.session import Buffers, Session
from speculative.plot.cache import HEIGHTS, plot_cache
from speculative.plot.round import plot_round, plot_rounds
from speculative.plot.style import BLUE, GREY, INK, PALE, SKY, VERMILION

F = Fraction
LABELS = ["a", "b", "c", "d"]
WHITE = "#ffffff"
ROW = rational(["1/4", "1/4", "1/4", "1/4"])
TREE = DraftTree(  # below the context a, b, c; below b two more, below the second of them one
    (0, 1, 2, 3, 2, 0),
    (0, 0, 0, 2, 2, 5),
    {
        0: Siblings((1, 2, 3), (0, 1, 2), ROW, top),
        2: Siblings((4, 5), (3, 2), rational(["0", "0", "1/4", "3/4"]), top),
        5: Siblings((6,), (0,), ROW, top),
    },
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def cells(ax):
    """(position, strip) -> (what is written there, colour)."""
    colours = {
        (box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2): to_hex(box.get_facecolor())
        for box in ax.patches
        if isinstance(box, Rectangle)
    }
    written = {
        (round(text.get_position()[0]), HEIGHTS.index(text.get_position()[1])): text.get_text()
        for text in ax.texts
        if text.get_text()
    }
    found = {}
    for (x, y), colour in colours.items():
        place = round(x), int(np.argmin(np.abs(np.subtract(HEIGHTS, y))))
        assert place not in found  # nothing is drawn over something else
        found[place] = written.get(place, ""), colour
    return found


def strip(ax, number):
    """Names and colours of a strip, from left to right."""
    there = sorted((position, cell) for (position, row), cell in cells(ax).items() if row == number)
    names = "".join(name or "." for _, (name, _) in there)
    colours = {BLUE.lower(): "k", SKY.lower(): "c", PALE.lower(): "r", VERMILION.lower(): "n", WHITE: "."}
    return names, "".join(colours[colour.lower()] for _, (_, colour) in there)


def lengths(ax):
    return [line.get_xdata()[0] + 0.5 for line in ax.lines]


def arrows(ax):
    return [(note.xyann[0], note.xy[0]) for note in ax.texts if hasattr(note, "xyann") and note.arrow_patch]


# ---------------------------------------------------------------- the cache


def test_a_chain_is_kept_up_to_the_refused_draft_whose_place_is_read_anew():
    drafted = Draft((0, 1, 2, 3), (ROW,) * 4)
    ax = plot_cache((3, 2, 1), drafted, (0, 1, 3), labels=LABELS)
    assert strip(ax, 0) == ("dcbabcd.", "ccckkrr.")
    assert strip(ax, 1) == ("dcbabcd.", "ccckk...")
    assert strip(ax, 2) == ("dcbabdd.", "ccckkn..")
    assert lengths(ax) == [3, 5, 6]
    assert arrows(ax) == []
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["after the pass", "cut back", "next pass"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "context",
        "kept",
        "refused",
        "read next",
        "not counted",
    ]


def test_a_chain_kept_whole_has_its_bonus_behind_it():
    ax = plot_cache((3,), Draft((0, 1), (ROW,) * 2), (0, 1, 2), labels=LABELS)
    assert strip(ax, 0) == ("dab..", "ckk..")
    assert strip(ax, 2) == ("dabc.", "ckkn.")
    assert lengths(ax) == [1, 3, 4]


def test_the_branch_of_a_tree_moves_to_where_its_tokens_stand():
    ax = plot_cache((3, 3), TREE, (1, 2, 0, 3), labels=LABELS)
    assert strip(ax, 0) == ("ddabcdca.", "ccrkrrkk.")
    assert strip(ax, 1) == ("ddbcadca.", "cckkk....")
    assert strip(ax, 2) == ("ddbcadca.", "cckkkn...")
    assert lengths(ax) == [2, 5, 6]
    assert arrows(ax) == [(3, 2), (6, 3), (7, 4)]


def test_nothing_is_kept_behind_a_token_that_was_not_drafted():
    ax = plot_cache((3,), Draft((0, 1), (ROW,) * 2), (2, 0, 1), labels=LABELS)
    assert strip(ax, 0) == ("dab..", "crr..")
    assert strip(ax, 1) == ("dab..", "c....")
    assert strip(ax, 2) == ("dcab.", "cnnn.")
    assert lengths(ax) == [1, 1, 4]


def test_a_row_that_stands_right_is_not_moved():
    ax = plot_cache((3,), TREE, (0, 1), labels=LABELS)
    assert arrows(ax) == []
    assert strip(ax, 2) == ("dabcdca.", "ckn.....")


@pytest.mark.parametrize("emitted", [(0, 3), (1, 2, 0, 3), (1, 3, 1), (2, 0), (1, 2, 1), (3, 1)])
def test_the_cache_does_what_is_drawn(emitted):
    config = LlamaConfig(
        vocab_size=4,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=4,
        rms_norm_eps=1e-5,
        rope_theta=1e4,
        tie_word_embeddings=False,
        max_position_embeddings=32,
        bos_token_id=None,
    )
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=shape) for name, shape in weight_shapes(config).items()}
    session, context = Session(Llama.of(config, weights), Buffers(config, 32)), (3, 2, 1)
    session.read(context, TREE.tokens, TREE.parents)
    before = session.buffers.keys.copy()
    session.cut_back(context + emitted)
    ax = plot_cache(context, TREE, emitted, labels=LABELS)
    assert len(session.tokens) == lengths(ax)[1]
    assert "".join(LABELS[token] for token in session.tokens) == strip(ax, 1)[0][: len(session.tokens)]
    moved = dict(arrows(ax))
    for position in range(9):
        source = next((start for start, end in moved.items() if end == position), position)
        np.testing.assert_array_equal(session.buffers.keys[..., position], before[..., int(source)])


def test_only_the_last_of_the_context_is_shown_at_its_positions():
    ax = plot_cache(tuple(range(4)) * 5, Draft((0,), (ROW,)), (0, 1), last=3, labels=LABELS)
    assert strip(ax, 1) == ("bcda..", "ccck..")
    assert min(position for position, _ in cells(ax)) == 17
    assert lengths(ax) == [20, 21, 22]
    figure, axes = plt.subplots()
    assert plot_cache((0,), Draft((0,), (ROW,)), (1,), ax=axes) is axes
    assert strip(axes, 2) == ("01.", "cn.")
    assert plt.fignum_exists(figure.number)


def test_a_round_without_a_context_or_without_tokens_cannot_be_drawn():
    with pytest.raises(ValueError, match=r"no tokens in the context: give those of a round, one or more$"):
        plot_cache((), Draft((0,), (ROW,)), (0,))
    with pytest.raises(ValueError, match=r"no emitted tokens: give those of a round, one or more$"):
        plot_cache((0,), Draft((0,), (ROW,)), ())
    with pytest.raises(ValueError, match="last"):
        plot_cache((0,), Draft((0,), (ROW,)), (0,), last=0)


# ---------------------------------------------------------------- one round

TARGET = table({(): rational(["1/2", "1/4", "1/8", "1/8"])})
SMALL = table({(): rational(["1/8", "1/2", "1/4", "1/8"])})


def bars(ax):
    return [(bar.get_height(), to_hex(bar.get_facecolor())) for bar in ax.patches]


def test_bars_are_the_ratios_and_their_colours_what_became_of_the_tokens():
    drafted = Draft((0, 1, 2, 3), (SMALL(()),) * 4)
    ax = plot_round(drafted, [TARGET(())] * 5, (0, 1, 3), uniforms=[0.9, 0.3, 0.7], labels=LABELS)
    assert bars(ax) == [(1, BLUE.lower()), (0.5, BLUE.lower()), (0.5, VERMILION.lower()), (1, PALE.lower())]
    assert [text.get_text() for text in ax.texts] == ["1", "1/2", "1/2", "1"]
    named = [tick.get_text() for tick in ax.get_xticklabels()]
    assert named == ["a\n1/2\n1/8", "b\n1/4\n1/2", "c\n1/8\n1/4", "d\n1/8\n1/8"]
    assert [line.get_ydata()[0] for line in ax.lines] == [0.9, 0.3, 0.7]
    assert [np.mean(line.get_xdata()) for line in ax.lines] == [0, 1, 2]
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "uniform number"


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_drafts_behind_a_stop_token_are_not_judged(cut):
    """The round that the loop has cut ends in a draft: nothing was refused, in the bars and in the names."""
    drafted = Draft((0, 1, 2), (SMALL(()),) * 3)
    ax = plot_round(drafted, [TARGET(())] * 4, drafted.tokens[:cut])
    blue, pale = BLUE.lower(), PALE.lower()
    assert [colour for _, colour in bars(ax)] == [blue] * cut + [pale] * (3 - cut)
    assert [to_hex(tick.get_color()) for tick in ax.get_xticklabels()] == [blue] * cut + [GREY] * (3 - cut)


def test_the_uniforms_of_a_run_are_on_the_side_of_the_bar_that_decided():
    drafter, rng = model(SMALL), np.random.default_rng(3)
    for _ in range(20):
        drafted = sample(drafter, (), 3, rng=rng)
        again = np.random.Generator(type(rng.bit_generator)())
        again.bit_generator.state = rng.bit_generator.state
        verdict = sample(verify.token, drafted, [TARGET(())] * 4, rng=rng)
        uniforms = again.random(min(verdict.accepted + 1, 3))
        ax = plot_round(drafted, [TARGET(())] * 4, verdict.tokens, uniforms=uniforms)
        below = [
            line.get_ydata()[0] < bar.get_height() for line, bar in zip(ax.lines, ax.patches, strict=False)
        ]
        assert below == [True] * verdict.accepted + [False] * (len(uniforms) - verdict.accepted)
        plt.close("all")


def test_floats_are_written_with_three_digits_and_no_uniforms_need_be_given():
    rows = [np.array([0.00012, 0.99988])] * 2
    ax = plot_round(Draft((0,), (np.array([0.5, 0.5]),)), rows, (1,))
    assert [text.get_text() for text in ax.texts] == ["0.000"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0\n0.000\n0.500"]
    assert not ax.lines
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["accepted", "refused", "not judged"]
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_round(Draft((), ()), rows, (1,))


# ---------------------------------------------------------------- many rounds


def test_rounds_are_a_staircase_of_their_tokens():
    rounds = [
        Round((0, 1, 2), 4, 2, "residual", (F(1, 2),) * 3),
        Round((3,), 3, 0, "residual", (F(1, 2),)),
        Round((0, 1), 1, 1, "bonus", (F(1, 2),) * 2),
        Round((2,), 1, 1, "draft", (F(1, 2),)),
    ]
    ax = plot_rounds(rounds, labels=LABELS)
    blue, red, ink, pale = BLUE.lower(), VERMILION.lower(), INK, PALE.lower()
    drawn = [
        (box.get_x(), box.get_width(), round(box.get_y() + 0.45), to_hex(box.get_facecolor()))
        for box in ax.patches
        if box.get_width()
    ]
    assert drawn == [
        (0, 1, 1, blue),
        (1, 1, 1, blue),
        (2, 1, 1, red),
        (3, 1, 1, pale),
        (3, 1, 2, red),
        (4, 2, 2, pale),
        (4, 1, 3, blue),
        (5, 1, 3, ink),
        (6, 1, 4, blue),
    ]
    assert "".join(text.get_text() for text in ax.texts) == "abcdabc"
    (plain,) = ax.lines
    assert (list(plain.get_xdata()), list(plain.get_ydata())) == ([0, 4], [0.5, 4.5])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first round on top
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tokens written", "pass of the target")
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told == ["accepted draft", "residual", "bonus", "discarded draft", "plain decoding"]


def test_no_rounds_cannot_be_drawn_and_axes_given_are_used():
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_rounds([])
    _, axes = plt.subplots()
    assert plot_rounds([Round((1,), 0, 0, "bonus", (F(1),))], ax=axes) is axes
    assert [text.get_text() for text in axes.texts] == ["1"]


def test_they_are_where_the_other_pictures_are():
    assert (plot.plot_cache, plot.plot_round, plot.plot_rounds) == (plot_cache, plot_round, plot_rounds)
