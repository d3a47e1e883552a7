"""OTLP, taken by a receiver of OpenTelemetry's own messages."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

import profsuite
from profsuite.errors import ProfsuiteError
from profsuite.exporters.names import printable
from profsuite.trace.model import Trace

BASE = 1_700_000_000_000_000_000


def message(path: str, text: bytes) -> Any:
    """A request as the message that a collector makes of it; unknown or mistyped fields are errors."""
    pytest.importorskip("opentelemetry.proto", reason="opentelemetry-proto is not installed")
    from google.protobuf import json_format
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    kinds: dict[str, Any] = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest}
    return json_format.ParseDict(with_bytes(json.loads(text)), kinds[path]())


def with_bytes(part: Any) -> Any:
    """OTLP writes ids in hex, protobuf's JSON in base64: the one difference between the two."""
    if isinstance(part, list):
        return [with_bytes(each) for each in part]
    if not isinstance(part, dict):
        return part
    ids = ("traceId", "spanId", "parentSpanId")
    return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in ids else with_bytes(v) for k, v in part.items()}


class Collector:
    """A receiver on a free port; it keeps the requests and gives the answer that it is told to."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.status, self.answer = 200, b"{}"
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.headers["Content-Type"] == "application/json"
                body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
                collector.requests.append((self.path, message(self.path, body), dict(self.headers)))
                self.send_response(collector.status)
                self.end_headers()
                self.wfile.write(collector.answer)

            def log_message(self, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def metrics(self) -> dict[str, Any]:
        return {
            metric.name: metric
            for path, found, _ in self.requests if path == "/v1/metrics"
            for resource in found.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
        }  # fmt: skip

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for path, found, _ in self.requests if path == "/v1/traces"
            for resource in found.resource_spans for scope in resource.scope_spans for span in scope.spans
        ]  # fmt: skip


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.proto", reason="opentelemetry-proto is not installed")
    for name in ("OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_HEADERS", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    made = Collector()
    yield made
    made.close()


def attributes(part: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in part.attributes}


def test_metrics_arrive(trace: Trace, collector: Collector) -> None:
    profsuite.export(trace, collector.url)
    found = collector.metrics
    window = found["profsuite.device_window_seconds"]
    assert window.unit == "s"
    (point,) = window.gauge.data_points
    assert (point.as_double, attributes(point)) == (0.001945, {"rank": "0", "device": "0"})
    assert point.time_unix_nano == BASE + 3_005_000
    peaks = {attributes(p)["pool"]: p.as_int for p in found["profsuite.memory_peak_bytes"].gauge.data_points
             if attributes(p)["device"] == "cuda:0"}  # fmt: skip
    assert peaks == {"allocated": 2048, "reserved": 4096}


def test_gpu_conventions(trace: Trace, collector: Collector) -> None:
    profsuite.export(trace, collector.url)
    points = collector.metrics["hw.gpu.utilization"].gauge.data_points
    assert [(p.time_unix_nano - BASE, p.as_double) for p in points] == [
        (1_100_000, pytest.approx(0.4)), (2_100_000, pytest.approx(0.41)),
    ]  # fmt: skip
    assert attributes(points[0]) == {"hw.id": "0", "hw.type": "gpu", "hw.name": "NVIDIA H100"}
    limit = collector.metrics["hw.gpu.memory.limit"]
    assert limit.unit == "By"
    assert not limit.sum.is_monotonic
    assert limit.sum.aggregation_temporality == 2
    assert [p.as_int for p in limit.sum.data_points] == [85_000_000_000]


def test_spans_arrive(trace: Trace, hostile_name: str, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profsuite.exporters.otlp_spans.SPANS_A_REQUEST", 3)
    profsuite.export(trace, collector.url)
    spans = collector.spans
    assert len([path for path, *_ in collector.requests if path == "/v1/traces"]) == 3
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans) == 1 + 2 + 4 + 2
    assert {len(span.span_id) for span in spans} == {8}
    assert {span.trace_id for span in spans} == {spans[0].trace_id}
    (root,) = [span for span in spans if not span.parent_span_id]
    assert (root.name, root.start_time_unix_nano, root.end_time_unix_nano) == (
        "recording", BASE + 1_000_000, BASE + 3_005_000,
    )  # fmt: skip
    parents = sorted((span.name, by_id[span.parent_span_id].name) for span in spans if span.parent_span_id)
    assert parents == sorted(
        [("ProfilerStep#3", "recording"), ("ProfilerStep#4", "recording"), ("aten::mm", "ProfilerStep#3"),
         ("aten::mm", "ProfilerStep#4"), (printable(hostile_name), "ProfilerStep#3"),
         (printable(hostile_name), "ProfilerStep#4"), ("worker", "ProfilerStep#3"), ("overlapping", "ProfilerStep#3")]
    )  # fmt: skip
    assert attributes(next(span for span in spans if span.name == "aten::mm")) == {"thread.name": "main; thread"}
    first = {span.span_id for span in spans}
    collector.requests.clear()
    profsuite.export(trace, collector.url)
    assert {span.span_id for span in collector.spans} == first


def test_resource_and_headers(trace: Trace, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "training")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20b, X-Other=1")
    profsuite.export(trace, collector.url)
    _, found, headers = collector.requests[0]
    resource = attributes(found.resource_metrics[0].resource)
    assert (resource["service.name"], resource["profsuite.rank"]) == ("training", 0)
    assert (headers["X-Key"], headers["X-Other"]) == ("a b", "1")


def test_the_command_sends(path: Path, collector: Collector) -> None:
    from profsuite.cli.app import app

    done = CliRunner().invoke(app, ["convert", str(path), "-o", collector.url, "--no-cache"])
    assert done.exit_code == 0, done.output
    assert len(collector.spans) == 9
    assert "9 spans" in done.output


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (503, b"come back\x1b[31m later", "answers 503: come back"),
        (200, b'{"partialSuccess": {"rejectedDataPoints": "4", "errorMessage": "too old"}}', "rejects 4: too old"),
    ],
)
def test_what_a_collector_refuses(trace: Trace, collector: Collector, status: int, answer: bytes, words: str) -> None:
    collector.status, collector.answer = status, answer
    with pytest.raises(ProfsuiteError, match=words) as error:
        profsuite.export(trace, collector.url)
    assert str(error.value).isprintable()


def test_no_collector(trace: Trace, collector: Collector) -> None:
    collector.close()
    with pytest.raises(ProfsuiteError, match="no collector answers"):
        profsuite.export(trace, collector.url)
    collector.server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    collector.thread = Thread(target=collector.server.serve_forever)
    collector.thread.start()


def test_a_file_has_a_request_a_line(trace: Trace, tmp_path: Path) -> None:
    file = profsuite.export(trace, tmp_path / "job.otlp.jsonl.gz")
    lines = gzip.decompress(file.read_bytes()).splitlines()
    signals = [next(iter(json.loads(line))) for line in lines]
    assert signals == ["resourceMetrics", "resourceSpans"]
    for signal, line in zip(signals, lines, strict=True):
        assert message({"resourceMetrics": "/v1/metrics", "resourceSpans": "/v1/traces"}[signal], line).ByteSize()


def test_a_trace_of_nothing(make: Callable[..., Trace], tmp_path: Path) -> None:
    trace = make([])
    (line,) = profsuite.export(trace, tmp_path / "x.otlp.jsonl").read_bytes().splitlines()
    assert message("/v1/metrics", line).resource_metrics
