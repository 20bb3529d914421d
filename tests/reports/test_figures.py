"""Every figure draws, says what it shows, and puts no text on top of another."""

from itertools import combinations

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError, UnknownNameError, compare
from hybrid_scheduler.core import ModelVersion
from hybrid_scheduler.metrics import Interval
from hybrid_scheduler.metrics.statistics import skewed_interval, t_interval
from hybrid_scheduler.reports import figures
from hybrid_scheduler.reports.figure_data import FigureData, MissingFigureData
from hybrid_scheduler.reports.figure_style import with_interval
from hybrid_scheduler.reports.figures.scheduler_bars import front
from hybrid_scheduler.workload.scenarios import generate, scenario_named

NAMES = ("cpu_only", "round_robin", "random", "greedy", "earliest_finish", "price_index", "oracle")


@pytest.fixture(scope="module")
def data() -> FigureData:
    """Three seeds of seven schedulers, two of them dressed up as learners."""
    runs = [compare(generate(scenario_named("mixed"), 300, seed, utilisation=0.8), NAMES) for seed in range(3)]
    rows = [run.as_dict()["schedulers"] for run in runs]
    metrics = [name for name, value in rows[0]["oracle"].items() if isinstance(value, int | float)]
    samples = {m: {name: np.array([row[name][m] for row in rows], float) for name in NAMES} for m in metrics}
    rng = np.random.default_rng(0)
    actual = runs[0].results["price_index"].outcomes.time
    learners = ("price_index", "oracle")
    return FigureData(
        samples,
        ["mixed at load 0.8", "300 tasks", "3 seeds"],
        lower_bound=runs[0].lower_bound,
        comparison=runs[0],
        predicted={name: actual * rng.lognormal(0, 0.1, len(actual)) for name in learners},
        versions={
            name: [ModelVersion(i, 100, 0.9 + i / 100, "refresh", 50 * i) for i in range(5)] for name in learners
        },
        importances={"price_index": {"size": 0.8, "intensity": 0.15, "memory": 0.05}},
    )


def texts_of(figure):
    found = list(figure.texts)
    for legend in figure.legends:
        found += legend.get_texts()
    for axes in figure.axes:
        if not axes.axison:
            continue
        found += [*axes.texts, axes.xaxis.label, axes.yaxis.label, axes.title, axes._left_title]
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            # Panels that share an axis have labels on the last one only.
            ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
            found += [label for place, label in ticks if min(low, high) <= place <= max(low, high)]
    return [text for text in found if text.get_text().strip() and text.get_visible()]


@pytest.mark.parametrize("name", figures.FIGURES)
def test_texts_do_not_overlap_and_axes_have_labels(name, data):
    figure = figures.draw(name, data)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    overlaps = [
        (one, other)
        for (one, first), (other, second) in combinations(boxes, 2)
        if first.shrunk(0.97, 0.8).overlaps(second.shrunk(0.97, 0.8))
    ]
    assert overlaps == []
    page = figure.bbox.padded(1)
    outside = [text for text, box in boxes if not (page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1))]
    assert outside == []
    assert figure.texts[0].get_text()  # and everything has a name
    for axes in figure.axes:
        if axes.axison and not (name == "gantt" and axes is not figure.axes[-1]):
            assert axes.get_xlabel()


def test_figures_draw_intervals(data):
    axes = figures.draw("makespan", data).axes[0]
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) == 2 and line.get_linewidth() > 2]
    assert len(lines) == len(NAMES)
    drawn = sorted(tuple(map(float, line.get_xdata())) for line in lines)
    expected = sorted((one.low, one.high) for one in data.intervals("makespan").values())
    assert np.array(drawn) == pytest.approx(np.array(expected))


def test_one_run_has_no_intervals_unless_batch_means_give_one(data):
    single = FigureData({m: {n: v[:1] for n, v in one.items()} for m, one in data.samples.items()})
    assert all(one.half_width == 0 for one in single.intervals("makespan").values())
    assert single.interval_label("mean_latency") == "one run"
    banded = FigureData(single.samples, bands={"mean_latency": {"oracle": Interval(1.0, 0.5, 1.5)}})
    assert banded.intervals("mean_latency")["oracle"].half_width == 0.5
    assert "batch means" in banded.interval_label("mean_latency")
    assert "batch means" not in banded.interval_label("makespan")


def test_figures_and_overview_have_the_widened_intervals_of_the_comparison():
    skewed = np.random.default_rng(1).lognormal(sigma=1.5, size=20)
    drawn = FigureData({"mean_latency": {"greedy": skewed}}).intervals("mean_latency")["greedy"]
    assert drawn == skewed_interval(skewed)
    assert drawn.half_width > 1.2 * t_interval(skewed).half_width


@pytest.mark.parametrize("kind", figures.FORMATS)
def test_same_data_give_the_same_bytes(kind, data, tmp_path):
    for folder in ("one", "two"):
        figures.save(figures.draw("cost_comparison", data), tmp_path / folder, "cost", (kind,))
    first, second = ((tmp_path / folder / f"cost.{kind}").read_bytes() for folder in ("one", "two"))
    assert first == second
    assert len(first) > 1000


