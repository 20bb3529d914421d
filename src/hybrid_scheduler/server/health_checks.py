"""How the parts are."""

from __future__ import annotations

from typing import Any

from .app_context import AppContext

#: An engine in another process that has been silent for so long is taken for gone.
_SILENCE = 10.0


async def run_health_checks(parts: AppContext) -> dict[str, Any]:
    """The body of `/api/health`. Nothing here raises: what does not answer is away."""
    try:
        await parts.repository.ping()
        database = "ok"
    except Exception:
        database = "away"
    cache = "ok" if await parts.cache.ping() else "away"
    engine: dict[str, Any] = {"state": "away", "beat_age": None}
    try:
        engine["beat_age"] = age = await parts.control.heartbeat_age()
        if age is None or age < _SILENCE:
            engine["state"] = (await parts.control.status())["state"]
    except Exception:
        engine["state"] = "away"
    away = database == "away" or engine["state"] == "away"
    return {
        "status": "down" if database == "away" else "degraded" if away or cache == "away" else "ok",
        "database": {"state": database, "kind": parts.database_kind},
        "cache": {"state": cache, "kind": parts.cache.kind},
        "engine": engine,
        "version": parts.options.version,
    }
