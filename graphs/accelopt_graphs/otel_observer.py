"""Sends a run to an OpenTelemetry collector, when OpenTelemetry's own variables ask for it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from accelopt import __version__
from accelopt.errors import ConfigError
from accelopt.events import Event, Observer
from accelopt.secrets import redact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from accelopt_graphs.otel_spans import RunSpans

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

_FLUSH_S = 3.0
"""The end of a run waits no longer for the collector."""

_QUEUE_SIZE = "OTEL_BSP_MAX_QUEUE_SIZE"
_DEFAULT_QUEUE_SIZE = 16_384
"""A resumed run tells of thousands of journalled answers at once; the SDK's 2,048 would drop."""

_log = logging.getLogger(__name__)


def make_observer() -> Observer:
    """An observer that turns events into spans; one that does nothing unless it is asked for."""
    return OpenTelemetryObserver() if is_asked_for(os.environ) else _Nothing()


def is_asked_for(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables name a collector, and do not turn tracing off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environment.get(name, "").strip() for name in _ENDPOINTS)


class _Nothing:
    """Watches nothing."""

    def observe(self, event: Event) -> None:
        """Ignore it."""

    def close(self) -> None:
        """Nothing to do."""


class OpenTelemetryObserver:
    """One trace per session of a run.

    The packages are imported with the first event. What is wrong then is raised there: the event
    hub drops an observer that raises, with one warning, and the run goes on.

    Args:
        make_exporter: makes what sends spans; by default OTLP over HTTP, as OpenTelemetry's
            variables configure it.
        flush_s: how long closing waits for the collector, in seconds.
    """

    def __init__(
        self,
        make_exporter: Callable[[], SpanExporter] | None = None,
        *,
        flush_s: float = _FLUSH_S,
    ) -> None:
        self._make_exporter = make_exporter or otlp_exporter
        self._flush_s = flush_s
        self._provider: TracerProvider | None = None
        self._delivery: Any = None
        self._spans: RunSpans | None = None

    def observe(self, event: Event) -> None:
        """Start, annotate or end the span that an event is about.

        Raises:
            ConfigError: at the first event: a package is missing, or the protocol is not HTTP.
        """
        if self._spans is None:
            self._spans = self._open()
        self._spans.add(event)

    def close(self) -> None:
        """End the spans that are open and send what is left; never raises, waits a few seconds."""
        provider, spans = self._provider, self._spans
        self._provider = self._spans = None
        if provider is None or spans is None:
            return
        try:
            spans.end()
            # In a thread of its own: the SDK's shutdown waits for half a minute.
            closing = threading.Thread(target=_shut_down, args=(provider,), daemon=True)
            closing.start()
            closing.join(self._flush_s)
            if closing.is_alive():
                self._delivery.shutdown()
                _log.warning("OpenTelemetry: the collector is slow; some spans were not sent")
            elif self._delivery.failures:
                _log.warning("OpenTelemetry: the collector did not take all spans of this run")
        except Exception as error:  # noqa: BLE001 - whoever watches must not end a run
            _log.warning("OpenTelemetry: %s", redact(str(error)))

    def _open(self) -> RunSpans:
        try:
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            from accelopt_graphs.otel_delivery import Delivery, resource
            from accelopt_graphs.otel_spans import RunSpans

            exporter = self._make_exporter()
        except ImportError as error:
            raise ConfigError(
                f"an OpenTelemetry collector is set, but {error.name} is not installed",
                hint="pip install 'accelopt[otel]', or set OTEL_SDK_DISABLED=true",
            ) from error
        # The SDK logs every batch it can't deliver; without a handler Python would print that
        # into the progress view.
        sdk = logging.getLogger("opentelemetry")
        if not sdk.handlers:
            sdk.addHandler(logging.NullHandler())
        self._delivery = Delivery(exporter)
        size = None if os.environ.get(_QUEUE_SIZE) else _DEFAULT_QUEUE_SIZE
        # Nothing global is set: somebody's own tracing in this process stays theirs.
        self._provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._delivery, max_queue_size=size))
        return RunSpans(self._provider.get_tracer("accelopt", __version__))


def _shut_down(provider: TracerProvider) -> None:
    with suppress(Exception):
        provider.shutdown()


def otlp_exporter() -> SpanExporter:
    """Sends spans by OTLP over HTTP, as OpenTelemetry's variables say.

    Raises:
        ConfigError: they ask for gRPC.
        ImportError: the exporter is not installed.
    """
    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "")
    if protocol.strip().lower() == "grpc":
        raise ConfigError(
            "OpenTelemetry is set to gRPC; accelopt speaks OTLP over HTTP",
            hint="set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf and the collector's HTTP port",
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
