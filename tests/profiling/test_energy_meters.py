"""Energy meters with fake counters."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_scheduler.profiling import energy_meters
from hybrid_scheduler.profiling.energy_meters import NvmlCounter, NvmlPower, cpu_meter, gpu_meter, joules_per_run


class NVMLError(Exception):
    """Named as the binding names it."""


class Board:
    """A GPU that draws 100 W on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.has_counter = True
        self.handle = ""

    def clock(self) -> float:
        return self.now

    def run(self) -> None:
        self.now += 0.03

    def library(self) -> Any:
        return SimpleNamespace(
            nvmlDeviceGetHandleByIndex=lambda index: f"index {index}",
            nvmlDeviceGetHandleByUUID=lambda uuid: f"uuid {uuid}",
            nvmlDeviceGetTotalEnergyConsumption=self._millijoules,
            nvmlDeviceGetPowerUsage=lambda handle: 100_000,
        )

    def _millijoules(self, handle: str) -> int:
        self.handle = handle
        if not self.has_counter:
            raise NVMLError("not supported")
        return 7_000_000 + int(self.now * 100_000)


def test_energy_counter_gives_joules_per_run() -> None:
    board = Board()
    meter = NvmlCounter(board.library(), "handle")
    assert joules_per_run(meter, board.run, clock=board.clock) == pytest.approx(3.0, rel=1e-3)
    assert board.now >= energy_meters.WINDOW


def test_power_samples_give_joules_per_run() -> None:
    board = Board()
    meter = NvmlPower(board.library(), "handle", board.clock)
    try:
        assert joules_per_run(meter, board.run, clock=board.clock) == pytest.approx(3.0, rel=1e-3)
    finally:
        meter.close()


def test_gpu_meter_prefers_the_counter_to_power_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    monkeypatch.setattr(energy_meters, "nvml", board.library)
    for uuid in (None, "abc", "GPU-abc"):
        meter = gpu_meter("cuda", uuid)
        assert isinstance(meter, NvmlCounter)
        assert board.handle == ("index 0" if uuid is None else "uuid GPU-abc")
    board.has_counter = False
    power = gpu_meter("cuda")
    assert isinstance(power, NvmlPower)
    power.close()
    assert gpu_meter("mps") is None
    monkeypatch.setattr(energy_meters, "nvml", lambda: None)
    assert gpu_meter("cuda") is None


def _zone(root: Path, name: str, label: str, microjoules: int) -> Path:
    zone = root / name
    zone.mkdir()
    (zone / "name").write_text(f"{label}\n")
    (zone / "energy_uj").write_text(f"{microjoules}\n")
    (zone / "max_energy_range_uj").write_text("9999999\n")
    return zone


def test_rapl_adds_packages_and_survives_an_overflow(tmp_path: Path) -> None:
    first = _zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000)
    second = _zone(tmp_path, "intel-rapl:1", "package-1", 500_000)
    inside = _zone(tmp_path, "intel-rapl:0:0", "core", 0)
    _zone(tmp_path, "intel-rapl:2", "psys", 0)
    meter = cpu_meter(tmp_path)
    assert meter is not None
    assert meter.joules() == 0.0
    (first / "energy_uj").write_text("1000000")  # two joules later, past the end
    (second / "energy_uj").write_text("1500000")
    (inside / "energy_uj").write_text("8000000")
    assert meter.joules() == pytest.approx(3.0)


def test_unreadable_rapl_gives_no_meter(tmp_path: Path) -> None:
    assert cpu_meter(tmp_path / "nowhere") is None
    zone = _zone(tmp_path, "intel-rapl:0", "package-0", 1)
    (zone / "energy_uj").unlink()
    (zone / "energy_uj").mkdir()  # unreadable for everybody, also for root
    assert cpu_meter(tmp_path) is None


def test_missing_or_broken_meter_gives_none() -> None:
    board = Board()
    assert joules_per_run(None, board.run) is None
    still = SimpleNamespace(source="still", joules=lambda: 5.0, close=lambda: None)
    assert joules_per_run(still, board.run, clock=board.clock) is None
    board.has_counter = False
    broken = NvmlCounter(board.library(), "handle")
    assert joules_per_run(broken, board.run, clock=board.clock) is None


def test_kernel_that_raises_is_not_hidden() -> None:
    def run() -> None:
        raise RuntimeError("kernel")

    board = Board()
    with pytest.raises(RuntimeError, match="kernel"):
        joules_per_run(NvmlCounter(board.library(), "handle"), run, clock=board.clock)