def test_unknown_figure_or_format_is_refused(data, tmp_path):
    with pytest.raises(UnknownNameError, match="figure: must be one of") as caught:
        figures.draw("latency_cdff", data)
    assert caught.value.hint == "did you mean 'latency_cdf'?"
    with pytest.raises(UnknownNameError, match="figure format"):
        figures.save(figures.draw("makespan", data), tmp_path, "x", ("gif",))


def test_missing_data_is_an_error(data):
    bare = FigureData({})
    for name in figures.FIGURES:
        with pytest.raises(MissingFigureData):
            figures.draw(name, bare)
    assert issubclass(MissingFigureData, InvalidInputError)
    assert figures.draw_all(bare) == {}
    numbers = FigureData(data.samples)
    assert set(figures.draw_all(numbers)) == {
        "makespan", "average_duration", "speed_up", "cost_comparison", "load_balance", "pareto_front",
    }  # fmt: skip


def test_batch_and_single_task_can_be_drawn():
    for tasks in (1, 40):
        run = compare(generate(scenario_named("pareto"), tasks, 1, batch=True), ["round_robin", "oracle"])
        shown = FigureData({}, comparison=run)
        for name in ("workload", "allocation", "gantt", "fraction_distribution", "latency_cdf"):
            assert any(panel.has_data() for panel in figures.draw(name, shown).axes), name


def test_small_run_is_drawn_to_its_end_with_the_bound():
    run = compare(generate(scenario_named("mixed"), 20, 1000, batch=True), ["greedy", "price_index"])
    last = max(summary.makespan for summary in run.summaries.values())
    for axes in figures.draw("gantt", FigureData({}, comparison=run)).axes:
        assert axes.get_xlim() == pytest.approx((0.0, last))
        assert [np.asarray(line.get_xdata())[0] for line in axes.get_lines()] == [run.lower_bound]


def test_diff_of_two_schedules_counts_moved_tasks():
    tasks = generate(scenario_named("mixed"), 30, 1)
    first, second = compare(tasks, ["greedy", "oracle"]), compare(tasks, ["cpu_only"])
    figure = figures.draw("gantt_diff", first, schedulers=("greedy", "oracle"))
    changed = first.results["greedy"].outcomes, first.results["oracle"].outcomes
    moved = (changed[0].device != changed[1].device) | (changed[0].fraction != changed[1].fraction)
    assert f"tasks 1 to 30: {moved.sum()} moved" in figure.texts[1].get_text()
    same = figures.draw("gantt_diff", first, other=first)
    assert "0 moved; in the second schedule 0 end earlier (blue), 0 later" in same.texts[1].get_text()
    figures.draw("gantt_diff", first, other=second, schedulers=("oracle", "cpu_only"))
    with pytest.raises(MissingFigureData, match="at least two"):
        figures.draw("gantt_diff", second)
    with pytest.raises(UnknownNameError, match="schedulers: must be one of cpu_only, got 'oracle'"):
        figures.draw("gantt_diff", first, other=second, schedulers=("oracle", "oracle"))
    with pytest.raises(InvalidInputError, match="two of the same tasks"):
        figures.draw("gantt_diff", first, other=compare(tasks.rows(0, 20), ["oracle"]))


def test_front_holds_undominated_points():
    points = {"a": [1.0, 5.0, 3.0], "b": [2.0, 4.0, 3.0], "c": [2.0, 5.0, 3.0], "d": [1.0, 5.0, 3.0]}
    assert front(points) == {"a", "b", "d"}


@pytest.mark.parametrize(
    ("interval", "shown"),
    [
        (Interval(0.0108, 0.0101, 0.0115), "0.01080 ± 0.00070"),
        (Interval(91.1, 86.8, 95.4), "91.1 ± 4.3"),
        (Interval(12345.0, 12000.0, 12690.0), "12,345 ± 345"),
        (Interval(0.2, 0.2 - 1e-17, 0.2), "0.200"),
        (Interval(3.0, 3.0, 3.0), "3.00"),
    ],
)
def test_digits_follow_the_interval(interval, shown):
    assert with_interval(interval) == shown


@pytest.mark.parametrize("count", [2, 5, 9, 15])
def test_legend_of_long_names_stays_inside_the_figure(count):
    """Parameters make labels long: such legends get fewer columns and more height."""
    long = ["price_index", "hybrid_ml(binding=late)", "random_forest(retrain_interval=200)"]
    names = ["earliest_finish", *long, *NAMES, "late_binding", "two_level", "hybrid_ml", "rl_agent"][:count]
    curve = np.geomspace(0.01, 1.0, 50), np.linspace(0.0, 1.0, 50)
    figure = figures.draw("latency_cdf", FigureData({}, [], distributions=dict.fromkeys(names, curve)))
    legend = figure.legends[0]
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= min(axes.get_tightbbox().y0 for axes in figure.axes)
