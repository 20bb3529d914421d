"""`hybrid-scheduler train`: training of the duration forest and of the RL agent from scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .command_context import CommandContext
from .options import JsonOption
from .table import significant

#: Steps of the progress bar for each model.
_FOREST, _AGENT = 100, 900


def train(
    context: typer.Context,
    release: Annotated[bool, typer.Option("--release", help="Replace the models inside the package.")] = False,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Same seed, same models.", show_default="0")] = None,
    minutes: Annotated[float, typer.Option(metavar="M", help="Limit of processor time for the agent.")] = 3.0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the models.", show_default="models")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train the models of hybrid_ml and rl_agent.

    Training uses tasks of every scenario with seeds below 1000; every published figure uses seeds from 1000 on. If
    --minutes stops the agent's training, the result depends on the machine's speed.

    \b
    Examples:
      hybrid-scheduler train --minutes 1
      hybrid-scheduler simulate --schedulers "hybrid_ml(model=models/scheduler_model.skops),oracle"
    """
    command: CommandContext = context.obj
    command.settings()
    number = _seed(seed)
    _check(release, minutes, out)
    from ..learning.dqn.training import train_default_agent
    from ..learning.model_files import DEFAULT_TIMES
    from ..learning.offline_trainer import train_default_times_model
    from ..schedulers.rl_agent import SHIPPED_MODEL

    folder = out or Path("models")
    forest = DEFAULT_TIMES if release else folder / "scheduler_model.skops"
    agent = SHIPPED_MODEL if release else folder / "rl_agent.safetensors"
    command.after_interrupt = "a finished model is kept; the other is unchanged"
    printer = command.printer
    with printer.progress(_FOREST + _AGENT) as update:
        update("forest", 0)
        metrics = train_default_times_model(forest, number)
        printer.note(f"wrote {forest}")
        update("agent", _FOREST)
        model = train_default_agent(
            agent, number, minutes, lambda share, _: update("agent", _FOREST + int(share * _AGENT))
        )
        printer.note(f"wrote {agent}")
    if as_json:
        printer.document({"seed": number, "forest": metrics, "agent": model.notes})
        return
    printer.facts(["forest", *_facts(metrics)])
    printer.facts(["agent", *_facts(model.notes)])


def _check(release: bool, minutes: float, out: Path | None) -> None:
    from ..core import InvalidInputError

    if not 0 < minutes < float("inf"):
        raise InvalidInputError("--minutes", "a finite number > 0", minutes)
    if release and out is not None:
        raise InvalidInputError("--out", "left out with --release", str(out))
    if out is not None and out.exists() and not out.is_dir():
        raise InvalidInputError("--out", "a folder", str(out))


def _seed(text: str | None) -> int:
    """Parse the seed; it is not the settings' seed, because models must not depend on what is simulated."""
    from ..core import InvalidInputError

    if text is None:
        return 0
    if not text.isdecimal() or int(text) >= 1000:
        hint = "seeds from 1000 on are for evaluation"
        raise InvalidInputError("--seed", "a whole number from 0 to 999", text, hint=hint)
    return int(text)


def _facts(notes: dict[str, Any]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} {significant(value) if isinstance(value, float) else value}"
        for name, value in notes.items()
    ]
