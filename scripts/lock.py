"""Write the locks, which pin every package with its hashes, from pyproject.toml.

    python scripts/lock.py              keep the present pins, change what pyproject.toml asks for
    python scripts/lock.py --upgrade    move every pin to the newest release

Other arguments go to `uv pip compile` as they are (`--upgrade-package numpy`).

requirements.txt holds what the server and the command line need, requirements-dev.txt what the checks and tests
need beside that, requirements-uv.txt uv, which installs both, requirements-node.txt Node for machines that have
none.

One lock serves Linux, macOS and Windows on every supported Python: it is resolved for all of them at once,
and what only one of them needs carries a marker. A lock resolved for a single machine would fail elsewhere,
because with --require-hashes every package has to be listed. uv reads the public registry and none of
pip's configuration, so a local mirror or wheel folder leaves no trace in the file.
"""

import re
import subprocess
import sys
from importlib.util import find_spec

from bootstrap import DEVELOPMENT, NODE, ROOT, RUN_TIME, UV, print_help_if_asked

#: Sources of each lock, as options of `uv pip compile`.
_RUN_TIME = ["pyproject.toml", "--extra", "server", "--extra", "report", "--extra", "postgres", "--group", "setup"]
_EXTRAS = ("dev", "bench", "exact", "learning", "gym", "ray")
SOURCES = {
    RUN_TIME: _RUN_TIME,
    DEVELOPMENT: [*_RUN_TIME, *(word for extra in _EXTRAS for word in ("--extra", extra))],
    UV: ["--group", "uv"],
    NODE: ["--group", "node"],
}
# torch is installed before the rest, because its builds (CPU, CUDA) share one version but not their hashes; here it
# would pull in gigabytes of CUDA packages. A marker that never holds keeps it out.
LEFT_OUT = "torch ; python_version < '3'"
_HEADER = """\
# {what}
# Every package with its version and the hashes of its files. Written by scripts/lock.py from pyproject.toml; do not
# edit. Install with:
{commands}

"""
HEADERS = {
    RUN_TIME: _HEADER.format(
        what="What the command line, the server and its dashboard need.",
        commands="#   pip install --require-hashes -r requirements.txt",
    ),
    DEVELOPMENT: _HEADER.format(
        what="What the checks and tests need beside requirements.txt.",
        commands="#   pip install torch==2.13.0\n#   pip install --require-hashes -r requirements-dev.txt",
    )
    + f"-r {RUN_TIME}\n",
    UV: _HEADER.format(
        what="uv, which installs the packages of the other locks and writes them.",
        commands="#   pip install --require-hashes -r requirements-uv.txt",
    ),
    NODE: _HEADER.format(
        what="Node, for machines that have none or one that is too old to build the dashboard.",
        commands="#   pip install --require-hashes -r requirements-node.txt",
    ),
}


def compiled(name: str, arguments: list[str]) -> str:
    """Return the packages of a lock; its present pins are kept unless the arguments say otherwise."""
    command = [sys.executable, "-m", "uv", "pip", "compile", *SOURCES[name], "--output-file", name]
    command += ["--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-config"]
    # One version for all Pythons, so that a result does not depend on which one ran it.
    command += ["--fork-strategy", "fewest"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--override", "-"]
    if name == DEVELOPMENT:
        command += ["--constraint", RUN_TIME]
    subprocess.run([*command, *arguments], cwd=ROOT, input=LEFT_OUT, text=True, check=True)
    return (ROOT / name).read_text(encoding="utf-8")


def packages(text: str) -> list[str]:
    """Split a lock into its packages, each a pin and the lines of its hashes."""
    return re.findall(r"^[A-Za-z0-9].*\n(?:    --hash=.*\n)+", text, re.MULTILINE)


def main() -> int:
    if find_spec("uv") is None:
        print("error: uv is missing\nhint: run this with the Python of .venv", file=sys.stderr)
        return 1
    listed: set[str] = set()
    try:
        for name in SOURCES:
            found = packages(compiled(name, sys.argv[1:]))
            text = HEADERS[name] + "".join(package for package in found if package not in listed)
            (ROOT / name).write_text(text, encoding="utf-8", newline="\n")
            listed.update(found)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    sys.exit(main())
