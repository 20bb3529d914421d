"""Notebooks: each runs from top to bottom in an empty folder, and has a goal, outputs and links."""

import re
import sys
from pathlib import Path

import nbformat
import pytest

import make_notebooks
from make_notebooks import MAX_PICTURE, NOTEBOOKS, PICTURES, ROOT, THUMBNAIL, execute, pictures, read

NAMES = make_notebooks.names()
#: It shows policies of the former shift study, and is to be rewritten for registered schedulers.
REWRITTEN = "distribution-shift"
EXPECTED = {
    "distribution-shift",
    "exploring-a-workload",
    "reading-a-gantt",
    "real-vs-simulated",
    "training-the-forest",
    "watching-the-agent-learn",
}


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def outputs(notebook):
    return [output for cell in code(notebook) for output in cell.outputs]


def test_all_six_notebooks_exist():
    assert set(NAMES) == EXPECTED


#: Repetitions that make a result more certain, but run no other code; --all has them all.
FEWER = {"0.95, (0, 1, 2, 3)": "0.95, (0, 1)", "budget=6": "budget=2"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_notebook_runs_in_an_empty_folder(tmp_path, pytestconfig):
    """One kernel for all, because it imports the libraries once; each notebook begins without names."""
    notebooks = {name: read(name) for name in NAMES}
    together = nbformat.v4.new_notebook()
    for name, notebook in notebooks.items():
        if name == REWRITTEN:
            continue
        folder = tmp_path / name
        folder.mkdir()
        together.cells.append(nbformat.v4.new_code_cell(f"%reset -f\nimport os\nos.chdir({str(folder)!r})\ndel os"))
        for cell in code(notebook):
            cell.outputs = []
            if not pytestconfig.getoption("--all"):
                for full, fewer in FEWER.items():
                    cell.source = cell.source.replace(full, fewer)
        together.cells += code(notebook)
    execute(together, tmp_path)
    assert [cell.execution_count for cell in together.cells] == list(range(1, len(together.cells) + 1))
    for name, notebook in notebooks.items():
        assert [output.text for output in outputs(notebook) if output.get("name") == "stderr"] == [], name
        assert pictures(notebook), name


@pytest.mark.parametrize("name", NAMES)
def test_notebook_states_its_goal_and_asserts(name):
    notebook = read(name)
    first = prose(notebook)[0].split("\n\n")
    assert notebook.cells[0].cell_type == "markdown"
    assert re.fullmatch(r"# \w.*", first[0])
    assert re.fullmatch(r"\*\*What you learn:\*\* [^\n]+\.", first[1])
    assert 5 <= len(code(notebook)) <= 12
    assert any("assert " in cell.source for cell in code(notebook))


@pytest.mark.parametrize("name", NAMES)
def test_notebook_ends_with_links_that_exist(name):
    last = prose(read(name))[-1]
    _, found, links = last.partition("## Where next\n")
    assert found
    targets = re.findall(r"\]\(([^)#]+)(?:#([^)]*))?\)", links)
    assert len(targets) >= 3
    for path, anchor in targets:
        target = NOTEBOOKS / path
        assert target.is_file(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {words.lower().replace(" ", "-").replace("`", "") for words in headings}


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_complete_small_and_machine_independent(name):
    notebook = read(name)
    text = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert all(cell.execution_count for cell in code(notebook))
    assert not any(output.output_type == "error" or output.get("name") == "stderr" for output in outputs(notebook))
    assert all(len(picture) <= MAX_PICTURE for picture in pictures(notebook))
    assert [path.read_bytes() for path in PICTURES.glob(f"{name}.png")] == pictures(notebook, THUMBNAIL)
    assert str(ROOT) not in text
    assert str(Path.home()) + "/" not in text
    # Addresses of objects and times of execution would change with every run.
    assert not re.search(r"0x[0-9a-f]{6,}|\"iopub\.", text)
    assert notebook.metadata.language_info == {"name": "python"}


def test_guide_page_shows_every_notebook():
    page = (ROOT / "docs" / "guide" / "notebooks.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"{name}.ipynb" in page


def test_unknown_name_is_rejected(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["make_notebooks.py", "no-such-notebook"])
    with pytest.raises(SystemExit):
        make_notebooks.main()
    assert "no notebook 'no-such-notebook'; there are: distribution-shift" in capsys.readouterr().err
