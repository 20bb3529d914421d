"""The routes, one file per group."""

from fastapi import APIRouter

from . import (
    events,
    exports,
    health,
    history,
    models,
    results,
    root,
    runs,
    schedulers,
    simulation,
    tasks,
    traces,
    whatif,
)

ROUTERS: tuple[APIRouter, ...] = (
    simulation.router,
    tasks.router,
    results.router,
    history.router,
    runs.router,
    events.router,
    schedulers.router,
    models.router,
    whatif.router,
    exports.router,
    traces.router,
    health.router,
    root.router,
)

__all__ = ["ROUTERS"]
