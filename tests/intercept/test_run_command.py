"""Scripts under `hybrid-scheduler run` against plain Python: output, errors, exit codes, with and without a GPU."""

import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "hybrid_scheduler", "run", "-q"]


def outcome(command, environment):
    lines = "first line\nsecond line\n"
    done = subprocess.run(command, env=environment, input=lines, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


#: Scripts by name.
_PARTS = (Path(__file__).parent / "scripts.txt").read_text(encoding="utf-8").split("#### ")[1:]
SCRIPTS = {name: text for name, _, text in (part.partition("\n") for part in _PARTS)}


@pytest.mark.parametrize("backend", ["fake", "none"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_does_under_python(name, backend, environment, tmp_path):
    if backend == "none" and "numpy" in name:
        pytest.skip("it is plain Python")
    environment["HYBRID_SCHEDULER_BACKEND"] = backend
    (tmp_path / "queue.py").write_text("OWN = 'the script has its own queue'\n")
    (tmp_path / "helper_module.py").write_text("def value():\n    return [[2]] and 3\n")
    (tmp_path / "script.py").write_text(SCRIPTS[name])
    words = ["script.py", "--flag", "-q", "a b"]
    assert outcome([*COMMAND, *words], environment) == outcome([sys.executable, *words], environment)


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfprint('\xc3\xa4')", b"# coding: latin-1\nprint('\xe4')", b"\xff", b""]
)
def test_encodings_are_those_of_python(content, environment, tmp_path):
    (tmp_path / "script.py").write_bytes(content + b"\nx = lambda a, b: a @ b\n" if content else b"")
    assert outcome([*COMMAND, "script.py"], environment) == outcome([sys.executable, "script.py"], environment)


@pytest.mark.parametrize("backend", ["fake", "none"])
def test_modules_folders_archives_and_links_run_as_under_python(backend, environment, tmp_path):
    environment["HYBRID_SCHEDULER_BACKEND"] = backend
    package = tmp_path / "package"
    package.mkdir()
    text = (
        "import sys, warnings\nwarnings.warn('w', stacklevel=2)\nprint(sys.argv, __name__, __package__, sys.path)\n"
    )
    (package / "__init__.py").write_text("print('imported once')\n")
    (package / "__main__.py").write_text(text + "from . import part\npart.fails()\n")
    (package / "part.py").write_text("def fails():\n    return 1 @ 2\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(text)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", text + "1 / 0\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "folder" / "__main__.py")
    for words in (["-m", "package", "x"], ["-m", "package.part"], ["folder", "y"], ["archive.zip"], ["link.py"]):
        assert outcome([*COMMAND, *words], environment) == outcome([sys.executable, *words], environment)


def test_options_of_python_stay(environment, tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys, warnings\nprint(sys.flags, sys.orig_argv[1:])\nwarnings.warn('x')\n"
    )
    plain = [sys.executable, "-W", "error", "-X", "utf8", "-O"]
    expected = outcome([*plain, "script.py"], environment)
    assert outcome([*plain, *COMMAND[1:], "script.py"], environment) == expected
    expected = outcome([*plain, "-u", "script.py"], environment)
    assert outcome([*plain, "-um", *COMMAND[2:], "script.py"], environment) == expected


def test_an_interrupt_ends_a_script_as_under_python(environment, tmp_path):
    (tmp_path / "script.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ended = outcome([*COMMAND, "script.py"], environment)
    assert ended == outcome([sys.executable, "script.py"], environment)
    assert ended[0] == -signal.SIGINT  # a shell says 130


def test_without_a_gpu_one_line_says_so(environment, tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint(any('hybrid' in name for name in sys.modules))")
    environment["HYBRID_SCHEDULER_BACKEND"] = "none"
    command = [word for word in COMMAND if word != "-q"]
    code, out, error = outcome([*command, "script.py"], environment)
    assert (code, out) == (0, "False\n")
    assert error == "hybrid-scheduler: HYBRID_SCHEDULER_BACKEND says none; everything runs on the CPU\n"


def test_the_program_imports_neither_torch_nor_what_the_package_does_not_need(environment, tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys\nprint('numpy' in sys.modules)\nimport numpy as np\nnp.linalg.inv(np.eye(200))\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numba', 'pandas', 'pydantic',"
        "'sklearn', 'typer', 'rich', 'loguru', 'fastapi', 'scipy'}))"
    )
    assert outcome([*COMMAND, "script.py"], environment) == (0, "False\n[]\n", "")


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["scrpt.py"], ["script", "a Python file that exists", "'scrpt.py'", "did you mean script.py?"]),
        (["-m", "scrpt"], ["module", "can be imported", "'scrpt'", "did you mean script?"]),
        (["-m", "package.nothing"], ["module", "'package.nothing'"]),
        (["-m", "package"], ["__main__.py", "'package'"]),
        (["package"], ["script", "__main__.py", "'package'"]),
        (["--only", "slove", "script.py"], ["only", "one of", "'slove'", "did you mean 'solve'?"]),
        (["--only", "numpy.linalg.slove", "script.py"], ["did you mean 'numpy.linalg.solve'?"]),
        (["--device", "gpuu", "script.py"], ["device", "'gpuu'", "did you mean 'gpu'?"]),
        (["--onyl", "solve", "script.py"], ["option", "'--onyl'", "did you mean '--only'?"]),
        (["--only"], ["--only", "followed by a value"]),
        ([], ["script", "a Python file", "--help"]),
    ],
)
def test_bad_input_is_explained_before_anything_runs(words, texts, environment, tmp_path):
    (tmp_path / "script.py").write_text("print('it ran')")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("print('it ran')")
    code, out, error = outcome([*COMMAND, *words], environment)
    assert (code, out) == (2, "")
    assert all(text in error for text in texts)
    assert len(error.splitlines()) <= 2


def test_help_is_the_same_with_and_without_the_parser_of_the_other_commands(environment):
    code, out, _ = outcome([*COMMAND, "--help"], environment)
    assert code == 0
    assert "SCRIPT [ARGUMENTS]" in out
    everything = outcome([sys.executable, "-m", "hybrid_scheduler", "--help"], environment)[1]
    assert "Run an unchanged Python script" in everything


def test_shared_options_may_stand_before_the_command(environment, tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv)")
    words = [sys.executable, "-m", "hybrid_scheduler", "-q", "run", "script.py", "--config", "-q"]
    assert outcome(words, environment) == (0, "['script.py', '--config', '-q']\n", "")
