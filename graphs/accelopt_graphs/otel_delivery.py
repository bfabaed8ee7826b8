"""What accelopt adds to OpenTelemetry's exporter: its name, and whether spans arrived."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from accelopt import __version__


def resource() -> Resource:
    """Who sends the spans: accelopt, unless OpenTelemetry's variables give another name."""
    given = Resource.create()
    if str(given.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        given = given.merge(Resource({SERVICE_NAME: "accelopt", SERVICE_VERSION: __version__}))
    return given


class Delivery(SpanExporter):
    """An exporter that counts what it could not deliver.

    Attributes:
        failures: batches that were refused.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._closed = False
        self.failures = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        try:
            result = self._exporter.export(spans)
        except Exception:  # the SDK logs it
            self.failures += 1
            raise
        if result is not SpanExportResult.SUCCESS:
            self.failures += 1
        return result

    def shutdown(self) -> None:
        """Close the exporter; safe to call twice."""
        if not self._closed:
            self._closed = True
            self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held back here."""
        return self._exporter.force_flush(timeout_millis)
