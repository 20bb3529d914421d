"""The pipeline's figure: resolution, labels, and nothing on top of anything else."""

import struct
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.reports import pipeline_figure
from hybrid_scheduler.reports.figure_style import label_of, line_style, look_of, save_png, three_digits
from hybrid_scheduler.reports.panels import rolling_mean
from hybrid_scheduler.reports.pipeline_figure import Performance, draw
from hybrid_scheduler.schedulers import hybrid_ml, rl_agent, schedulers

NAMES = (
    "cpu_only",
    "gpu_only",
    "round_robin",
    "random",
    "greedy",
    "earliest_finish",
    "oracle",
    "hybrid_ml",
    "rl_agent",
)

LEARNED = (hybrid_ml, rl_agent)  # registered when imported


def performance(tasks: int = 300, *, bound: float | None = 9.0, batch: bool = False) -> Performance:
    rng = np.random.default_rng(0)
    fractions = {name: rng.random(tasks) for name in NAMES} | {
        "cpu_only": np.zeros(tasks),
        "gpu_only": np.ones(tasks),
    }
    makespans = dict(zip(NAMES, (80.0, 10.5, 60.0, 45.0, 41.0, 9.2, 9.1, 9.3, 9.4), strict=True))
    arrival = np.zeros(tasks) if batch else np.sort(rng.random(tasks)) * 9
    return Performance(arrival, fractions, makespans, bound, (f"{tasks} tasks", "seed 1"))


def dots_and_resolution(path: Path) -> tuple[int, int, float]:
    """Width, height and dots per inch from the chunks of a PNG file."""
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    place = data.index(b"pHYs") + 4
    per_metre, _, unit = struct.unpack(">IIB", data[place : place + 9])
    assert unit == 1
    return width, height, per_metre * 0.0254


def test_png_has_300_dpi_and_the_same_bytes(tmp_path):
    for name in ("one.png", "two.png"):
        save_png(draw(performance()), tmp_path / name)
    width, height, resolution = dots_and_resolution(tmp_path / "one.png")
    assert (width, height) == tuple(round(300 * inches) for inches in pipeline_figure.SIZE)
    assert resolution == pytest.approx(300, abs=0.1)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_every_axis_has_its_unit_and_every_scheduler_its_row():
    figure = draw(performance())
    histograms, allocation, makespans, speed_ups = figure.axes
    assert "fraction" in histograms.get_xlabel()
    assert (allocation.get_xlabel(), allocation.get_ylabel()) == ("arrival time (s)", "GPU fraction, moving mean")
    assert makespans.get_xlabel() == "makespan (s)"
    assert "×" in speed_ups.get_xlabel()
    assert len(allocation.get_lines()) == len(NAMES)
    for axes in (histograms, makespans, speed_ups):
        rows = [tick.get_text() for tick in axes.get_yticklabels()]
        assert [row.split("  ")[0] for row in rows] == [label_of(name) for name in performance().best_first]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(legend) == sorted(label_of(name) for name in NAMES)


def test_texts_do_not_overlap():
    figure = draw(performance())
    texts = list(figure.texts) + list(figure.legends[0].get_texts())
    for axes in figure.axes:
        texts += [*axes.texts, *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label]
        low, high = axes.get_xlim()
        ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        texts += [label for place, label in ticks if low <= place <= high]  # the others are not drawn
    boxes = [
        (text.get_text(), text.get_window_extent()) for text in texts if text.get_text() and text.get_visible()
    ]
    # An annotation's extent has some air around it: boxes that only touch do not overlap.
    overlaps = [
        (one, other)
        for (one, first), (other, second) in combinations(boxes, 2)
        if first.shrunk(0.98, 0.9).overlaps(second.shrunk(0.98, 0.9))
    ]
    assert overlaps == []
    page = figure.bbox
    assert all(
        page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for _, box in boxes
    )


@pytest.mark.parametrize("tasks", [1, 2, 11])
def test_few_tasks_of_a_batch_can_be_drawn(tasks):
    figure = draw(performance(tasks, bound=None, batch=True))
    assert figure.axes[1].get_xlabel() == "task, in order: all arrive at once"


def test_failed_tasks_leave_a_gap():
    shown = performance()
    fractions = dict(shown.fractions) | {"greedy": np.full(len(shown.arrival), np.nan)}
    figure = draw(Performance(shown.arrival, fractions, dict(shown.makespans) | {"greedy": 0.0}, 9.0))
    means = [np.asarray(line.get_ydata()) for line in figure.axes[1].get_lines()]
    assert len(means) == len(NAMES)
    assert sum(np.isnan(mean).all() for mean in means) == 1
    assert sum(np.isfinite(mean).all() for mean in means) == len(NAMES) - 1


def test_missing_baseline_is_refused():
    with pytest.raises(InvalidInputError, match="cpu_only"):
        Performance(np.zeros(1), {"greedy": np.zeros(1)}, {"greedy": 1.0})
    with pytest.raises(InvalidInputError, match="fractions"):
        Performance(np.zeros(1), {}, {"cpu_only": 1.0})


def test_style_comes_from_the_registry():
    for name, info in schedulers().items():
        style = line_style(name)
        assert style["color"] == info.look.light
    styles = [(line_style(name)["marker"], line_style(name)["markerfacecolor"]) for name in NAMES]
    assert len(set(styles)) == len(NAMES)  # different without colour, too
    assert label_of("round_robin(variant=half)") == "Round Robin (variant=half)"
    assert look_of("somebody_elses") == look_of("another")


def test_rolling_mean_skips_nan():
    values = np.array([0.0, 1.0, np.nan, 3.0, np.nan, np.nan])
    assert rolling_mean(values, 2) == pytest.approx([0.5, 1.0, 3.0, 3.0, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1.0234, "1.02"), (9.996, "10.0"), (123.4, "123"), (12345.0, "12,300")]
)
def test_three_digits_are_significant(value, text):
    assert three_digits(value) == text
