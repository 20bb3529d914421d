"""The table of `simulate` at several widths, on six tasks whose numbers are easily checked by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TRACE = """\
task_id,size,compute_intensity,memory_required,arrival_time
0,2500,0.5,160,0.0
1,2500,0.5,160,0.0
2,900,0.1,1600,0.1
3,1600,0.9,16,0.5
4,100,0.3,320,2.0
5,4900,1.0,500,2.5
"""

ARGUMENTS = ("simulate", "--trace", "six.csv", "--schedulers", "cpu_only,gpu_only,round_robin,oracle")

PIPE = """\
trace six.csv, offers 0.0611 × capacity · 6 tasks · seed 42
workstation (1 CPU + 4 GPUs) · analytic physics · lower bound 2.70 s · mean latency at least 107 ms

                  latency   p99  p99.9   max  time  mean /  span /  energy  cost     load
scheduler        mean, ms    ms     ms    ms    ms   bound   bound       J    µ$  balance
★ Per-task best       123   202    202   202   123    1.15    1.00    52.0  86.2    0.678
+ GPU only            165   259    260   260   165    1.54    1.02    49.6   101    0.588
■ Round Robin         531   906    914   915   330    4.95    1.26    70.0  65.3    0.250
▽ CPU only            727  1080   1080  1080   380    6.77    1.26    68.5  48.5    0.200

GPU only leads: 1.5 × the lower bound, 3.2 × faster than Round Robin; one run, without an interval.
CPU only loses: it picks slower devices: it uses 2.3 × the device time.
Round Robin loses: it splits 50 % of the tasks and uses 2.2 × the device time.
"""
AT_80 = """\
 trace six.csv, offers 0.0611 × capacity · 6 tasks · seed 42
 workstation (1 CPU + 4 GPUs) · analytic physics · lower bound 2.70 s
 mean latency at least 107 ms

                  latency  p99 p99.9  max time mean / span / energy cost    load
 scheduler       mean, ms   ms    ms   ms   ms  bound  bound      J   µ$ balance
 ───────────────────────────────────────────────────────────────────────────────
 ★ Per-task best      123  202   202  202  123   1.15   1.00   52.0 86.2   0.678
 + GPU only           165  259   260  260  165   1.54   1.02   49.6  101   0.588
 ■ Round Robin        531  906   914  915  330   4.95   1.26   70.0 65.3   0.250
 ▽ CPU only           727 1080  1080 1080  380   6.77   1.26   68.5 48.5   0.200

 GPU only leads: 1.5 × the lower bound, 3.2 × faster than Round Robin; one run,
 without an interval.
 CPU only loses: it picks slower devices: it uses 2.3 × the device time.
 Round Robin loses: it splits 50 % of the tasks and uses 2.2 × the device time.
"""
AT_50 = """\
 trace six.csv, offers 0.0611 × capacity
 6 tasks · seed 42
 workstation (1 CPU + 4 GPUs) · analytic physics
 lower bound 2.70 s
 mean latency at least 107 ms

                  latency  p99 span / energy cost
 scheduler       mean, ms   ms  bound      J   µ$
 ────────────────────────────────────────────────
 ★ Per-task best      123  202   1.00   52.0 86.2
 + GPU only           165  259   1.02   49.6  101
 ■ Round Robin        531  906   1.26   70.0 65.3
 ▽ CPU only           727 1080   1.26   68.5 48.5

 GPU only leads: 1.5 × the lower bound, 3.2 ×
 faster than Round Robin; one run, without an
 interval.
 CPU only loses: it picks slower devices: it uses
 2.3 × the device time.
 Round Robin loses: it splits 50 % of the tasks
 and uses 2.2 × the device time.
"""


@pytest.fixture(autouse=True)
def _trace(_elsewhere: None) -> None:
    Path("six.csv").write_text(TRACE, encoding="utf-8")


def test_pipe_output_is_plain(run: Callable[..., Any]) -> None:
    result = run(*ARGUMENTS)
    assert result.exit_code == 0, result.output
    assert result.stdout == PIPE
    assert result.stderr == ""


@pytest.mark.parametrize(("width", "expected"), [(80, AT_80), (50, AT_50)])
def test_terminal_output_has_a_rule(
    width: int, expected: str, run: Callable[..., Any], terminal: Callable[[int], None]
) -> None:
    terminal(width)
    lines = run(*ARGUMENTS).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert [line.rstrip() for line in lines] == expected.splitlines()


def test_wide_terminal_shows_all_columns(run: Callable[..., Any], terminal: Callable[[int], None]) -> None:
    terminal(140)
    header = " ".join(run(*ARGUMENTS).stdout.splitlines()[3:5])
    for word in ("p50", "p95", "p99", "max", "wait", "slow-", "busy", "GPU", "balance", "energy", "cost", "/ s"):
        assert word in header


def test_best_value_is_highlighted(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    output = run(*ARGUMENTS).stdout
    (oracle,) = (line for line in output.splitlines() if "Per-task best" in line)
    assert "\x1b[1;32m" in oracle
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;32m" not in run(*ARGUMENTS).stdout


def test_overloaded_scheduler_is_marked(run: Callable[..., Any]) -> None:
    output = run("simulate", "--scenario", "mixed", "--utilisation", "0.6", "--schedulers", "greedy,oracle").stdout
    assert "▲ Greedy ↗" in output
    assert "★ Per-task best  " in output
    assert "↗ queue grows" in output


def test_batch_is_not_marked_as_growing(run: Callable[..., Any]) -> None:
    output = run("simulate", "--batch", "--tasks", "500", "--schedulers", "greedy").stdout
    assert "default, all at once · 500 tasks · seed 42" in output
    assert "queue grows" not in output


def test_caption_names_unusual_settings(run: Callable[..., Any]) -> None:
    output = run(
        "simulate", "--tasks", "50", "--scenario", "oom", "--platform", "accelerators", "--noise", "0.2",
        "--memory-policy", "fail", "--objective", "latency=1,energy=2", "--schedulers", "gpu_only,greedy",
    ).stdout  # fmt: skip
    assert "accelerators (1 CPU + 1 GPU + 1 TPU + 1 FPGA)" in output
    assert "noise σ 0.2 · memory policy fail · objective 1 latency + 2 energy" in output
    assert "tasks that failed for lack of memory: greedy " in output
