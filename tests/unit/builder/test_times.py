"""No clock of another process makes a time that cannot be; what came late is said to be."""

from __future__ import annotations

from tests.unit.builder.small_runs import (
    activation,
    built,
    chat,
    keys,
    root,
    sound,
    span_id,
    stop,
    usage,
)


def test_what_began_before_its_run_is_clamped_and_flagged() -> None:
    """Another process's clock is behind: no time is negative, and the begin stays first."""
    early = activation(2, start=3, end=12)
    one = built(root(), early, stop())
    assert [event.t for event in one.events] == [0.0, 0.0, 2.0, 10.0]
    assert one.events[0]["verb"] == "begin"
    assert "skewed" in one.flags


def test_a_span_that_ends_before_it_begins_took_no_time() -> None:
    """An end that cannot be is the start, and flagged."""
    one = sound(root(), activation(2, start=15, end=0), stop())
    assert keys(one, span_id(2) + ".close")["t"] == 5.0
    assert "skewed" in one.flags


def test_what_ended_after_its_run_is_late() -> None:
    """Only a collector sees it; the event says so, and so does the run."""
    one = sound(root(), activation(2, end=25), stop())
    assert keys(one, span_id(2) + ".close")["late"] is True
    assert "late" not in keys(one, span_id(2) + ".open")
    assert one.flags == ("late_spans",)
    assert one.events[-1]["verb"] == "stop"


def test_a_model_that_answered_after_the_run_is_late() -> None:
    """Its tokens count, and the run says that they came late."""
    one = sound(root(), chat(2, start=20, **usage(1, 2)), stop())
    assert one.costs["tokens"] == 3
    assert one.flags == ("late_spans",)
