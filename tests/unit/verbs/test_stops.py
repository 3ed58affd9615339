"""A stop says why the run stops, when it does, and an error goes before it."""

import asyncio
from contextlib import nullcontext

import pytest
from opentelemetry.trace import StatusCode

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel.pipeline import Pipeline
from tests.trees import recording, tree
from tests.unit.verbs.crew import writer


def test_a_stop_says_why_the_run_stops_when_it_does() -> None:
    """Any agent may say it; it is the run's last event."""

    @orchtrace.agent
    def judge() -> None:
        orchtrace.stop("quality_met", "score above 0.9")

    @orchtrace.team
    def team() -> None:
        judge()
        writer()

    with recording() as captured:
        team()
    assert tree(captured.trace).splitlines()[-1] == (
        "  stop quality_met score above 0.9 < return writer#1.close"
    )


def test_an_error_goes_before_the_stop_that_was_said() -> None:
    """A run that fails after all did not stop for that reason."""

    @orchtrace.team
    def team() -> None:
        orchtrace.stop("quality_met")
        raise ValueError

    with recording() as captured, pytest.raises(ValueError):  # noqa: PT011 - of the test itself
        team()
    assert captured.trace.events[-1]["stop_reason"] == "error"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ValueError, "error", StatusCode.ERROR),
        (asyncio.CancelledError, "cancelled", StatusCode.UNSET),
        (None, None, StatusCode.UNSET),
    ],
)
def test_a_root_says_how_its_run_ended(
    error: type[BaseException] | None, status: str | None, code: StatusCode
) -> None:
    """Backends look at the root alone: only an error is one to OpenTelemetry."""

    @orchtrace.team
    def team() -> None:
        if error is not None:
            raise error

    with recording() as captured, pytest.raises(error) if error else nullcontext():
        team()
    root = captured.spans[-1]
    assert (root.attributes or {}).get(a.STATUS) == status
    assert root.status.status_code is code


def test_an_unknown_stop_reason_is_recorded_as_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """It is kept as the detail, and a warning lists what it must be."""

    @orchtrace.team
    def team() -> None:
        orchtrace.stop("bored")

    with recording() as captured:
        team()
    assert tree(captured.trace).splitlines()[-1].startswith("  stop unknown bored")
    assert "needs one of information_complete" in caplog.text


@pytest.mark.swallows_errors
def test_a_root_ends_whatever_fails_at_its_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans below it would hang in the air, and the failure is ours."""

    @orchtrace.team
    def team() -> str:
        return "done"

    with recording() as captured:
        monkeypatch.setattr(Pipeline, "closing", lambda *_: 1 / 0)
        assert team() == "done"
    assert [span.name for span in captured.spans] == ["stop", "invoke_workflow team"]
    assert captured.started == captured.ended
