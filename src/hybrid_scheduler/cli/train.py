"""`hybrid-scheduler train`: models from scratch, or a duration model from the history of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import PLATFORMS, Floats, InvalidInputError, Platform, Workload, platform_named, workstation
from .command_context import CommandContext
from .options import check_folder, with_options
from .printer import significant

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..storage import DatabaseAddress

#: Steps of the progress bar for each model.
_FOREST = 100
_AGENT = 900
#: Newest rows of each source of history to learn from.
_MAX_ROWS = 4000


@with_options(
    seed={"show_default": "0"}, out={"show_default": "models"}, model_type={"show_default": "random_forest"}
)
def train(
    command: CommandContext,
    database_url: str | None = None,
    /,
    release: bool = False,
    seed: str | None = None,
    minutes: float = 3.0,
    out: Path | None = None,
    from_history: bool = False,
    model_type: str | None = None,
) -> None:
    """Train the models of hybrid_ml and rl_agent.

    Training uses tasks of every scenario with seeds below 1000. Seeds from 1000 to 2999 are for development;
    published figures use seeds from 3000 on. The agent learns from as many random machines and streams as --minutes
    allows; the one that ships has learned from hundreds. With --from-history one model learns from tasks on the
    newest run's platform: the tables training_data and scheduler_results, and the CSV file of the history.

    \b
    Examples:
      hybrid-scheduler train --minutes 1
      hybrid-scheduler train --from-history --model-type xgboost
      hybrid-scheduler train --from-history sqlite:///data/hybrid_scheduler.db
      hybrid-scheduler simulate --schedulers "hybrid_ml(model=models/scheduler_model.skops),oracle"

    Parameters
    ----------
    release
        Replace the models inside the package.
    seed : N
        Random seed; equal seeds give equal models.
    minutes : M
        Limit of processor time for the agent.
    out : DIR
        Folder of the models.
    from_history
        Train a duration model from a database's finished tasks.
    model_type : NAME
        Kind of model for --from-history.
    database_url : [DATABASE_URL]
        Database for --from-history; the settings' one if left out.
    """
    settings = command.settings()
    number = _seed(seed)
    _check(release, minutes, out)
    if from_history:
        from ..storage import DatabaseAddress

        if release:
            raise InvalidInputError("--release", "left out with --from-history", "--release")

        address = settings.storage.address() if database_url is None else DatabaseAddress.from_url(database_url)
        csv = settings.storage.history_csv if database_url is None else ""
        _train_from_history(command, address, csv, model_type or "random_forest", number, (out or Path("models")))
        return
    _refuse_history_options(model_type, database_url)
    from ..learning.agent.model_file import SHIPPED_MODEL
    from ..learning.offline_trainer import train_default_duration_model
    from ..schedulers.rl_agent import train_agent

    folder = out or Path("models")
    forest = folder / "scheduler_model.skops"
    agent = SHIPPED_MODEL if release else folder / "rl_agent.safetensors"
    command.after_interrupt = "a finished model is kept; the other is unchanged"
    with command.printer.progress(_FOREST + _AGENT) as update:
        update("forest", 0)
        metrics = {} if release else train_default_duration_model(forest, number)  # no forest ships
        if metrics:
            command.printer.note(f"wrote {forest}")
        update("agent", _FOREST)
        model = train_agent(
            seed=number, minutes=minutes, progress=lambda share: update("agent", _FOREST + int(share * _AGENT))
        )
        model.save_model(agent)
        command.printer.note(f"wrote {agent}")
    lines = [*([["forest", *_facts(metrics)]] if metrics else []), ["agent", *_facts(model.notes)]]
    document = {"seed": number, "forest": metrics, "agent": model.notes}
    command.printer.outcome(document, lambda: command.printer.lines(lines))


def _check(release: bool, minutes: float, out: Path | None) -> None:

    if not 0 < minutes < float("inf"):
        raise InvalidInputError("--minutes", "a finite number > 0", minutes)
    if release and out is not None:
        raise InvalidInputError("--out", "left out with --release", str(out))
    check_folder("--out", out)


def _seed(text: str | None) -> int:
    """Parse the seed; it is not the settings' seed, because models must not depend on what is simulated."""
    from ..experiments import FIRST_DEVELOPMENT_SEED

    if text is None:
        return 0
    if not text.isdecimal() or int(text) >= FIRST_DEVELOPMENT_SEED:
        hint = "training uses seeds below 1000; development and published figures use later ones"
        raise InvalidInputError("--seed", "a whole number from 0 to 999", text, hint=hint)
    return int(text)


