"""OpenTelemetry: metrics and spans as OTLP/JSON, to a file or to a collector over HTTP.

A file has one export request a line, as the OTLP file exporter writes them and the collector's ``otlpjsonfile``
receiver reads them.  https://opentelemetry.io/docs/specs/otlp/
"""

from __future__ import annotations

import gzip
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from profsuite.errors import ProfsuiteError
from profsuite.exporters.metrics import metrics
from profsuite.exporters.names import middle, printable
from profsuite.exporters.otlp_metrics import gpu_metrics, plain_metrics
from profsuite.exporters.otlp_spans import spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target
    from profsuite.trace.model import Trace

SIGNALS: Final = {"resourceMetrics": "v1/metrics", "resourceSpans": "v1/traces"}
"""The only key of a request, and where it is sent."""

TIMEOUT_SECONDS: Final = 30.0
LONGEST_ANSWER: Final = 2**20


@dataclass(frozen=True, slots=True)
class Otlp:
    """The format."""

    name: str = "otlp"
    suffix: str = ".otlp.jsonl"
    carries: str = "The metrics of prometheus, NVML's counters as hw.gpu.*, and spans of steps and outermost ops."
    compresses: bool = True
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write the requests of all ranks, one a line."""
        with target.open() as out:
            return _each(source, lambda _signal, text: out.write(text + b"\n"))


FORMAT = Otlp()


def send(source: Source, endpoint: str) -> str:
    """Send everything to a collector; returns what was sent, in a few words.

    ``endpoint`` is the base address (``http://localhost:4318``).  Headers are taken from
    ``OTEL_EXPORTER_OTLP_HEADERS``.  ``ProfsuiteError`` where the collector is not there or takes not all.
    """
    if not urlsplit(endpoint).hostname:
        raise ProfsuiteError(f"{endpoint}: is no address of a collector; it looks like http://localhost:4318")
    return _each(source, lambda signal, text: _post(f"{endpoint.rstrip('/')}/{SIGNALS[signal]}", text))


def _each(source: Source, take: Any) -> str:
    """Give every request to ``take`` as its signal and its JSON."""
    num_points = num_spans = 0
    for trace in source.traces():
        for signal, scoped, count in requests(trace):
            body = {signal: [{"resource": {"attributes": _resource(trace)}, **scoped}]}
            take(signal, msgspec.json.encode(body))
            if signal == "resourceSpans":
                num_spans += count
            else:
                num_points += count
    return f"{num_points:,} data points, {num_spans:,} spans"


def requests(trace: Trace) -> Iterator[tuple[str, dict[str, Any], int]]:
    """The requests of a trace: the signal, what goes beside its resource, and how much it holds."""
    scope = {"name": "profsuite"}
    found = [*plain_metrics(trace, metrics(trace)), *gpu_metrics(trace)]
    points = sum(len(kind["dataPoints"]) for one in found for kind in one.values() if isinstance(kind, dict))
    yield "resourceMetrics", {"scopeMetrics": [{"scope": scope, "metrics": found}]}, points
    for some in spans(trace):
        yield "resourceSpans", {"scopeSpans": [{"scope": scope, "spans": some}]}, len(some)


def _resource(trace: Trace) -> list[dict[str, Any]]:
    """What the numbers and spans are of; ``OTEL_SERVICE_NAME`` names the service."""
    known: dict[str, str | int | None] = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or "profsuite",
        "profsuite.source": printable(trace.info.source),
        "profsuite.rank": trace.info.rank,
        "profsuite.world_size": trace.info.world_size,
    }
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in known.items()
        if value is not None
    ]


def _post(url: str, text: bytes) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", **_headers()}
    request = urllib.request.Request(url, gzip.compress(text, 1), headers, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            body = answer.read(LONGEST_ANSWER)
    except urllib.error.HTTPError as error:
        with error:
            said = middle(printable(error.read(400).decode("utf-8", "replace")), 200)
        raise ProfsuiteError(f"{url}: the collector answers {error.code}: {said or error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ProfsuiteError(f"{url}: no collector answers: {reason}") from None
    try:
        partial = msgspec.json.decode(body).get("partialSuccess", {}) if body else {}
        rejected = next((int(partial[key]) for key in partial if key.startswith("rejected")), 0)
        message = printable(str(partial.get("errorMessage", "")))
    except (msgspec.DecodeError, AttributeError, TypeError, ValueError):
        return  # taken, with an answer that is no OTLP
    if rejected:
        raise ProfsuiteError(f"{url}: the collector rejects {rejected:,}: {middle(message, 200)}")


def _headers() -> dict[str, str]:
    """``OTEL_EXPORTER_OTLP_HEADERS``: ``name=value``, separated by commas, values percent-encoded."""
    pairs = [part.partition("=") for part in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")]
    return {name.strip(): unquote(value.strip()) for name, mark, value in pairs if mark and name.strip()}
