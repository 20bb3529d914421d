"""The commit-message hook accepts the rule of CONTRIBUTING.md and names what breaks it."""

from pathlib import Path

import pytest

from bootstrap import ROOT
from check_commit_message import main, problems


@pytest.mark.parametrize(
    "message",
    [
        "Bound makespan by release times\n",
        "Bound makespan by release times\n\nTasks cannot start before they arrive.\n",
        "Seed the generator of each scheduler\n",
        "Merge branch 'main' into a-very-long-name-of-a-branch-that-git-wrote-into-the-subject-itself\n",
        "fixup! Bound makespan by release times\n",
        "# Please enter the commit message\nBound makespan\n# On branch main\n",
        "Bound makespan\n# ------------------------ >8 ------------------------\ndiff --git a/x b/x\n",
        "# nothing but comments: git refuses this itself\n",
        "x".upper() * 72 + "\n",
    ],
)
def test_good_message_passes(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Bound " + "x" * 67, "subject: must have at most 72 characters, got 73"),
        ("Bound makespan.", "subject: must not end with a period"),
        ("bound makespan", "subject: must begin with a capital letter, got 'b'"),
        ("Fixed the bound", "subject: must begin with an imperative such as Add or Fix, got 'Fixed'"),
        ("Adding a bound", "subject: must begin with an imperative such as Add or Fix, got 'Adding'"),
        ("Adds a bound", "subject: must begin with an imperative such as Add or Fix, got 'Adds'"),
        ("Bound makespan\nby release times", "body: must be separated from the subject by an empty line"),
    ],
)
def test_broken_rule_is_named(message: str, problem: str) -> None:
    assert problems(message) == [problem]


def test_hook_prints_every_problem_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text("fixed it.\n", encoding="utf-8")
    assert main([str(file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "error", "error", "hint"]
    file.write_text("Fix it\n", encoding="utf-8")
    assert main([str(file)]) == 0
    assert main([]) == 2


def test_hook_is_configured_and_the_guide_states_the_rule() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "entry: python3 scripts/check_commit_message.py" in hooks
    assert "stages: [commit-msg]" in hooks
    assert "72" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Commits")[2]
