"""What the server answers is done: try again, wait, go elsewhere, part, or give up and count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_http._pace import Pace
from orchtrace_http._post import seconds_of
from orchtrace_otel.testing._samples import own_traces
from tests.exporters.http.pushing import Quick, documents, exporter_to, files, push
from tests.exporters.http.receiver import Answer, Receiver, receiver


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_go_away_is_tried_again(server: Receiver, tmp_path: Path, status: int) -> None:
    """The very same request, until it is taken; nothing counts as lost."""
    traces = own_traces(2)
    server.script.extend([(status, {}), (status, {})])
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    push(exporter, *traces)
    assert server.traces() == documents(traces)
    assert len(server.requests) == 3
    assert len({(one.body, one.headers["idempotency-key"]) for one in server.requests}) == 1
    assert exporter.dropped == {}


def test_a_server_says_when_to_come_back(server: Receiver, tmp_path: Path) -> None:
    """`Retry-After` in seconds or as a date goes to the pace; nonsense does not."""
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    server.script.extend((503, {"Retry-After": text}) for text in ("7", date, "soon"))
    pace = Quick()
    exporter = exporter_to(server.url, tmp_path, pace=pace)
    exporter.export(own_traces(1)[0])
    while len(server.taken) < 1:
        exporter.flush(10)
    exporter.shutdown()
    seven, hour, nothing = pace.asked
    assert (seven, nothing) == (7, None)
    assert hour is not None
    assert 3_500 < hour <= 3_600


def test_a_pause_that_was_asked_for_is_kept(server: Receiver, tmp_path: Path) -> None:
    """No try before it is over, and a flush that ends sooner leaves the rest to the spool."""
    server.script.append((429, {"Retry-After": "3000"}))
    exporter = exporter_to(server.url, tmp_path, pace=Pace())
    exporter.export(own_traces(1)[0])
    exporter.flush(60)
    exporter.flush(60)
    assert len(server.requests) == 1
    assert len(files(tmp_path)) == 1
    exporter.shutdown()
    assert exporter.dropped == {}


def test_seconds_in_the_past_are_none_to_wait() -> None:
    """A date that is over, or without a zone, is no reason to fail."""
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert seconds_of("Sun, 29 Nov 2026 11:00:00 GMT", now) == 0
    assert seconds_of("Sun, 29 Nov 2026 12:00:05 -0000", now) == 5
    assert seconds_of("-5", now) is None
    assert seconds_of("9" * 400, now) == 999_999_999


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_what_is_refused_for_good_is_dropped_and_counted(
    server: Receiver, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """In `losses()`, by records; told once; later runs go on."""
    server.script.extend([(status, {}), (status, {})])
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    orchtrace.configure(TracerProvider(shutdown_on_exit=False), exporters=[exporter])
    critic = orchtrace.agent("critic")(len)
    for calls in (2, 3, 1):
        for _ in range(calls):
            critic("fine")
        assert orchtrace.flush() is (calls == 1)
    orchtrace.shutdown()
    assert orchtrace.losses()["http_refused"] == 5
    assert len(server.traces()) == 1
    told = [one.getMessage() for one in caplog.records if "http_refused" in one.getMessage()]
    assert told == [
        f"orchtrace lost data on its way to {server.url} (http_refused, status {status}); "
        "further losses are counted",
        "orchtrace lost data in this process, beyond the runs: http_refused: 5",
    ]


def test_a_batch_that_is_too_large_is_parted(server: Receiver, tmp_path: Path) -> None:
    """Until the server takes it; each part has a key of its own."""
    traces = own_traces(7)
    server.most_lines = 2
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    push(exporter, *traces)
    assert server.traces() == documents(traces)
    assert exporter.dropped == {}
    keys = [one.headers["idempotency-key"] for one in server.requests]
    assert len(set(keys)) == len(keys)


def test_a_record_that_alone_is_too_large_is_counted(server: Receiver, tmp_path: Path) -> None:
    """It cannot be parted, and would stand in the way for ever."""
    server.most_lines = 0
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    for trace in own_traces(3):
        exporter.export(trace)
    with pytest.raises(OSError, match=r"3 records .* were lost \(http_refused: 3\)"):
        exporter.flush(10)
    exporter.shutdown()
    assert files(tmp_path) == []


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_server_is_followed(
    server: Receiver, tmp_path: Path, status: int
) -> None:
    """With method and body."""
    server.script.append((status, {"Location": "/elsewhere"}))
    exporter = exporter_to(f"{server.url}/here", tmp_path)
    traces = own_traces(1)
    push(exporter, traces[0])
    assert server.traces("/elsewhere") == documents(traces)


def test_a_redirect_elsewhere_gets_neither_data_nor_headers(
    server: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that would make a GET of it, nor one that goes round: refused, and counted."""
    monkeypatch.setenv("ORCHTRACE_HTTP_TOKEN", "s3cret")
    with receiver() as other:
        exporter = exporter_to(server.url, tmp_path)
        answers: list[Answer] = [
            (307, {"Location": other.url}),
            (302, {"Location": "/login"}),
            (307, {}),
        ]
        for answer in answers:
            server.script.append(answer)
            exporter.export(own_traces(1)[0])
            with pytest.raises(OSError, match="1 records"):
                exporter.flush(10)
        server.otherwise = (307, {"Location": "/round"})
        exporter.export(own_traces(1)[0])
        with pytest.raises(OSError, match="1 records"):
            exporter.flush(10)
        exporter.shutdown()
        assert other.requests == []
    assert [one.path for one in server.requests] == ["/"] * 4 + ["/round"] * 3
    assert exporter.dropped == {"http_refused": 4}
