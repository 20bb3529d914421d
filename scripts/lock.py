"""Write requirements.txt, the pinned and hashed lock, from pyproject.toml.

    .venv/bin/python scripts/lock.py              keep the present pins, change what pyproject.toml asks for
    .venv/bin/python scripts/lock.py --upgrade    move every pin to the newest release

Other arguments go to `uv pip compile` as they are (`--upgrade-package numpy`).

One lock serves Linux, macOS and Windows on every supported Python: it is resolved for all of them at once,
and what only one of them needs carries a marker. A lock resolved for a single machine would fail elsewhere,
because with --require-hashes every package has to be listed. uv reads the public registry and none of
pip's configuration, so a local mirror or wheel folder leaves no trace in the file.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("dev", "bench", "exact", "learning", "ray")
# torch is installed by scripts/bootstrap.py before the rest, because its builds (CPU, CUDA) share one version but
# not their hashes; here it would pull in gigabytes of CUDA packages. A marker that never holds keeps it out.
LEFT_OUT = "torch ; python_version < '3'"
HEADER = """\
# The lock: every package with its version and the hashes of its files. Written by scripts/lock.py from
# pyproject.toml; do not edit. Install with: pip install --require-hashes -r requirements.txt

"""


def main() -> int:
    if find_spec("uv") is None:
        print("error: uv is missing\nhint: run this with the Python of .venv", file=sys.stderr)
        return 1
    lock = ROOT / "requirements.txt"
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--output-file", lock.name]
    command += ["--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-config"]
    # One version for all Pythons, so that a result does not depend on which one ran it.
    command += ["--fork-strategy", "fewest"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    for extra in EXTRAS:
        command += ["--extra", extra]

    command += ["--override", "-"]
    done = subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, input=LEFT_OUT, text=True)
    if done.returncode:
        return done.returncode
    lock.write_text(HEADER + lock.read_text(encoding="utf-8"), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
