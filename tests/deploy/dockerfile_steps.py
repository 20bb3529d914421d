"""A Dockerfile read and carried out without an engine.

Every stage becomes a folder that stands for its root. COPY copies what .dockerignore lets through, RUN runs in a
shell with absolute paths moved below that folder, and the rest is remembered. Steps that cannot run outside a
container, or that would download a lot, are left to the caller.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    word: str
    flags: dict[str, str]
    rest: str

    def words(self) -> list[str]:
        """The arguments, written as JSON or for a shell."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass
class Stage:
    image: str
    name: str
    root: Path = Path()
    folder: str = "/"
    steps: list[Step] = field(default_factory=list)

    def one(self, word: str) -> Step:
        (found,) = (step for step in self.steps if step.word == word)
        return found

    @property
    def environment(self) -> dict[str, str]:
        pairs = [
            word.partition("=") for step in self.steps if step.word == "ENV" for word in shlex.split(step.rest)
        ]
        return {name: value for name, _, value in pairs}


def stages_of(dockerfile: Path) -> list[Stage]:
    lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    stages: list[Stage] = []
    for text in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not text.strip():
            continue
        word, rest = text.split(None, 1)
        flags = {}
        while found := re.match(r"--([\w-]+)=(\S+)\s+", rest):
            flags[found[1]] = found[2]
            rest = rest[found.end() :]
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            stages.append(Stage(image, name or "final"))
        else:
            stages[-1].steps.append(Step(word, flags, re.sub(r"\s+", " ", rest.strip())))
    return stages


def is_sent(name: str, dockerignore: list[str]) -> bool:
    """Whether .dockerignore lets this path of the context through: the last pattern that fits decides."""
    sent = True
    parents = [name, *map(str, Path(name).parents)][:-1]
    for pattern in dockerignore:
        plain = pattern.removeprefix("!").lstrip("/")
        forms = [plain, plain.removeprefix("**/")]
        if any(fnmatch.fnmatchcase(parent, form) for parent in parents for form in forms) or (
            plain.startswith("**/") and any(part == plain[3:] for part in Path(name).parts)
        ):
            sent = pattern.startswith("!")
    return sent


class Build:
    """Carries out one stage after the other. `instead` answers True for a RUN that it has taken care of."""

    def __init__(
        self, context: Path, folder: Path, environment: dict[str, str], instead: Callable[[Stage, str], bool]
    ) -> None:
        self.context, self.folder, self.environment, self.instead = context, folder, environment, instead
        ignored = (context / ".dockerignore").read_text(encoding="utf-8").splitlines()
        self.ignored = [line for line in ignored if line and not line.startswith("#")]
        self.stages: dict[str, Stage] = {}

    def run(self, stage: Stage) -> Stage:
        stage.root = self.folder / stage.name
        stage.root.mkdir(parents=True)
        self.stages[stage.name] = stage
        arguments: dict[str, str] = {}
        for step in stage.steps:
            if step.word == "WORKDIR":
                stage.folder = step.rest
                self.inside(stage).mkdir(parents=True, exist_ok=True)
            elif step.word == "ARG":
                name, _, value = step.rest.partition("=")
                arguments[name] = value
            elif step.word == "COPY":
                self.copy(stage, step)
            elif step.word == "RUN" and not self.instead(stage, step.rest):
                self.shell(stage, self.moved(stage, step.rest), arguments)
        return stage

    def inside(self, stage: Stage, path: str = "") -> Path:
        return stage.root / (Path(stage.folder) / path).as_posix().lstrip("/")

    def moved(self, stage: Stage, text: str) -> str:
        return re.sub(r"(?<![\w.$*])/(build|opt|data)\b", rf"{stage.root}/\1", text)

    def shell(self, stage: Stage, command: str, arguments: dict[str, str]) -> None:
        done = subprocess.run(
            ["sh", "-euc", command], cwd=self.inside(stage), env={**self.environment, **arguments},
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def copy(self, stage: Stage, step: Step) -> None:
        *sources, target = step.words()
        goal = self.inside(stage, target)
        other = self.stages.get(step.flags.get("from", ""))
        for source in sources:
            origin = self.inside(other, source) if other else self.context / source
            assert origin.exists(), f"COPY {source}: does not exist"
            if origin.is_file():
                assert other or is_sent(source, self.ignored), f"COPY {source}: is in .dockerignore"
                goal.mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, goal / origin.name)
            else:
                leave = (lambda *_: []) if other else self._unsent
                shutil.copytree(origin, goal, symlinks=True, ignore=leave, dirs_exist_ok=True)
                assert any(goal.iterdir()), f"COPY {source}: everything is in .dockerignore"

    def _unsent(self, folder: str, names: list[str]) -> list[str]:
        base = Path(os.path.relpath(folder, self.context))
        return [name for name in names if not is_sent((base / name).as_posix(), self.ignored)]
