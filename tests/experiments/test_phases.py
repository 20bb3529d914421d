"""Resumable phases: when a phase runs again and when it is skipped, without half-written files."""

import json
from pathlib import Path

import pytest

from hybrid_scheduler import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.experiments import pipeline as module
from hybrid_scheduler.experiments.pipeline import HIDDEN, Phase, PhaseContext, run_phases
from hybrid_scheduler.experiments.run_record import directory_lock


class TwoPhases:
    """Two phases: the first writes a number, the second doubles it. `ran` lists the phases that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.number, self.fails = 3, False

    def run(self, **options) -> list[bool]:
        """True for what was skipped."""
        self.ran.clear()
        return [done.skipped for done in run_phases(self.phases(), self.folder, **options)]

    def phases(self) -> list[Phase]:
        return [
            Phase("first", ("data/a.txt",), self.first, parameters=(self.number,)),
            Phase("second", ("data/b.txt", "c/c.txt"), self.second, inputs=("data/a.txt",)),
        ]

    def first(self, context: PhaseContext) -> None:
        self.ran.append("first")
        context.write("data/a.txt").write_text(str(self.number))

    def second(self, context: PhaseContext) -> None:
        self.ran.append("second")
        context.write("data/b.txt").write_text(str(2 * int(context.read("data/a.txt").read_text())))
        if self.fails:
            raise RuntimeError("half-way")
        context.write("c/c.txt").touch()

    def files(self) -> set[str]:
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return {path.as_posix() for path in found if path.parts[0] != HIDDEN}


@pytest.fixture
def row(tmp_path: Path) -> TwoPhases:
    return TwoPhases(tmp_path / "out")


ALL = {"data/a.txt", "data/b.txt", "c/c.txt"}


def test_second_run_skips_all_phases(row):
    assert row.run() == [False, False]
    assert row.files() == ALL
    assert row.run() == [True, True]
    assert row.ran == []


def test_force_runs_all_phases(row):
    row.run()
    assert row.run(force=True) == [False, False]


def test_changed_parameter_reruns_dependent_phases(row):
    row.run()
    row.number = 4
    assert row.run() == [False, False]
    assert (row.folder / "data/b.txt").read_text() == "8"


def test_identical_remade_input_skips_later_phases(row):
    row.run()
    (row.folder / "data/a.txt").unlink()
    assert row.run() == [False, True]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("touched")])
def test_missing_or_altered_output_is_remade(row, damage):
    row.run()
    damage(row.folder / "c/c.txt")
    assert row.run() == [True, False]


def test_another_version_reruns_all_phases(row, monkeypatch):
    row.run()
    monkeypatch.setattr(module, "__version__", "99")
    assert row.run() == [False, False]


def test_failed_phase_leaves_no_files_and_keeps_earlier_phases(row):
    row.fails = True
    with pytest.raises(RuntimeError):
        row.run()
    assert row.files() == {"data/a.txt"}
    assert not (row.folder / HIDDEN / "unfinished").exists()
    row.fails = False
    assert row.run() == [True, False]


def test_failed_phase_keeps_the_old_results(row):
    row.run()
    row.number, row.fails = 4, True
    with pytest.raises(RuntimeError):
        row.run()
    assert (row.folder / "data/b.txt").read_text() == "6"
    row.number, row.fails = 3, False
    assert row.run() == [False, True]


def test_phase_killed_before_its_note_runs_again(row, monkeypatch):
    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    row.run()
    row.number = 4
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_atomically", die)
        with pytest.raises(Killed):
            row.run()
    assert row.run() == [False, False]
    assert (row.folder / "data/b.txt").read_text() == "8"


@pytest.mark.parametrize("notes", ["", "[]", '{"first": 3}', "\x00"])
def test_damaged_notes_rerun_all_phases(row, notes):
    row.run()
    (row.folder / HIDDEN / "finished.json").write_text(notes)
    assert row.run() == [False, False]
    assert set(json.loads((row.folder / HIDDEN / "finished.json").read_text())) == {"first", "second"}


def test_leftovers_of_a_killed_run_are_removed(row):
    left = row.folder / HIDDEN / "unfinished" / "data"
    left.mkdir(parents=True)
    (left / "a.txt").write_text("half")
    row.run()
    assert (row.folder / "data/a.txt").read_text() == "3"
    assert not left.exists()


def test_second_run_in_the_same_folder_is_refused(row):
    row.run()
    with (
        directory_lock(row.folder / HIDDEN / "lock", row.folder),
        pytest.raises(InvalidInputError, match="no other run is writing to"),
    ):
        row.run()


def test_full_disk_is_reported(row, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TwoPhases, "second", full)
    with pytest.raises(HybridSchedulerError, match=r"cannot write .*: No space left on device") as caught:
        row.run()
    assert caught.value.exit_code == 1
    assert row.files() == {"data/a.txt"}


def test_progress_and_finished_phases_are_reported(row):
    reported, finished = [], []
    row.run(
        progress=lambda *words: reported.append(words),
        finished=lambda number, done: finished.append(done.phase.name),
    )
    assert reported == [(0, "first", 0.0), (1, "second", 0.0)]
    assert finished == ["first", "second"]
