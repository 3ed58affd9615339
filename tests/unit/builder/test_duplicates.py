"""A span that is sent again is the same span, whichever comes first."""

from __future__ import annotations

import itertools

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import distinct
from tests.unit.builder.small_runs import (
    activation,
    chat,
    keys,
    point,
    root,
    sound,
    span,
    span_id,
    stop,
    usage,
)


def test_a_span_that_is_sent_again_is_the_same_span() -> None:
    """Identical copies change nothing and are no loss."""
    whole = [root(), activation(2), chat(3, 2, **usage(1, 2)), point(4, "decide"), stop()]
    assert sound(*whole, *whole, *whole).to_json() == sound(*whole).to_json()


def test_versions_of_a_span_that_differ_are_flagged() -> None:
    """The one that says most is taken, whichever came first."""
    full = point(4, "decide", **{a.CHOSEN: "a"})
    for records in itertools.permutations([point(4, "decide"), full, full]):
        one = sound(root(), *records, stop())
        assert keys(one, span_id(4))["chosen"] == "a"
        assert one.flags == ("duplicate_spans",)


def test_distinct_is_the_same_for_any_order() -> None:
    """Whatever differs, one version wins in every order of arrival."""
    versions = [
        point(4, "decide"),
        point(4, "decide", 2),
        point(4, "decide", at=13),
        point(4, "message"),
        span(4, 1, 12, 12, point(4, "decide").attributes, is_error=True),
    ]
    winners = [repr(distinct(order)) for order in itertools.permutations(versions)]
    assert len(set(winners)) == 1