def _facts(notes: dict[str, Any]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} {significant(value) if isinstance(value, float) else value}"
        for name, value in notes.items()
    ]


# -------------------------------------------------------------------- from history


def _refuse_history_options(model_type: str | None, database_url: str | None) -> None:

    for name, value in (("--model-type", model_type), ("DATABASE_URL", database_url)):
        if value is not None:
            raise InvalidInputError(name, "left out without --from-history", value)


def _train_from_history(
    command: CommandContext,
    address: DatabaseAddress,
    csv: str,
    model_type: str,
    seed: int,
    folder: Path,
) -> None:
    from ..learning.offline_trainer import OfflineTrainer

    platform, sources = _history_rows(address, csv)
    trainer = OfflineTrainer(model_type, platform=platform, seed=seed)
    tasks, seconds = _samples(sources)
    path = folder / "scheduler_model.skops"
    metrics = trainer.train_on_history(tasks, seconds, path)["metrics"]
    counts = {name: len(rows) for name, rows in sources.items()}
    lines = [
        ["history", *(f"{count:,} rows of {name}" for name, count in counts.items())],
        [model_type, *_facts(metrics)],
        [f"wrote {path}"],
        [f'use it: hybrid-scheduler simulate --schedulers "hybrid_ml(model={path}),oracle"'],
    ]
    document = {"seed": seed, "rows": counts, "metrics": metrics, "model": str(path)}
    command.printer.outcome(document, lambda: command.printer.lines(lines))


def _history_rows(address: DatabaseAddress, csv: str) -> tuple[Platform, dict[str, Floats]]:
    """Return the newest run's platform, and by source rows of size, intensity, memory, CPU and GPU seconds."""
    from ..storage.history_analysis import training_rows
    from ..storage.history_csv import read_history

    name, optima, finished = training_rows(address, _MAX_ROWS)
    platform = platform_named(name) if name in PLATFORMS else workstation()
    learned = platform.class_of[platform.accelerators[0]] if len(platform.accelerators) else -1
    others = {d.name for d, own in zip(platform.devices, platform.class_of, strict=True) if own != learned}
    others = others if name in PLATFORMS else set()
    sources = {
        "training_data": _whole_seconds([(*row, row[4]) for row in optima]),
        "scheduler_results": _whole_seconds(
            [(*row[:5], None if row[6] in others else row[5]) for row in finished],
        ),
    }
    if csv and Path(csv).exists():
        try:
            kept, fraction, optimum = read_history(csv)
        except InvalidInputError as error:
            if error.got != "none":  # an empty file is no mistake
                raise
        else:
            about = (kept.size, kept.compute_intensity, kept.memory_required, fraction, optimum, optimum)
            sources[Path(csv).name] = _whole_seconds(np.column_stack(about)[-_MAX_ROWS:])
    return platform, sources


def _whole_seconds(rows: ArrayLike) -> Floats:
    """Return rows with the seconds of whole tasks on CPU and GPU, from a GPU's share and the seconds of both parts.

    The parts of a task alone under its best share end together. Rows that say nothing of either device are left
    out.
    """
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)  # None becomes NaN
    share, cpu, gpu = table[:, 3:].T.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        table[:, 3] = np.where((share < 1.0) & (cpu != 0.0), cpu / (1.0 - share), np.nan)
        table[:, 4] = np.where((share > 0.0) & (gpu > 0.0), gpu / share, np.nan)
    return table[np.isfinite(table[:, 3:5]).any(axis=1), :5]


def _samples(sources: dict[str, Floats]) -> tuple[Workload, Floats]:
    """Return the tasks of all sources and their seconds; a task that appears several times counts once."""
    rows = np.concatenate(list(sources.values()))
    if not len(rows):
        hint = "let tasks finish first: hybrid-scheduler serve"
        raise InvalidInputError("history", "a database with finished tasks", "none", hint=hint)
    about, which = np.unique(rows[:, :3], axis=0, return_inverse=True)
    seconds = np.full((len(about), 2), np.nan)
    for column in (0, 1):
        known = np.isfinite(rows[:, 3 + column])
        total, count = (
            np.bincount(which[known], weights, len(about)) for weights in (rows[known, 3 + column], None)
        )
        seconds[count > 0, column] = total[count > 0] / count[count > 0]
    size, intensity, memory = about.T
    tasks = Workload(
        task_id=np.arange(len(about)), size=size, compute_intensity=intensity, memory_required=memory,
        arrival_time=np.zeros(len(about)),
    )  # fmt: skip
    return tasks, seconds
