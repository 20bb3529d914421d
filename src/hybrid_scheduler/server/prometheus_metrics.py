"""Prometheus metrics of the server and the live run.

Routes are labelled by their template, so that a client cannot create new series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from .app_context import AppContext

_PREFIX = "hybrid_scheduler_"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


#: Longest wait for the engine's status, after it answered the health check.
_STATUS_TIMEOUT_S = 0.4


class Metrics:
    """Metrics of one server, in their own registry: two servers in one process do not mix."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)

        def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(_PREFIX + name, text, labels, registry=registry)

        self.requests = Counter(
            _PREFIX + "http_requests", "Requests with a response.", ("method", "route", "status"), registry=registry
        )
        self.seconds = Histogram(
            _PREFIX + "http_request_duration_seconds",
            "Time from request to the end of the response.",
            ("route",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.tasks = gauge("run_tasks", "Tasks of the live run so far.")
        self.decisions = gauge("run_decisions", "Decisions of the live run so far.", ("scheduler",))
        self.failed = gauge("run_failed_tasks", "Tasks that failed in the live run.", ("scheduler",))
        self.latency = gauge("run_latency_seconds", "Mean latency in the live run.", ("scheduler",))
        self.quantile = gauge(
            "run_latency_quantile_seconds", "Latency quantile of the newest tasks.", ("scheduler", "quantile")
        )
        self.energy = gauge("run_energy_joules", "Energy of the live run so far.", ("scheduler",))
        self.cost = gauge("run_cost_dollars", "Cost of the live run so far.", ("scheduler",))
        self.model = gauge("model_version", "Version of the model in use.", ("scheduler",))
        self.rate = gauge("run_tasks_per_second", "Tasks per second of wall time.")
        self.virtual = gauge("run_virtual_time_seconds", "Virtual seconds since the run began.")
        self.running = gauge("engine_state", "1 for the state the engine is in.", ("state",))
        self.unsaved = gauge("unsaved_batches", "Batches that are not in the database yet.")
        self.stored = gauge("storage_up", "1 while the engine can store what it computes.")
        self.engine = gauge("engine_up", "1 while the engine answers; else its gauges are the last known.")
        self.database = gauge("database_up", "1 while the database answers.", ("kind",))
        self.cache = gauge("cache_up", "1 while the cache answers.", ("kind",))
        self.clients = gauge("websocket_clients", "Open WebSockets.")
        self.waiting = gauge("websocket_queued_messages", "Messages that wait for slow clients.")
        self.dropped = Counter(
            _PREFIX + "websocket_dropped_clients", "Clients that were dropped as too slow.", registry=registry
        )
        self.messages = Counter(_PREFIX + "websocket_messages", "Messages to clients.", registry=registry)
        self.last_seq = gauge("events_last_seq", "Sequence number of the newest event.")
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
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    @staticmethod
    def _route(scope: Any) -> str:
        template = getattr(scope.get("route"), "path", None)
        if template is None:
            return "unknown"
        return "dashboard" if not template.startswith("/api") and template != "/" else str(template)

    async def render(self, context: AppContext, health: dict[str, Any]) -> tuple[bytes, str]:
        """Update the gauges and return all metrics as text.

        Parameters
        ----------
        context
            Source of the engine's status and the stream's clients.
        health
            The body of `/api/health`.

        Returns
        -------
        tuple
            The text and its content type.
        """
        for gauge, service in ((self.database, "database"), (self.cache, "cache")):
            gauge.clear()
            gauge.labels(health[service]["kind"]).set(health[service]["state"] != "away")
        self.running.clear()
        self.running.labels(health["engine"]["state"]).set(1)
        self._update_clients(context)
        is_up = health["engine"]["state"] != "away"
        self.engine.set(is_up)
        status = None
        if is_up:
            status = await context.state.probes.run("status", context.control.status(), _STATUS_TIMEOUT_S)
        if status is not None:
            self._update_run(status)
        else:  # the other gauges of the run keep their last known values
            self.rate.set(0)
            self.stored.set(0)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _update_clients(self, context: AppContext) -> None:
        hub = context.hub
        self.clients.set(len(hub.clients))
        self.waiting.set(sum(len(client.waiting) for client in hub.clients))
        self.last_seq.set(hub.last_seq)
        self.dropped.inc(hub.dropped - self._reported["dropped"])
        self.messages.inc(hub.sent - self._reported["sent"])
        self._reported = {"dropped": hub.dropped, "sent": hub.sent}

    def _update_run(self, status: dict[str, Any]) -> None:
        self.tasks.set(status["tasks_processed"])
        self.rate.set(status["tasks_per_second"])
        self.virtual.set(status["virtual_time"])
        self.unsaved.set(status["unsaved_batches"])
        self.stored.set(status["storage"] == "ok")
        columns: dict[str, tuple[Gauge, tuple[str, ...]]] = {
            "tasks": (self.decisions, ()),
            "failed": (self.failed, ()),
            "total_energy": (self.energy, ()),
            "total_cost": (self.cost, ()),
            "mean_latency": (self.latency, ()),
            "model_version": (self.model, ()),
            **{f"p{digits}_latency": (self.quantile, (f"0.{digits}",)) for digits in ("50", "95", "99")},
        }
        for gauge, _ in columns.values():
            gauge.clear()
        for row in status["comparison"]:
            for column, (gauge, labels) in columns.items():
                if row[column] is not None:
                    gauge.labels(row["name"], *labels).set(row[column])
