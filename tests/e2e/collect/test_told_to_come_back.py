"""Senders that come too fast, or while the collector ends, are answered and lose nothing."""

from __future__ import annotations

import http.client
import random
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.collecting import PROTOBUF, Collecting, collecting, eventually
from tests.e2e.collect.sending import a_request, refused


def test_senders_that_come_too_fast_are_told_when_to_come_back(tmp_path: Path) -> None:
    """A store that cannot be written is 503 or UNAVAILABLE, with a time, and readiness is off."""
    with collecting(tmp_path, "--grace", "0.1", "--fsync", "never") as collector:
        _, hard = resource.prlimit(collector.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (10, hard))
        address = f"127.0.0.1:{collector.grpc_port}"
        with (
            grpc.insecure_channel(address) as channel,
            pytest.raises(grpc.RpcError) as caught,
        ):
            TraceServiceStub(channel).Export(a_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        details = dict(caught.value.trailing_metadata())["grpc-status-details-bin"]
        info = RetryInfo()
        assert Status.FromString(details).details[0].Unpack(info)
        assert info.retry_delay.seconds > 0
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (hard, hard))
        with grpc.insecure_channel(address) as channel:
            TraceServiceStub(channel).Export(a_request())
        assert httpx.get(f"{collector.url}/readyz").status_code == 200


def test_who_comes_while_it_ends_is_told_to_come_back(tmp_path: Path) -> None:
    """503 with Retry-After, UNAVAILABLE with RetryInfo; never CANCELLED, which loses spans."""
    held = Collecting(tmp_path, "--grace", "0.1", "--fsync", "never")
    held.start()
    request = a_request()
    body = request.SerializeToString()
    told: list[httpx.Response] = []
    failed: list[Any] = []

    def by_http() -> None:
        with httpx.Client() as client:
            while not told:
                answer = client.post(f"{held.url}/v1/traces", content=body, headers=PROTOBUF)
                told.extend([answer] if answer.status_code != 200 else [])

    def by_grpc() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{held.grpc_port}") as channel:
            export = TraceServiceStub(channel).Export
            while not is_over.is_set():
                try:
                    export(request)
                except grpc.RpcError as error:
                    failed.append(error)

    is_over = threading.Event()
    senders = [threading.Thread(target=work, daemon=True) for work in (by_http, by_grpc, by_grpc)]
    for sender in senders:
        sender.start()
    eventually(lambda: held.metric("requests_total", "traces:accepted") > 20)
    assert held.stop() == 0
    is_over.set()
    for sender in senders:
        sender.join(30)
    (answer,) = told
    assert refused(answer)[:2] == (503, 14)
    assert int(answer.headers["retry-after"]) > 0
    assert {error.code() for error in failed} == {grpc.StatusCode.UNAVAILABLE}
    details = dict(failed[0].trailing_metadata())["grpc-status-details-bin"]
    assert Status.FromString(details).details[0].Is(RetryInfo.DESCRIPTOR)


def test_no_call_on_a_kept_connection_goes_without_an_answer(tmp_path: Path) -> None:
    """While it ends each connection is closed by an answer that says so, and by nothing else."""
    held = Collecting(tmp_path, "--grace", "0.1", "--fsync", "never")
    held.start()
    body = a_request().SerializeToString()

    def last_answer(number: int) -> int:
        dice = random.Random(number)  # noqa: S311 - a load, not a secret
        connection = http.client.HTTPConnection("127.0.0.1", held.http_port, timeout=30)
        while True:
            connection.request("POST", "/v1/traces", body, PROTOBUF)
            answer = connection.getresponse()
            answer.read()
            if answer.getheader("connection") == "close":
                return answer.status
            assert answer.status == 200
            time.sleep(dice.random() / 10)  # as a sender does that waits for more spans

    with ThreadPoolExecutor(16) as senders:
        answers = [senders.submit(last_answer, number) for number in range(16)]
        eventually(lambda: held.metric("requests_total", "traces:accepted") > 50)
        assert held.stop() == 0
        assert {answer.result(30) for answer in answers} <= {200, 503}
