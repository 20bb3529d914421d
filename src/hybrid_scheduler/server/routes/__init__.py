"""The routes, one file per group."""

from fastapi import APIRouter

from . import (
    events,
    exports,
    health,
    history,
    library,
    models,
    results,
    root,
    runs,
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
    library.router,
    models.router,
    whatif.router,
    exports.router,
    traces.router,
    health.router,
    root.router,
)

__all__ = ["ROUTERS"]
