"""What is no request, is too large or has no token is refused in the words of the protocol."""

from __future__ import annotations

import gzip
import ssl
import zlib
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.collecting import GRPC_TRACES, PROTOBUF, Collecting, collecting, eventually, stored
from tests.e2e.collect.sending import GZIP, JSON, TLS, a_request, refused

BOMB = zlib.compressobj(9, wbits=31)
BOMB_BODY = b"".join(BOMB.compress(bytes(2**20)) for _ in range(512)) + BOMB.flush()


@pytest.mark.parametrize(
    ("body", "headers", "status", "code", "said"),
    [
        (b"\xff\xff\xff", PROTOBUF, 400, 3, "must be an ExportTraceServiceRequest, came 3 bytes"),
        (b"{", JSON, 400, 3, "must be an ExportTraceServiceRequest in JSON"),
        (b"[]", JSON, 400, 3, "must be an ExportTraceServiceRequest in JSON"),
        (b'{"resourceSpans": 7}', JSON, 400, 3, "must be an ExportTraceServiceRequest in JSON"),
        (b"no gzip", GZIP, 400, 3, "a body of encoding gzip must be gzip"),
        (gzip.compress(b"\n\0" * 99)[:-9], GZIP, 400, 3, "must be whole, came its beginning"),
        (BOMB_BODY, GZIP, 413, 8, "must not become more than 4194304 bytes"),
        (bytes(5 * 2**20), PROTOBUF, 413, 8, "must have at most 4194304 bytes"),
        (b"", {"content-type": "text/plain"}, 415, 3, "must be application/x-protobuf or"),
        (b"", {**PROTOBUF, "content-encoding": "br"}, 415, 3, "encoding gzip, deflate or none"),
    ],
    ids=[
        *("garbage", "half JSON", "a JSON array", "JSON of another shape", "no gzip", "half gzip"),
        *("a bomb", "too large", "another type", "another encoding"),
    ],
)
def test_a_body_that_is_no_request_is_refused_with_a_status(  # noqa: PLR0913 - a table
    body: bytes,
    headers: dict[str, str],
    status: int,
    code: int,
    said: str,
    collector: Collecting,
) -> None:
    """`google.rpc.Status` in the sender's own encoding; what comes after is taken."""
    answer = httpx.post(f"{collector.url}/v1/traces", content=body, headers=headers)
    found = refused(answer)
    assert found[:2] == (status, code)
    assert said in found[2]
    assert "retry-after" not in answer.headers
    after = a_request().SerializeToString()
    answer = httpx.post(f"{collector.url}/v1/traces", content=after, headers=PROTOBUF)
    assert answer.status_code == 200


def test_a_body_without_a_length_is_bounded_as_well(collector: Collecting) -> None:
    """A sender that streams is cut off when it has sent too much."""
    pieces = (bytes(2**20) for _ in range(6))
    answer = httpx.post(f"{collector.url}/v1/traces", content=pieces, headers=PROTOBUF)
    assert refused(answer)[:2] == (413, 8)


