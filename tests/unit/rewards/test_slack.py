"""Slack: the sheet's numbers, and what slack means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchtrace_otel.model import Edge
from orchtrace_otel.rewards.measures import measure
from orchtrace_otel.rewards.slack import slack


def test_fork3_has_the_slack_of_the_sheet(fork3, foreign_fork3):
    """A's work has 2 s, B's none; C, which led to nothing, has what is left of the span."""
    found = slack(fork3)
    assert [found[name] for name in ("A.close", "B.close", "C.close", "e11")] == [2, 0, 5, 0]
    found = slack(foreign_fork3)
    assert [found[name] for name in ("e5", "e6", "e7", "e11")] == [2, 0, 5, 0]


@pytest.mark.parametrize("name", ["e5", "e6", "e7"])
@pytest.mark.parametrize("more", [1, 2, 3, 7])
def test_an_event_that_takes_its_slack_longer_changes_no_span(name, more, foreign_fork3):
    """Within its slack the longest chain stays; beyond it grows by what is beyond."""
    longer = replace(
        foreign_fork3,
        events=tuple(
            replace(
                event,
                # What comes after the work comes later, so that no effect is before its cause.
                t=event.t + (10 if event.t >= 4 else 0),
                keys={**event.keys, "duration_s": event["duration_s"] + more}
                if event.id == name
                else event.keys,
            )
            for event in foreign_fork3.events
        ),
    )
    beyond = max(more - slack(foreign_fork3)[name], 0)
    assert measure(longer)[0]["span"] == measure(foreign_fork3)[0]["span"] + beyond


def test_what_cannot_be_told_has_no_slack(fork3):
    """A cycle has no longest chain."""
    assert slack(replace(fork3, edges=(*fork3.edges, Edge("e11", "e1", "causal")))) is None
    assert slack(replace(fork3, events=())) is None
