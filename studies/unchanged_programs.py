"""Six ordinary scripts, plain and under `hybrid-scheduler run`: whole wall time of fresh processes.

    python -m studies.unchanged_programs --output unchanged.json
    python -m studies.unchanged_programs --warm --output unchanged.json

Each round runs every script in every way, so that all ways see the same load. Ways: plain Python; `run` without a
helper process, which the script starts itself; with `--warm` also `run` with the helper that a program before it
left. Learned times are kept from round to round, as they are for a user. Only the standard library is needed here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Each script reads a factor of its sizes from the command line, and prints a number that all ways must agree on.
_HEAD = "import sys\nimport numpy as np\ns = float(sys.argv[1])\nrng = np.random.default_rng(7)\n"
SCRIPTS = {
    "deblurring": """\
n = int(3000 * s)
image = rng.random((n, n))
x = np.minimum(np.arange(n), n - np.arange(n))
kernel = np.exp(-(x[:, None] ** 2 + x[None, :] ** 2) / 50.0)
transfer = np.fft.fft2(kernel / kernel.sum())
blurred = np.fft.ifft2(np.fft.fft2(image) * transfer).real
for noise in (1e-1, 1e-2, 1e-3):
    wiener = np.conj(transfer) / (np.abs(transfer) ** 2 + noise)
    restored = np.fft.ifft2(np.fft.fft2(blurred) * wiener).real
print(f"{np.abs(restored - image).mean():.6f}")
""",
    "gaussian_process": """\
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist
n = int(4000 * s)
x = rng.normal(size=(n, 8))
y = np.sin(x.sum(1))
best = -np.inf
for length in (1.0, 2.0, 4.0):
    k = np.exp(-cdist(x, x, "sqeuclidean") / (2 * length**2)) + 0.1 * np.eye(n)
    factor = cholesky(k, lower=True)
    half = solve_triangular(factor, y, lower=True)
    best = max(best, -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum()))
print(f"{best:.4f}")
""",
    "spectral_clustering": """\
from scipy.spatial.distance import cdist
n = int(2500 * s)
x = np.concatenate([rng.normal(center, 0.5, size=(n // 5, 10)) for center in range(5)])
similar = np.exp(-cdist(x, x, "sqeuclidean") / 10.0)
degree = similar.sum(1)
values, vectors = np.linalg.eigh(np.eye(len(x)) - similar / np.sqrt(np.outer(degree, degree)))
print(f"{values[:5].sum():.6f}")
""",
    "quantiles": """\
n = int(12_000_000 * s)
total = 0.0
for scale in (0.5, 1.0, 2.0):
    losses = np.sort(rng.lognormal(0.0, scale, n))
    total += losses[int(0.99 * n)] + losses[int(0.999 * n) :].mean()
print(f"{total:.6f}")
""",
    "least_squares_path": """\
m, n = int(20_000 * s), int(1200 * s)
a = rng.normal(size=(m, n))
b = a @ rng.normal(size=n) + rng.normal(size=m)
gram = a.T @ a
right = a.T @ b
errors = []
for penalty in np.logspace(-3, 4, 12):
    x = np.linalg.solve(gram + penalty * np.eye(n), right)
    errors.append(float(((a @ x - b) ** 2).mean()))
print(f"{min(errors):.6f}")
""",
    "principal_components": """\
m, n = int(20_000 * s), int(1000 * s)
data = rng.normal(size=(m, 30)) @ rng.normal(size=(30, n)) + rng.normal(size=(m, n))
data -= data.mean(0)
u, values, vt = np.linalg.svd(data, full_matrices=False)
scores = data @ vt[:10].T
print(f"{(values[:10] ** 2).sum() / (values**2).sum():.6f} {scores.shape[1]}")
""",
}


def seconds_of(words: list[str], environment: dict[str, str], folder: Path) -> tuple[float, str, str]:
    """Return wall time, output, and the last line on stderr of a fresh process."""
    began = time.perf_counter()
    done = subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return seconds, done.stdout, (done.stderr.splitlines() or [""])[-1]


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all scripts in all ways, round by round, until the rounds or the seconds are over."""
    plain = dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), "HYBRID_SCHEDULER_CACHE": str(folder / "learned")}
    warm = plain | {"XDG_RUNTIME_DIR": tempfile.mkdtemp(dir=folder)}
    run = [sys.executable, "-m", "hybrid_scheduler", "run"]
    for name, text in SCRIPTS.items():
        (folder / f"{name}.py").write_text(_HEAD + text, encoding="utf-8")
    if options.warm:  # a program that leaves its helper
        (folder / "first.py").write_text("import numpy as np\nnp.sort(np.zeros(1 << 20))\n", encoding="utf-8")
        seconds_of([*run, "--device", "gpu", "first.py"], warm, folder)
    seconds: dict[str, dict[str, list[float]]] = {name: {} for name in SCRIPTS}
    notes: dict[str, str] = {}
    wrong: list[str] = []
    began = time.perf_counter()
    for number in range(options.rounds):
        longest = (time.perf_counter() - began) / max(number, 1)
        if number and time.perf_counter() - began + longest > options.seconds:
            break
        for name in SCRIPTS:
            words = [f"{name}.py", str(options.scale)]
            cold = plain | {"XDG_RUNTIME_DIR": tempfile.mkdtemp(dir=folder)}
            ways = {"plain": ([sys.executable, *words], plain), "run": ([*run, *words], cold)}
            if options.warm:
                ways["run, warm helper"] = [*run, *words], warm
            outputs = set()
            for way, (command, environment) in ways.items():
                taken, output, note = seconds_of(command, environment, folder)
                seconds[name].setdefault(way, []).append(taken)
                outputs.add(output)
                notes[f"{name}, {way}"] = note
            if len(outputs) > 1:
                wrong.append(f"{name}: {sorted(outputs)}")
            end_helpers(Path(cold["XDG_RUNTIME_DIR"]))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return {
        "machine": machine, "scale": options.scale, "seconds": seconds, "closing lines": notes, "differences": wrong
    }  # fmt: skip


def end_helpers(runtime: Path) -> None:
    """End the helpers below a folder, so that the next script has the machine for itself."""
    for lock in runtime.rglob("*.lock"):
        with suppress(ProcessLookupError, ValueError):
            os.kill(int(lock.read_text(encoding="ascii")), signal.SIGKILL)


def report(found: dict[str, Any]) -> str:
    """Return a table of medians and ranges, and the ratio to plain Python."""
    lines = [f"{'script':<22}{'way':<20}{'median s':>9}{'range':>16}{'/ plain':>9}"]
    for name, ways in found["seconds"].items():
        base = statistics.median(ways["plain"])
        for way, values in ways.items():
            middle = statistics.median(values)
            spread = f"{min(values):.2f} - {max(values):.2f}"
            lines.append(f"{name:<22}{way:<20}{middle:>9.2f}{spread:>16}{middle / base:>9.2f}")
    lines += [f"differs: {line}" for line in found["differences"]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all scripts in all ways")
    parser.add_argument("--seconds", type=float, default=210.0, help="begin no round that would end after them")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all sizes")
    parser.add_argument("--warm", action="store_true", help="also with a helper that an earlier program left")
    parser.add_argument("--output", type=Path, default=Path("unchanged_programs.json"), help="JSON with all values")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp())
    try:
        found = measure(options, folder)
    finally:
        end_helpers(folder)
        shutil.rmtree(folder)
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