@pytest.mark.parametrize(
    ("body", "compression", "code", "said"),
    [
        (b"\xff\xff\xff", None, grpc.StatusCode.INVALID_ARGUMENT, "3 bytes that are none"),
        (bytes(64 * 2**20), grpc.Compression.Gzip, grpc.StatusCode.RESOURCE_EXHAUSTED, "4194304"),
        (bytes(5 * 2**20), None, grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
    ],
    ids=["garbage", "a bomb", "too large"],
)
def test_grpc_refuses_with_its_codes(
    body: bytes,
    compression: grpc.Compression | None,
    code: grpc.StatusCode,
    said: str,
    collector: Collecting,
) -> None:
    """Garbage, a bomb, too large a message; none tells the sender to come back."""
    address = f"127.0.0.1:{collector.grpc_port}"
    with grpc.insecure_channel(address, compression=compression) as channel:
        export = channel.unary_unary(GRPC_TRACES)
        with pytest.raises(grpc.RpcError) as caught:
            export(body)
        assert caught.value.code() is code
        assert said in caught.value.details()
        details = dict(caught.value.trailing_metadata()).get("grpc-status-details-bin")
        if details is not None:
            assert Status.FromString(details).details == []
        assert export(a_request().SerializeToString()) == b""


def test_many_large_calls_at_once_cost_no_more_memory_than_the_bounds(
    collector: Collecting,
) -> None:
    """Of 800 MB that come at once over gRPC no more is held than may be in flight."""
    channels = [
        grpc.insecure_channel(
            f"127.0.0.1:{collector.grpc_port}", [("grpc.use_local_subchannel_pool", 1)]
        )
        for _ in range(10)
    ]
    body = b"\xff" * 4_000_000
    calls: list[Any] = [
        channels[number % 10].unary_unary(GRPC_TRACES).future(body, timeout=60)
        for number in range(200)
    ]
    codes = {call.code() for call in calls}
    for channel in channels:
        channel.close()
    assert codes == {grpc.StatusCode.INVALID_ARGUMENT}
    status = Path(f"/proc/{collector.pid}/status").read_text()
    most = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(most.split()[1]) < 400 * 1024, most


@pytest.mark.parametrize("path", ["/v1/traces/", "/v1/logs/", "/v2/traces", "/"])
def test_no_path_is_redirected(path: str, collector: Collecting) -> None:
    """Official exporters take a redirect for success, and what they sent would be lost."""
    answer = httpx.post(collector.url + path, content=b"", headers=PROTOBUF)
    assert answer.status_code == 404


def test_metrics_are_not_taken_and_senders_are_told(collector: Collecting) -> None:
    """404 and UNIMPLEMENTED, which no exporter tries again."""
    answer = httpx.post(f"{collector.url}/v1/metrics", content=b"", headers=PROTOBUF)
    assert refused(answer)[:2] == (404, 12)
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            MetricsServiceStub(channel).Export(ExportMetricsServiceRequest())
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert httpx.get(f"{collector.url}/v1/traces").status_code == 405


def test_only_who_has_the_token_gets_in(tmp_path: Path) -> None:
    """401 and UNAUTHENTICATED for none and for a wrong one; the right one is let in, by TLS too."""
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--grace", "0.1", "--token-file", str(tmp_path / "token"))
    tls = ("--tls-cert", str(TLS / "loopback.crt"), "--tls-key", str(TLS / "loopback.key"))
    trusted = ssl.create_default_context(cafile=TLS / "loopback.crt")
    with collecting(tmp_path / "store", *options, *tls) as collector:
        url = f"https://127.0.0.1:{collector.http_port}/v1/traces"
        body = a_request().SerializeToString()
        with httpx.Client(verify=trusted) as client:
            for wrong in (None, "Bearer other", "Bearer", "Basic s3cret", "Bearer s3cretly"):
                headers = {**PROTOBUF, **({} if wrong is None else {"authorization": wrong})}
                answer = client.post(url, content=body, headers=headers)
                assert refused(answer)[:2] == (401, 16)
                assert answer.headers["www-authenticate"] == "Bearer"
            headers = {**PROTOBUF, "authorization": "bearer s3cret"}
            assert client.post(url, content=body, headers=headers).status_code == 200
        secure = grpc.ssl_channel_credentials((TLS / "loopback.crt").read_bytes())
        with grpc.secure_channel(f"127.0.0.1:{collector.grpc_port}", secure) as channel:
            stub = TraceServiceStub(channel)
            for sent in ((), (("authorization", "Bearer other"),)):
                with pytest.raises(grpc.RpcError) as caught:
                    stub.Export(a_request(), metadata=sent)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            stub.Export(a_request(), metadata=(("authorization", "Bearer s3cret"),))
        eventually(lambda: len(stored(tmp_path / "store")) == 2)
