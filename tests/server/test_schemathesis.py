"""Requests made up from the OpenAPI document: never a 5xx, never an answer that is not described.

The program itself runs, in a process of its own, against a server on a real port.
"""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fault_scale import FULL, amount
from services import database_url, postgres_url  # noqa: F401
from test_backends import settings_of

from hybrid_scheduler.cluster import Machine
from hybrid_scheduler.experiments.what_if import WhatIfChange
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.composition import open_server, options_of
from hybrid_scheduler.server.server_process import Server, bound_socket, uvicorn_config
from hybrid_scheduler.server.whatif_worker import WhatIfCompiling, WhatIfJob, WhatIfWorker, compute

ALL_PHASES = "examples,coverage,fuzzing,stateful" if FULL else "examples,coverage,fuzzing"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "openapi.json"


def few_tasks(job):
    return compute(replace(job, tasks=50, seeds=2))


class SmallWorker(WhatIfWorker):
    """Worker that computes a small part of each request; generated ones ask for up to 400,000 decisions."""

    def __init__(self):
        super().__init__(few_tasks, keep=True)

    async def evidence(self, job):
        return await super().evidence(replace(job, tasks=job.tasks[-20:]))


async def prepared(worker) -> None:
    """Wait until the worker has loaded and compiled everything: until then, requests get 503."""
    while True:
        try:
            await worker.run(WhatIfJob(WhatIfChange(), Machine(), None, "default", ("greedy",), 50, 2))
            return
        except WhatIfCompiling:
            await asyncio.sleep(0.5)


def slowest_routes(context) -> str:
    """Return how many requests came, and the routes that took the most time."""
    seconds: dict[str, float] = {}
    requests: dict[str, float] = {}
    for family in context.metrics.seconds.collect():
        for sample in family.samples:
            for ending, found in (("_sum", seconds), ("_count", requests)):
                if sample.name.endswith(ending):
                    found[sample.labels["route"]] = sample.value
    first = sorted(seconds, key=seconds.get, reverse=True)[:5]
    slow = ", ".join(f"{route} {seconds[route]:.0f} s in {requests[route]:.0f}" for route in first)
    return f"{sum(requests.values()):.0f} requests in {sum(seconds.values()):.0f} s; most time: {slow}"


async def fuzzed(context, folder: Path, phases: str, examples: int) -> None:
    """Serve these context, and let schemathesis look for trouble in these ways."""
    await prepared(context.whatif_worker)
    ready = asyncio.Event()
    with bound_socket("127.0.0.1", 0) as listener:
        server = Server(uvicorn_config(create_app(context), context.options), context.hub, ready.set)
        serving = asyncio.create_task(server.serve([listener]))
        await ready.wait()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{url}/api/openapi.json", "--url", url,
            "--max-examples", str(examples), "--seed", "1", "--generation-deterministic",
            "--phases", phases, "--request-timeout", "60", "--no-color",
            # A name that fits the pattern need not be known, and bytes that fit "binary" are rarely a table.
            "--exclude-checks", "positive_data_acceptance",
        ]  # fmt: skip
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=pipe, stderr=pipe)
        output, errors = (text.decode() for text in await process.communicate())
        server.should_exit = True
        await serving
    assert process.returncode == 0, f"{slowest_routes(context)}\n{output[-6000:]}{errors[-2000:]}"
    documented = json.loads(DOCUMENTED.read_text(encoding="utf-8"))["paths"]
    assert f"Tested: {sum(map(len, documented.values()))}" in output


@pytest.mark.slow
# Most of these requests end before any database is asked, and contract tests compare both: once is enough.
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"] if FULL else ["sqlite"])
async def test_no_generated_request_causes_a_server_error(kind, request, tmp_path, monkeypatch, record_property):
    (tmp_path / "config.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    # A task is answered with the next update, so frequent updates shorten the wait for each of many requests.
    settings = settings_of(kind, request, tmp_path, **{"live.speed": "20", "live.update_interval": "0.05"})
    options = replace(options_of(settings), rate_limit="off", write_rate_limit="off", traces=tmp_path / "traces")
    async with open_server(settings, options=options, whatif_worker=SmallWorker()) as running:
        await fuzzed(running.context, tmp_path, ALL_PHASES, amount(2, 100))
        record_property("figure", f"{kind}: {slowest_routes(running.context)}")
