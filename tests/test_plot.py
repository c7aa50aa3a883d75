"""What the pictures draw: the lines, bars, marks and words, read back from the Axes."""

import importlib
import sys
from fractions import Fraction
from itertools import combinations

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from speculative import Draft, bound, law, paths, plot, rational, residual, sample, table, verify
from speculative.cost import best_num_draft_tokens, break_even_cost, speedup
from speculative.draft import DraftTree, Siblings, independent, tree, without_replacement
from speculative.measure import Estimate
from speculative.roofline import Hardware, Model, break_even_batch, speedup_at_batch

F = Fraction
TARGET, DRAFT = rational(["1/2", "3/10", "1/5"]), rational(["1/5", "3/10", "1/2"])
MODEL, MACHINE = Model(10, 2), Hardware(bandwidth=2, flops=10)
LABELS = ["the", "a", "cat"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def lines(ax):
    """Label of each labelled line -> its points."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in ax.lines
        if not line.get_label().startswith("_")
    }


def texts(ax):
    return [text.get_text() for text in ax.texts]


def marks(ax):
    """Points drawn as a white ring."""
    return [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in ax.lines
        if line.get_markerfacecolor() == "white"
    ]


def overlapping(ax):
    ax.figure.canvas.draw()
    boxes = [(text.get_text(), text.get_window_extent()) for text in ax.texts]
    boxes += [(text.get_text(), text.get_window_extent()) for text in ax.get_xticklabels()]
    return [(one, other) for (one, box), (other, across) in combinations(boxes, 2) if box.overlaps(across)]


def test_overlapping_words_are_noticed():
    _, ax = plt.subplots()
    ax.set_xticks([])
    ax.text(0.5, 0.5, "one")
    ax.text(0.5, 0.9, "other")
    assert overlapping(ax) == []
    ax.text(0.51, 0.51, "across")
    assert overlapping(ax) == [("one", "across")]


def step(chance):
    drafted = chance.pick(DRAFT)
    if chance.flip(min(1, TARGET[drafted] / DRAFT[drafted])):
        return drafted
    return chance.pick(residual(TARGET, DRAFT))


def whole_round(chance):
    drafted = chance.pick(DRAFT)
    return verify.token(chance, Draft((drafted,), (DRAFT,)), [TARGET, TARGET])


# ---------------------------------------------------------------- speedup


def test_speedup_lines_are_the_formula_and_the_best_length_is_marked():
    ax = plot.plot_speedup([F(3, 4), F(1, 2), F(1, 20)], F(1, 9), max_draft_tokens=8)
    drawn = lines(ax)
    for acceptance in (F(3, 4), F(1, 2), F(1, 20)):
        expected = [float(speedup(acceptance, length, F(1, 9))) for length in range(1, 9)]
        assert drawn[f"acceptance {acceptance}"] == (list(range(1, 9)), expected)
    best = [best_num_draft_tokens(acceptance, F(1, 9)) for acceptance in (F(3, 4), F(1, 2))]
    assert marks(ax) == [(one.num_draft_tokens, float(one.speedup)) for one in best]
    assert {"2.11x", "acceptance 3/4", "plain decoding"} <= set(texts(ax))
    assert ax.get_xlabel() == "drafted tokens per round"
    assert ax.get_ylabel() == "speedup over plain decoding"
    assert ax.get_title(loc="left") == "a draft pass costs 1/9 target passes"
    assert ax.get_ylim()[0] == 0
    assert overlapping(ax) == []


def test_the_best_length_shown_is_the_best_that_is_allowed():
    assert marks(plot.plot_speedup(0.9, 0, max_draft_tokens=4)) == [(4, speedup(0.9, 4, 0))]
    assert marks(plot.plot_speedup(0.1, 0.5)) == []


def test_colours_and_axes_are_distinct_and_given_ones_are_used():
    figure, (first, second) = plt.subplots(ncols=2)
    assert plot.plot_speedup([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 0.1, ax=second) is second
    assert not first.lines
    colours = [line.get_color() for line in second.lines if not line.get_label().startswith("_")]
    assert len(set(colours)) == 6
    assert plt.get_fignums() == [figure.number]
    assert plot.plot_speedup(0.5, 0.1).figure is not figure


def test_speedup_map_is_white_where_it_does_not_pay():
    ax = plot.plot_speedup_map(max_cost=F(1, 2))
    acceptances, costs = lines(ax)["acceptance = cost"]
    assert acceptances == costs
    assert set(lines(ax)) == {"acceptance = cost"}
    assert ax.get_xlim() == (0, 1)
    assert ax.get_ylim() == (0, 0.5)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("acceptance", "cost of a draft pass, in target passes")
    assert ax.get_title(loc="left") == "speedup, best draft length"
    assert {"1.25x", "2x", "4x", "does not pay"} <= set(texts(ax))
    white = ax.collections[-1].get_paths()[0]
    assert white.contains_point((0.2, 0.3))
    assert not white.contains_point((0.3, 0.2))


def test_speedup_map_contours_lie_where_the_formula_says():
    ax = plot.plot_speedup_map(num_draft_tokens=3)
    contours = next(
        each for each in ax.collections if list(getattr(each, "levels", [])) == [1.25, 1.5, 2, 2.5, 3, 4, 6]
    )
    for level, path in zip(contours.levels, contours.get_paths(), strict=True):
        for acceptance, cost in path.vertices:
            assert float(speedup(float(acceptance), 3, float(cost))) == pytest.approx(level, rel=2e-3)
    acceptances, costs = lines(ax)["break-even with 3 draft tokens"]
    assert costs == [break_even_cost(float(acceptance), 3) for acceptance in acceptances]
    assert ax.get_title(loc="left") == "speedup, 3 draft tokens"
    white = ax.collections[-1].get_paths()[0]
    assert white.contains_point((0.5, 0.4))
    assert not white.contains_point((0.5, 0.2))


def test_speedup_map_takes_the_best_length_at_each_point():
    ax = plot.plot_speedup_map(limit=5)
    contours = next(
        each for each in ax.collections if list(getattr(each, "levels", [])) == [1.25, 1.5, 2, 2.5, 3, 4, 6]
    )
    vertices = contours.get_paths()[2].vertices
    assert len(vertices) > 20
    for acceptance, cost in vertices:
        best = best_num_draft_tokens(float(acceptance), float(cost), limit=5)
        assert float(best.speedup) == pytest.approx(2, rel=2e-3)


# ---------------------------------------------------------------- roofline


def test_c22_roofline_marks_the_batch_from_which_it_stops_paying():
    ax = plot.plot_roofline(F(4, 5), [2, 3], F(1, 10), MODEL, MACHINE)
    ends = [break_even_batch(F(4, 5), length, F(1, 10), MODEL, MACHINE) for length in (2, 3)]
    assert set(lines(ax)) == {
        f"{length} drafted, stops paying at {end}" for length, end in zip((2, 3), ends, strict=True)
    }
    for length, end in zip((2, 3), ends, strict=True):
        batches, speedups = lines(ax)[f"{length} drafted, stops paying at {end}"]
        assert (batches[0], batches[-1]) == (1, 4 * max(ends))
        assert speedups == [
            float(speedup_at_batch(F(4, 5), length, F(1, 10), MODEL, MACHINE, batch=batch))
            for batch in batches
        ]
        assert (end, speedups[batches.index(end)]) in marks(ax)
        assert speedups[batches.index(end)] <= 1 < speedups[batches.index(end) - 1]
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "batch size, sequences"
    assert ax.get_title(loc="left") == "acceptance 4/5, draft cost 1/10"
    assert ax.xaxis.get_major_formatter()(64.0) == "64"


def test_c22_roofline_says_when_there_is_no_crossing():
    long_context = Model(10, 2, 2)
    always = plot.plot_roofline(F(4, 5), 2, F(1, 10), long_context, MACHINE, context=20)
    assert lines(always).keys() == {"2 drafted, pays at every size"}
    assert lines(always)["2 drafted, pays at every size"][0][-1] == 1024
    assert marks(always) == []
    never = plot.plot_roofline(F(1, 10), 2, F(1, 2), MODEL, MACHINE)
    assert lines(never).keys() == {"2 drafted, never pays"}
    assert lines(never)["2 drafted, never pays"][0][-1] == 8


def test_c22_roofline_up_to_a_given_batch():
    ax = plot.plot_roofline(F(4, 5), 2, F(1, 10), MODEL, MACHINE, max_batch=3)
    assert lines(ax)["2 drafted, stops paying at 4"][0] == [1, 2, 3]
    assert marks(ax) == []


# ---------------------------------------------------------------- laws, acceptance


def test_trade_off_has_the_line_and_a_curve_per_rule():
    """The rows are .3 apart: the line leaves 0 at an acceptance of .7."""
    token, halved = (bound.position(rule, TARGET, DRAFT) for rule in (verify.token, verify.lenient))
    ax = plot.plot_trade_off(TARGET, DRAFT, {"lenience": [token, halved]})
    assert lines(ax) == {"least distance": ([0, 0.7, 1], [0, 0, 0.3]), "lenience": ([0.7, 0.9], [0, 0.2])}
    assert texts(ax) == ["no rule"]
    assert ax.get_ylim()[1] > 0.3


def test_laws_are_bars_of_their_height_side_by_side():
    output = law(step)
    ax = plot.plot_laws({"target": dict(enumerate(TARGET)), "output": output, "sure": {2: 1}}, labels=LABELS)
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in ax.containers}
    assert heights == {"target": [0.5, 0.3, 0.2], "output": [0.5, 0.3, 0.2], "sure": [0, 0, 1]}
    centres = np.array(
        [[bar.get_x() + bar.get_width() / 2 for bar in bars] for bars in ax.containers]
    )  # [law, outcome]
    assert centres[1] == pytest.approx([0, 1, 2])
    assert (np.diff(centres, axis=0) > ax.containers[0][0].get_width()).all()
    assert [label.get_text() for label in ax.get_xticklabels()] == LABELS
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["target", "output", "sure"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("outcome", "probability")


def test_laws_meet_outcomes_in_order_and_name_them():
    four = plot.plot_laws({name: {(0, 1): 0.5, "end": 0.25, 5: 0.25} for name in "abcd"}, labels=LABELS)
    assert [label.get_text() for label in four.get_xticklabels()] == ["the a", "end", "5"]
    assert overlapping(four) == []


def test_acceptance_is_drawn_with_its_intervals_beside_the_formula():
    measured = [Estimate(F(3, 4), 0.7, 0.8), Estimate(F(1, 2), 0.4, 0.65)]
    ax = plot.plot_acceptance(
        measured, expected={"i.i.d.": [F(3, 4), F(9, 16), F(27, 64)]}, quantity="P(accepted)"
    )
    assert lines(ax)["i.i.d."] == ([1, 2, 3], [0.75, 0.5625, 0.421875])
    (bars,) = ax.containers
    points, _, (segments,) = bars.lines
    assert list(points.get_ydata()) == [0.75, 0.5]
    assert [segment.tolist() for segment in segments.get_segments()] == [
        [[1, pytest.approx(0.7)], [1, pytest.approx(0.8)]],
        [[2, pytest.approx(0.4)], [2, pytest.approx(0.65)]],
    ]
    assert ax.get_ylabel() == "P(accepted)"
    assert ax.get_xlabel() == "position in the draft"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["i.i.d.", "measured"]


def test_acceptance_without_intervals():
    ax = plot.plot_acceptance([0.5, 0.25])
    points, _, (segments,) = ax.containers[0].lines
    assert list(points.get_ydata()) == [0.5, 0.25]
    assert all(np.ptp(segment, axis=0).tolist() == [0, 0] for segment in segments.get_segments())


# ---------------------------------------------------------------- decision tree


def test_tree_draws_common_beginnings_once_and_a_row_per_path():
    ax = plot.decision_tree(paths(step), LABELS)
    branches = [text for text in texts(ax) if "  " in text]
    assert branches == [
        "the  1/5",
        "yes  1",
        "a  3/10",
        "yes  1",
        "cat  1/2",
        "yes  2/5",
        "no  3/5",
        "the  1",
    ]
    assert len(ax.patches) == 8
    rows = texts(ax)[len(branches) :]
    assert rows == ["1/5", "the", "3/10", "a", "1/5", "cat", "3/10", "the", "probability", "outcome"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["pick", "flip: yes", "flip: no"]
    assert not ax.axison


def test_tree_branches_meet_and_are_as_thick_as_they_are_probable():
    ax = plot.decision_tree(list(paths(step)))
    ends = [tuple(patch.get_path().vertices[-1]) for patch in ax.patches]
    starts = [tuple(patch.get_path().vertices[0]) for patch in ax.patches]
    assert all(start == (0, -1.5) or start in ends for start in starts)
    assert {end for end in ends if end not in starts} == {(2, 0), (2, -1), (2, -2), (3, -3)}
    widths = dict(zip(ends, (patch.get_linewidth() for patch in ax.patches), strict=True))
    assert widths[1, -2.5] == pytest.approx(0.6 + 3.4 * 0.5)
    assert widths[2, -2] == pytest.approx(0.6 + 3.4 * 0.2)
    assert widths[2, -3] == pytest.approx(0.6 + 3.4 * 0.3)


def test_tree_does_not_need_its_paths_in_order():
    shuffled = [list(paths(step))[i] for i in (3, 0, 2, 1)]
    ax = plot.decision_tree(shuffled, LABELS)
    ends = sorted(tuple(patch.get_path().vertices[-1]) for patch in ax.patches)
    assert len(ends) == len(set(ends)) == 8
    assert texts(ax)[0] == "cat  1/2"


def test_a_tree_of_some_twenty_leaves_has_no_overlapping_words():
    def two_picks(chance):
        first = chance.pick([F(1, 5)] * 5)
        if chance.flip(F(1, 3)):
            return (first, first)
        return (first, chance.pick([1, 2, 3]))

    names = ["strawberry", "a", "cat", "and", "the"]
    every = list(paths(two_picks))
    assert len(every) == 20
    ax = plot.decision_tree(every, names)
    assert overlapping(ax) == []
    figure = ax.figure.get_window_extent()
    assert all(
        figure.x0 <= text.get_window_extent().x0 < text.get_window_extent().x1 <= figure.x1
        for text in ax.texts
    )
    assert "strawberry strawberry" in texts(ax)
    assert overlapping(plot.decision_tree(paths(whole_round), LABELS)) == []


def test_tree_outcomes_are_tokens_where_they_have_some_and_otherwise_what_they_print():
    verdicts = texts(plot.decision_tree(paths(whole_round), LABELS))
    assert {"the a", "cat cat", "the"} <= set(verdicts)
    assert {"True", "()", "7"} <= set(
        texts(plot.decision_tree(paths(lambda c: [True, (), 7][c.pick([1, 1, 1])]), LABELS))
    )
    assert "0.333" in texts(plot.decision_tree(paths(lambda c: c.pick([1 / 3, 2 / 3]))))
    assert "12345/99991" not in texts(plot.decision_tree(paths(lambda c: c.flip(F(12345, 99991)))))
    assert "0.123" in texts(plot.decision_tree(paths(lambda c: c.flip(F(12345, 99991)))))


def test_a_program_without_questions_is_a_tree_too():
    ax = plot.decision_tree(paths(lambda chance: 2), LABELS)
    assert texts(ax) == ["1", "cat", "probability", "outcome"]
    assert not ax.patches


# ---------------------------------------------------------------- draft tree

# Below the root token 2 and then token 0, without replacement; below token 2 token 1 twice, independently.
TWICE = DraftTree(
    (2, 0, 1),
    (0, 0, 1),
    {
        0: Siblings((1, 2), (2, 0), DRAFT, without_replacement),
        1: Siblings((3, 3), (1, 1), TARGET, independent),
    },
)


def boxes(ax):
    """Text of each box -> (place, colour of its edge, whether it is filled)."""
    return {
        text.get_text(): (
            text.get_position(),
            to_hex(text.get_bbox_patch().get_edgecolor()).upper(),
            to_hex(text.get_bbox_patch().get_facecolor()) != "#ffffff",
        )
        for text in ax.texts
        if text.get_bbox_patch() is not None
    }


def on_branches(ax):
    return [text.get_text() for text in ax.texts if text.get_bbox_patch() is None]


def test_a_draft_tree_has_a_box_for_each_node_and_the_probability_of_each_draw():
    """Token 0 is drawn after token 2, of probability 1/2, is out: with 1/5 of the other half."""
    ax = plot.plot_tree(TWICE, labels=LABELS)
    assert boxes(ax) == {
        "context": ((0, -0.5), plot.GREY, False),
        "cat": ((1, 0), plot.GREY, False),
        "a": ((2, 0), plot.GREY, False),
        "the": ((1, -1), plot.GREY, False),
    }
    assert on_branches(ax) == ["1/2", "2/5", "3/10, 2 times"]
    ends = [tuple(patch.get_path().vertices[i]) for patch in ax.patches for i in (0, -1)]
    assert ends == [(0, -0.5), (1, 0), (0, -0.5), (1, -1), (1, 0), (2, 0)]
    assert ax.get_legend() is None
    assert not ax.axison
    assert overlapping(ax) == []


def test_a_draft_tree_shows_what_was_emitted():
    ax = plot.plot_tree(TWICE, (2, 0), labels=["the", "a", "cat"])
    places = [text.get_position() for text in ax.texts if text.get_text() == "the"]
    assert places == [(1, -2), (2, -1)]  # the draft, and the last token beside the refused one
    assert boxes(ax)["cat"] == ((1, -0.5), plot.BLUE, True)
    assert boxes(ax)["a"] == ((2, 0), plot.GREY, False)
    assert boxes(ax)["the"] == ((2, -1), plot.VERMILION, False)
    styles = {
        (to_hex(patch.get_edgecolor()).upper(), patch.get_linestyle(), patch.get_linewidth())
        for patch in ax.patches
    }
    assert styles == {(plot.BLUE, "-", 2.2), (plot.GREY, "-", 1.0), (plot.VERMILION, "--", 2.2)}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "accepted",
        "emitted last, no draft",
        "not kept",
    ]
    assert overlapping(ax) == []


def test_the_words_of_a_small_draft_tree_are_all_in_the_picture():
    ax = plot.plot_tree(Draft((1,), [TARGET]), (1, 0), labels=LABELS)
    ax.figure.canvas.draw()
    whole = ax.figure.get_window_extent()
    written = [*(text for text in ax.texts if text.get_text()), ax.get_legend()]
    for box in (each.get_window_extent() for each in written):
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1


def test_notes_stand_below_their_nodes():
    ax = plot.plot_tree(TWICE, labels=LABELS, notes={0: "root", 3: "leaf", 2: "other"})
    notes = {text.get_text(): text.xy for text in ax.texts if text.get_text() in ("root", "leaf", "other")}
    assert notes == {"root": boxes(ax)["context"][0], "leaf": boxes(ax)["a"][0], "other": boxes(ax)["the"][0]}
    assert overlapping(ax) == []


def test_a_chain_is_a_tree_and_its_bonus_comes_behind_it():
    ax = plot.plot_tree(Draft((1, 0), [TARGET, DRAFT]), (1, 0, 2))
    assert boxes(ax) == {
        "context": ((0, 0), plot.BLUE, False),
        "1": ((1, 0), plot.BLUE, True),
        "0": ((2, 0), plot.BLUE, True),
        "2": ((3, 0), plot.VERMILION, False),
    }
    assert on_branches(ax) == ["3/10", "1/5", ""]
    assert ax.get_xlim() == pytest.approx((-0.4, 3.4))


def test_an_empty_draft_is_its_context():
    _, mine = plt.subplots()
    assert plot.plot_tree(Draft((), []), ax=mine) is mine
    assert boxes(mine) == {"context": ((0, 0), plot.GREY, False)}
    assert boxes(plot.plot_tree(Draft((), []), (2,)))["2"] == ((1, 0), plot.VERMILION, False)


def test_a_large_draft_tree_has_no_overlapping_words():
    names = ["strawberry", "a", "cat"]
    grown = sample(tree(table(DRAFT), (3, 2, 2)), (), 3, rng=0)
    ax = plot.plot_tree(grown, (0, 1, 2, 0), labels=names)
    assert len(boxes(ax)) == 4
    assert len(ax.patches) == 3 + 6 + 12 + 1
    assert overlapping(ax) == []


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot.plot_speedup([], 0.1), "there is nothing to draw"),
        (lambda: plot.plot_speedup([0.5] * 7, 0.1), "7 in one picture cannot be told apart: give up to 6"),
        (lambda: plot.plot_speedup(1.5, 0.1), "acceptance = 1.5 is out of range"),
        (lambda: plot.plot_speedup(0.5, 0.1, max_draft_tokens=0), "max_draft_tokens = 0 is too small"),
        (lambda: plot.plot_speedup_map(max_cost=0), "max_cost = 0 is not positive"),
        (lambda: plot.plot_speedup_map(num_draft_tokens=0), "num_draft_tokens = 0 is too small"),
        (lambda: plot.plot_roofline(0.5, 2, 0.1, MODEL, MACHINE, max_batch=0), "max_batch = 0 is too small"),
        (lambda: plot.plot_laws({}), "there is nothing to draw"),
        (lambda: plot.plot_trade_off(TARGET, DRAFT, {}), "there is nothing to draw"),
        (lambda: plot.plot_acceptance([]), "there is nothing to draw"),
        (
            lambda: plot.plot_acceptance([0.5], expected={name: [0.5] for name in "abcdef"}),
            "7 in one picture",
        ),
        (lambda: plot.decision_tree([]), "there is nothing to draw"),
        (
            lambda: plot.plot_tree(TWICE, (2, 2, 0)),
            r"emitted = \(2, 2, 0\): token 2 is not drafted below node 1",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_drawn(draw, message):
    with pytest.raises(ValueError, match=message) as error:
        draw()
    assert "\n" not in str(error.value)
    assert plt.get_fignums() == []


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delitem(sys.modules, "speculative.plot")
    with pytest.raises(
        ImportError, match=r'^plots need matplotlib: pip install -e "\.\[plot\]" in a checkout$'
    ):
        importlib.import_module("speculative.plot")
