"""REST routes, one module per group of addresses."""

from fastapi import APIRouter

from .. import dashboard_files
from . import exports, health, history, jobs, running_programs, runs, schedulers, simulation, tasks, whatif

#: In the order of the OpenAPI document.
ROUTERS: tuple[APIRouter, ...] = (
    simulation.router,
    tasks.router,
    tasks.results_router,
    history.router,
    runs.router,
    history.sweeps_router,
    running_programs.router,
    history.events_router,
    schedulers.router,
    schedulers.models_router,
    whatif.router,
    exports.router,
    exports.traces_router,
    jobs.router,
    health.router,
    dashboard_files.router,
)

__all__ = ["ROUTERS"]
