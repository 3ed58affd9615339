"""Whose each event is, also where a parent, a cause, a root or a stop never came."""

from __future__ import annotations

from orchtrace_otel import attributes as a
from orchtrace_otel.model import Trace
from tests.unit.builder.small_runs import (
    SECOND,
    activation,
    keys,
    point,
    root,
    sound,
    span,
    span_id,
    stop,
)


def test_events_belong_to_the_nearest_activation_through_spans_of_the_host() -> None:
    """A user's spans in between are looked through."""
    one = sound(
        root(),
        activation(2),
        span(3, 2, 12, 14, {}),
        span(4, 3, 12, 14, {}),
        point(5, "decide", 4),
        stop(),
    )
    assert keys(one, span_id(5))["activation"] == span_id(2)
    assert one.flags == ()


def test_a_span_may_name_its_activation_where_its_parent_never_came() -> None:
    """What a span says of its activation goes before its parents."""
    one = sound(root(), activation(2), point(5, "decide", 77, **{a.ACTIVATION: span_id(2)}), stop())
    assert keys(one, span_id(5))["activation"] == span_id(2)
    assert one.flags == ()


def test_an_orphan_belongs_to_the_root_and_is_flagged() -> None:
    """A parent that never came is told, and nothing is left out."""
    one = sound(root(), activation(2, 77), stop())
    assert keys(one, span_id(2) + ".open")["parent"] == span_id(1)
    assert one.flags == ("orphans",)


def test_a_cause_that_never_came_is_flagged() -> None:
    """An edge without its source is left out and told."""
    one = sound(root(), activation(2, **{a.EDGES: (f"causal:{span_id(77)}.close",)}), stop())
    assert len(one.edges) == 1
    assert one.flags == ("missing_causes",)


def test_a_run_without_its_root_is_built_and_flagged() -> None:
    """Times count from the first span there is, which says when that was."""
    one = sound(activation(2), stop())
    assert one.events[0].t == 0
    assert one.events[0]["start_unix_nano"] == 11 * SECOND
    assert "no_root" in one.flags


def test_a_run_without_a_stop_gets_one_of_reason_unknown() -> None:
    """Where the stop never came the trace says so in the place where it says all else."""
    one = sound(root(), activation(2), stop())
    lacking = sound(root(), activation(2))
    assert lacking.stop is not None
    assert lacking.stop["stop_reason"] == "unknown"
    assert lacking.flags == ("no_stop",)
    assert lacking.events[:-1] == one.events[:-1]


def test_a_second_stop_is_flagged_and_left_out() -> None:
    """The last one in order of time is the stop; there is never more than one."""
    one = sound(root(), stop(98, 19, **{a.STOP_REASON: "error"}), stop())
    assert one.stop is not None
    assert one.stop.id == span_id(99)
    assert one.flags == ("several_stops",)


def test_nothing_at_all_is_a_stop_of_reason_unknown() -> None:
    """A run of which no span came is a trace that says so."""
    one = sound()
    assert [event.verb for event in one.events] == ["stop"]
    assert one.flags == ("no_root",)


def test_activations_above_each_other_hang_below_the_root() -> None:
    """A cycle of parents is cut, and flagged, whichever comes first."""
    one = sound(root(), activation(2, 3), activation(3, 2), activation(4, 4), stop())
    parents = {keys(one, span_id(number) + ".open")["parent"] for number in (2, 3, 4)}
    assert span_id(1) in parents
    assert _leads_to_root(one)
    assert one.flags == ("cyclic_parents",)


def test_spans_above_each_other_are_flagged() -> None:
    """A cycle among spans that are no activations ends at the root."""
    one = sound(
        root(), span(2, 3, 11, 12, {}), span(3, 2, 11, 12, {}), point(4, "decide", 2), stop()
    )
    assert keys(one, span_id(4))["activation"] == span_id(1)
    assert one.flags == ("cyclic_parents",)


def _leads_to_root(one: Trace) -> bool:
    parents = {
        event["activation"]: event["parent"] for event in one.events if "parent" in event.keys
    }
    for at in list(parents):
        for _ in range(len(parents) + 1):
            at = parents.get(at, span_id(1))  # noqa: PLW2901 - walks up
        if at != span_id(1):
            return False
    return True
