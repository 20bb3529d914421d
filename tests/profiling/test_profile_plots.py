"""Figures of profiles with and without a GPU, and with missing points."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import profile_examples
import pytest

from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.profiling import profile_plots

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("gpu", [True, False])
def test_plots_are_written_as_png_files(gpu: bool, tmp_path: Path) -> None:
    whole = profile_examples.profile(gpu, sizes=(64, 256))
    profile = replace(whole, points=tuple(p for p in whole.points if p.kernel in ("matmul", "sort")))
    paths = profile_plots.save_plots(profile, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["crossover.png", "roofline.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_panels_say_where_the_gpu_pays_off() -> None:
    figure = profile_plots.crossover_figure(profile_examples.profile())
    verdicts = {panel.get_title("left"): panel.get_title("right") for panel in figure.axes}
    assert verdicts["matmul"] == "GPU from 785"
    assert verdicts["sort"] == "GPU faster"
    assert verdicts["conv"] == "CPU faster"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["CPU, 16 threads", "GPU with copies", "GPU with copies, pinned memory", "GPU kernel alone"]


def test_without_a_gpu_threads_are_compared() -> None:
    figure = profile_plots.crossover_figure(profile_examples.profile(gpu=False))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["CPU, 1 thread", "CPU, 16 threads"]
    assert figure.axes[0].get_title("right") == "gain 3.2×"


def test_gaps_are_left_open() -> None:
    whole = profile_examples.profile(sizes=(64, 256))
    points = tuple(replace(p, gpu_seconds=None, gpu_kernel_seconds=None, flops=None) for p in whole.points[:5])
    sparse = replace(whole, points=points, gpu_memory_bandwidth=None)
    for point in points:
        assert drawn_sizes(profile_plots.crossover_figure(whole), point.kernel, "GPU with copies") >= {point.size}
        assert point.size not in drawn_sizes(
            profile_plots.crossover_figure(sparse), point.kernel, "GPU with copies"
        )
    assert all(panel.lines for panel in profile_plots.roofline_figure(whole).axes)
    assert not any(panel.lines for panel in profile_plots.roofline_figure(sparse).axes)


def drawn_sizes(figure: Any, kernel: str, label: str) -> set[float]:
    """Return the sizes at which a kernel's panel has a point of the series of this label."""
    panel = next(panel for panel in figure.axes if panel.get_title("left") == kernel)
    return {
        float(size)
        for container in panel.containers
        if container.get_label() == label
        for size in container[0].get_xdata()
    }


def test_bad_folder_and_missing_matplotlib_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="plots: must be a folder that can be written"):
        profile_plots.save_plots(profile_examples.profile(sizes=(64,)), tmp_path / "file")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HybridSchedulerError, match="a figure needs matplotlib"):
        profile_plots.crossover_figure(profile_examples.profile(sizes=(64,)))
