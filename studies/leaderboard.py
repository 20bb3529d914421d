"""Leaderboard of all online and central schedulers and of the example policies, by the score of `score`.

    python -m studies.leaderboard              20 seeds from 3000 on, about five minutes on one core

Result: docs/guide/leaderboard.md and docs/results/leaderboard.json. The package's schedulers run in this process,
example policies in the sandbox. All of them get the cases of `hybrid-scheduler score` with other seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.experiments.policy_sandbox import PolicySandbox
from hybrid_scheduler.experiments.policy_score import CASES, PolicyScore, ScoreSet, built_in, score_policy
from hybrid_scheduler.experiments.spec import single_threaded
from hybrid_scheduler.schedulers import schedulers

_PAGE, _DATA = Path("docs/guide/leaderboard.md"), Path("docs/results/leaderboard.json")
#: Example policies, each with the durations that it knows.
EXAMPLES = {"examples/my_scheduler.py": "nothing", "examples/score_policy.py": "told"}
_KNOWS = {"nothing": "none", "told": "expected", "realised": "realised"}

_TEXT = """<!-- Written by studies/leaderboard.py: change the program, not this page. -->

# Leaderboard

Score of every [online and central scheduler](schedulers/index.md), and of the example policies: the lower bound on
the mean latency divided by the mean latency. It is the geometric mean over {cases} cases of {tasks} tasks, and the
mean over {seeds} seeds from {first} on with its 95 % interval. 1 cannot be exceeded. Ratios are geometric means
over all cases and seeds. The last column says which durations a policy knows.

```bash
python -m studies.leaderboard
```

{table}

Cases: {names}.

Mean latency alone decides the score; the tail stands beside it. Put your own policy into the same contest with
[`hybrid-scheduler score`](howto/score-a-policy.md).
"""


def measure(seeds: int, first: int = FIRST_REPORTED_SEED) -> list[dict[str, Any]]:
    """Return the rows of the table, best first."""
    chosen = ScoreSet(range(first, first + seeds))
    rows = []
    names = [name for name, info in schedulers().items() if info.protocol in ("online", "central")]
    for name in names:
        with single_threaded([name]):
            rows.append(_row(chosen.score(name, built_in(name)), schedulers()[name].knows))
        print(rows[-1]["policy"], rows[-1]["score"], flush=True)
    with PolicySandbox() as sandbox:
        for file, knows in EXAMPLES.items():
            source = Path(file).read_text(encoding="utf-8")
            rows.append(_row(score_policy(file, source, chosen, sandbox, show_worst=False), knows))
    return sorted(rows, key=lambda row: -row["score"])


def _row(found: PolicyScore, knows: str) -> dict[str, Any]:
    assert found.disqualified is None, found.disqualified
    interval, figures = found.interval, found.figures()
    return {
        "policy": found.name,
        "knows": str(knows),
        "score": round(interval.mean, 4),
        "half_width": round(interval.half_width, 4),
        **{key: round(value, 3) for key, value in figures.items()},
    }


def page(rows: list[dict[str, Any]], seeds: int) -> str:
    """Return the page of the guide."""
    lines = [
        "| | policy | score | mean ÷ bound | mean ÷ earliest_finish | p99 ÷ earliest_finish | durations |",
        "|---|---|---|---|---|---|---|",
    ]
    for position, row in enumerate(rows, 1):
        name = row["policy"]
        cells = (
            f"{row['score']:.3f} ± {row['half_width']:.3f}",
            *(
                f"{row[key]:.2f}"
                for key in ("mean_over_floor", "mean_over_earliest_finish", "p99_over_earliest_finish")
            ),
            _KNOWS[row["knows"]],
        )
        lines.append(f"| {position} | `{name}` | {' | '.join(cells)} |")
    names = "; ".join(case.name for case in CASES)
    return _TEXT.format(
        cases=len(CASES),
        tasks=CASES[0].tasks,
        seeds=seeds,
        first=FIRST_REPORTED_SEED,
        table="\n".join(lines),
        names=names,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    rows = measure(seeds)
    _DATA.write_text(json.dumps({"seeds": seeds, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    _PAGE.write_text(page(rows, seeds), encoding="utf-8")
    print(_PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
