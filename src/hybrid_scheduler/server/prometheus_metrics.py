"""Prometheus metrics of the server and the live run.

Routes are labelled by their template, so that a client cannot create new series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from .stream_hub import StreamHub

_PREFIX = "hybrid_scheduler_"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


#: Gauges with their meaning and their labels.
_GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "run_tasks": ("Tasks of the live run so far.", ()),
    "run_decisions": ("Decisions of the live run so far.", ("scheduler",)),
    "run_failed_tasks": ("Tasks that failed in the live run.", ("scheduler",)),
    "run_latency_seconds": ("Mean latency in the live run.", ("scheduler",)),
    "run_latency_quantile_seconds": ("Latency quantile of the newest tasks.", ("scheduler", "quantile")),
    "run_energy_joules": ("Energy of the live run so far.", ("scheduler",)),
    "run_cost_dollars": ("Cost of the live run so far.", ("scheduler",)),
    "model_version": ("Version of the model in use.", ("scheduler",)),
    "run_tasks_per_second": ("Tasks per second of wall time.", ()),
    "run_virtual_time_seconds": ("Virtual seconds since the run began.", ()),
    "engine_state": ("1 for the state the engine is in.", ("state",)),
    "unsaved_batches": ("Batches that are not in the database yet.", ()),
    "storage_up": ("1 while the engine can store what it computes.", ()),
    "engine_up": ("1 while the engine answers; else its gauges are the last known.", ()),
    "database_up": ("1 while the database answers.", ("kind",)),
    "cache_up": ("1 while the cache answers.", ("kind",)),
    "websocket_clients": ("Open WebSockets.", ()),
    "websocket_queued_messages": ("Messages that wait for slow clients.", ()),
    "events_last_seq": ("Sequence number of the newest event.", ()),
}
#: Field of the status for each gauge of the run, and field of a row of the comparison with the further label for
#: each gauge of a scheduler.
_OF_RUN = {
    "run_tasks": "tasks_processed",
    "run_tasks_per_second": "tasks_per_second",
    "run_virtual_time_seconds": "virtual_time",
    "unsaved_batches": "unsaved_batches",
}
_OF_SCHEDULERS = (
    ("run_decisions", "tasks", ()),
    ("run_failed_tasks", "failed", ()),
    ("run_energy_joules", "total_energy", ()),
    ("run_cost_dollars", "total_cost", ()),
    ("run_latency_seconds", "mean_latency", ()),
    ("model_version", "model_version", ()),
    *(("run_latency_quantile_seconds", f"p{digits}_latency", (f"0.{digits}",)) for digits in ("50", "95", "99")),
)


class Metrics:
    """Metrics of one server, in their own registry: two servers in one process do not mix."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        self._gauges = {
            name: Gauge(_PREFIX + name, text, labels, registry=registry) for name, (text, labels) in _GAUGES.items()
        }
        self._requests = Counter(
            _PREFIX + "http_requests", "Requests with a response.", ("method", "route", "status"), registry=registry
        )
        self.seconds = Histogram(
            _PREFIX + "http_request_duration_seconds",
            "Time from request to the end of the response.",
            ("route",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._dropped = Counter(
            _PREFIX + "websocket_dropped_clients", "Clients that were dropped as too slow.", registry=registry
        )
        self._messages = Counter(_PREFIX + "websocket_messages", "Messages to clients.", registry=registry)
        self._reported = {"dropped": 0, "sent": 0}

    def record_request(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request and its duration.

        Parameters
        ----------
        scope
            The request's ASGI scope.
        status
            Status of the response.
        seconds
            Time from the request to the end of the response.
        """
        route = self._route(scope)
        method = scope.get("method", "WEBSOCKET")
        method = method if method in _METHODS or method == "WEBSOCKET" else "OTHER"
        self._requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    @staticmethod
    def _route(scope: Any) -> str:
        template = getattr(scope.get("route"), "path", None)
        if template is None:
            return "unknown"
        return "dashboard" if not template.startswith("/api") and template != "/" else str(template)

    def render(self, hub: StreamHub, health: dict[str, Any], status: dict[str, Any] | None) -> tuple[bytes, str]:
        """Update the gauges and return all metrics as text.

        Parameters
        ----------
        hub
            Clients of the stream.
        health
            The body of `/api/health`.
        status
            The engine's status; None while it is unavailable.

        Returns
        -------
        tuple
            The text and its content type.
        """
        for service in ("database", "cache"):
            self._set_one(f"{service}_up", health[service]["kind"], health[service]["state"] != "away")
        self._set_one("engine_state", health["engine"]["state"], 1)
        self._update_clients(hub)
        self._gauges["engine_up"].set(status is not None)
        if status is not None:
            self._update_run(status)
        else:  # the other gauges of the run keep their last known values
            self._gauges["run_tasks_per_second"].set(0)
            self._gauges["storage_up"].set(0)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _set_one(self, name: str, label: str, value: float) -> None:
        """Set the one series that a gauge has."""
        self._gauges[name].clear()
        self._gauges[name].labels(label).set(value)

    def _update_clients(self, hub: StreamHub) -> None:
        self._gauges["websocket_clients"].set(len(hub.clients))
        self._gauges["websocket_queued_messages"].set(sum(len(client.waiting) for client in hub.clients))
        self._gauges["events_last_seq"].set(hub.last_seq)
        self._dropped.inc(hub.dropped - self._reported["dropped"])
        self._messages.inc(hub.sent - self._reported["sent"])
        self._reported = {"dropped": hub.dropped, "sent": hub.sent}

    def _update_run(self, status: dict[str, Any]) -> None:
        for name, field in _OF_RUN.items():
            self._gauges[name].set(status[field])
        self._gauges["storage_up"].set(status["storage"] == "ok")
        for name, _, _ in _OF_SCHEDULERS:
            self._gauges[name].clear()
        for row in status["comparison"]:
            for name, column, labels in _OF_SCHEDULERS:
                if row[column] is not None:
                    self._gauges[name].labels(row["name"], *labels).set(row[column])
