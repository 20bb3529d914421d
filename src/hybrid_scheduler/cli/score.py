"""`hybrid-scheduler score`: scores of scheduler plug-ins that run in a sandbox."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..core import InvalidInputError
from .command_context import CommandContext, option_names
from .options import Inputs, with_options
from .printer import Column, Printer

if TYPE_CHECKING:
    from ..experiments.policy_score import PolicyScore, ScoredRun


@with_options(answer_seconds={"min": 0.01}, cpu_seconds={"min": 1}, policy_seconds={"min": 1}, memory={"min": 500})
def score(
    command: CommandContext,
    inputs: Inputs,
    policies: list[Path],
    /,
    sealed: Path | None = None,
    out: Path | None = None,
    answer_seconds: float = 1.0,
    cpu_seconds: int = 60,
    policy_seconds: float = 3600,
    memory: int = 1000,
) -> None:
    """Score policies in a sandbox, by their distance to the lower bound.

    The score is the lower bound on the mean latency divided by the mean latency. It is the geometric mean over
    eight cases and the mean over seeds; 1 cannot be exceeded. A policy is a class derived from Online or Central,
    or a function decide(task, view) that returns device and share. It runs in a process of its own, without files,
    network or future tasks; it can read the clock, but not wait. One that breaks a rule or takes too long is
    disqualified, and the command exits with 1.

    \b
    Examples:
      hybrid-scheduler score examples/score_policy.py
      hybrid-scheduler score mine.py yours.py --sealed seeds.json
      hybrid-scheduler score mine.py --json --out worst

    Parameters
    ----------
    seeds
        Public seeds to use, 1 to 5; all by default.
    policies : FILE...
        Python files with one policy each: a scheduler plug-in.
    sealed : FILE
        Score on the private seeds of this JSON list instead of the public ones.
    out : DIR
        Write the worst cases as traces to this folder.
    answer_seconds : S
        CPU seconds that a policy may take for one decision.
    cpu_seconds : S
        CPU seconds that a policy may take in one run.
    policy_seconds : S
        Seconds by the clock that a policy may take in all runs.
    memory : MB
        Address space of a policy, Python included.
    """
    began = time.process_time()
    command.settings()
    from ..experiments.policy_sandbox import PolicyLimits, PolicySandbox, read_policy
    from ..experiments.policy_score import PUBLIC_SEEDS, ScoreSet, score_policy, sealed_seeds

    sources = {path: read_policy(path) for path in policies}
    count = len(PUBLIC_SEEDS) if inputs.seeds is None else inputs.seeds
    if not 1 <= count <= len(PUBLIC_SEEDS):
        raise InvalidInputError("--seeds", f"a whole number from 1 to {len(PUBLIC_SEEDS)}", count)
    with option_names(path="--sealed"):
        chosen = ScoreSet(sealed_seeds(sealed) if sealed else PUBLIC_SEEDS[:count])
    limits = PolicyLimits(answer_seconds, cpu_seconds, memory, 30 * answer_seconds, policy_seconds)
    printer = command.printer
    found = []
    with (
        PolicySandbox(limits) as sandbox,
        command.printer.progress(len(chosen) * len(sources)) as update,
    ):
        done = 0
        for path, source in sources.items():

            def progress(run: ScoredRun, path: Path = path) -> None:
                nonlocal done
                done += 1
                if done == 1:
                    seconds = time.process_time() - began
                    result = f"{path.name} has {run.score:.3f} on {run.case.name}"
                    printer.note(f"first result: {result}, after {seconds:.1f} s of CPU time")
                update(path.name, done)

            found.append(
                score_policy(path.stem, source, chosen, sandbox, show_worst=sealed is None, progress=progress)
            )
    documents = [score.as_dict() for score in found]
    printer.outcome(
        documents[0] if len(documents) == 1 else {"policies": documents},
        lambda: _show(printer, found, len(chosen.seeds), sealed is not None),
    )
    if out is not None:
        _write(out, found, printer)
    if found and not found[0].sandboxed and found[0].sandboxed is not None:
        command.show_warning("this system has no filter of system calls: score only policies that you trust")
    if any(score.disqualified for score in found):
        raise typer.Exit(1)


def _show(printer: Printer, found: list[PolicyScore], seeds: int, sealed: bool) -> None:
    from ..experiments.policy_score import REFERENCES

    for score in found:
        if score.disqualified:
            printer.text(f"{score.name}: disqualified, {score.disqualified}")
            printer.text()
            continue
        interval = score.interval
        width = f" ± {interval.half_width:.3f}" if interval.low == interval.low else ""
        facts = [
            f"{score.name}: score {interval.mean:.3f}{width}",
            f"{seeds} {'private' if sealed else 'public'} seeds",
        ]
        rows = [*score.by_case(), ("all cases", score.figures())]
        printer.result(
            [facts],
            [
                Column("case", [name for name, _ in rows], number=False),
                Column("mean\n÷ bound", [f"{row['mean_over_floor']:.2f}" for _, row in rows]),
                *(
                    Column(f"mean ÷\n{name}", [f"{row[f'mean_over_{name}']:.2f}" for _, row in rows], rank)
                    for rank, name in enumerate(REFERENCES, 1)
                ),
                Column("p99 ÷\nearliest_finish", [f"{row['p99_over_earliest_finish']:.2f}" for _, row in rows], 4),
            ],
            remarks=[
                f"worst: {case.ratio:.2f} × the latency of {case.reference} on {case.tasks} tasks of {case.case}"
                for case in score.worst
            ],
        )
        printer.text()


def _write(folder: Path, found: list[PolicyScore], printer: Printer) -> None:
    """Write every worst case as a native trace."""
    folder.mkdir(parents=True, exist_ok=True)
    for score in found:
        for position, case in enumerate(score.worst, 1):
            file = folder / f"{score.name}-{position}.csv"
            file.write_text(case.trace, encoding="utf-8")
            printer.note(f"{file}: replay with simulate --trace {file} --schedulers {case.reference}")
