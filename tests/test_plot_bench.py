"""Pictures of decoding on the clock show the numbers they are given."""

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

from speculative.bench import Costs, Measured, Race, Spread
from speculative.metrics import Statistics
from speculative.plot import plot_acceptance_by_position, plot_race


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def case(low, median, high, forecast, passed=(6, 3)):
    """A case with this speedup and forecast."""
    spread = Spread(1e-4, 1e-4, 1e-4)
    counted = Statistics(10, 20, 20, 10, (10, 6)[: len(passed)], passed)
    raced = Race(Spread(low, median, high), spread, spread, counted, (3,))
    return Measured(raced, Costs(1.0, {4: 2 / forecast}, 0.0, 0.0), 3)


CASES = {"ngram token k=3": case(1.5, 2.0, 3.0, 1.75), "suffix token k=3": case(0.75, 1.0, 1.25, 1.5, (5,))}


def test_speedups_with_their_quartiles_and_forecasts():
    ax = plot_race(CASES)
    (errors,) = ax.containers
    assert errors.lines[0].get_xdata().tolist() == [2.0, 1.0]
    arms = [segment.tolist() for segment in errors.lines[2][0].get_segments()]
    assert arms == [[[1.5, 0], [3.0, 0]], [[0.75, 1], [1.25, 1]]]
    forecasts = next(line for line in ax.lines if line.get_label() == "forecast of the cost model")
    assert list(forecasts.get_xdata()) == pytest.approx([1.75, 1.5])
    assert [label.get_text() for label in ax.get_yticklabels()] == list(CASES)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first on top
    assert ax.get_xlim() == pytest.approx((0, 1.08 * 3.0))


def test_acceptance_by_position():
    _, ax = plt.subplots()
    assert plot_acceptance_by_position(CASES, ax=ax) is ax
    shown = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines}
    assert shown == {"ngram token k=3": ([1, 2], [0.6, 0.5]), "suffix token k=3": ([1], [0.5])}


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"^there is nothing to draw"):
        plot_race({})
    with pytest.raises(ValueError, match=r"^19 in one picture cannot be told apart: give up to 18"):
        plot_acceptance_by_position({str(i): CASES["ngram token k=3"] for i in range(19)})
