"""Spans of JavaScript's SDK, which begin in whole milliseconds, tell what exact ones tell."""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st

from orchtrace_otel import attributes as a
from orchtrace_otel.model import Trace
from tests.unit.dialects.stories import Span, chat
from tests.unit.dialects.test_dialects import outline, told

AGENT: Final = {a.OPERATION: "invoke_agent"}
TOOL: Final = {a.OPERATION: "execute_tool", a.TOOL_NAME: "search"}
Lengths = tuple[int, int, int]
"""Microseconds of a call of a model, of a tool, and of a call again; a tool may be quick."""

LENGTHS: Final = st.tuples(
    st.integers(1_100, 9_000), st.integers(1, 4_000), st.integers(1_100, 9_000)
)


class Team:
    """A team that goes on at once whenever something comes back, on an exact clock."""

    def __init__(self, steps: list[list[Lengths]], offset: int) -> None:
        self.spans: list[Span] = []
        self.now = offset
        for number, step in enumerate(steps):
            self._step(f"agent{number % 2}", step)
        root = Span(
            1, None, "desk", offset / 1000, self.now / 1000, {a.OPERATION: "invoke_workflow"}
        )
        self.spans.insert(0, root)

    def _step(self, name: str, branches: list[Lengths]) -> None:
        begun, ends = self.now, list[int]()
        for branch, lengths in enumerate(branches):
            self.now = begun + branch
            agent = self._add(1, f"invoke_agent {name}{branch}", AGENT)
            for kind, length in zip((chat(3, 2), TOOL, chat(5, 1)), lengths, strict=True):
                inner = self._add(agent.id, str(kind[a.OPERATION]), kind)
                self.now += length
                inner.end = self.now / 1000
                self.now += 1
            agent.end = self.now / 1000
            ends.append(self.now)
        self.now = max(ends) + 1

    def _add(self, parent: int, name: str, attributes: dict[str, str]) -> Span:
        # A number with its digits the other way round: ids tell nothing of time.
        number = int(str(len(self.spans) + 101)[::-1]) + 1_000
        span = Span(number, parent, name, self.now / 1000, 0.0, dict(attributes))
        self.spans.append(span)
        return span


def causes(trace: Trace) -> list[tuple[str, str, str]]:
    """The edges, with who did what for ids."""
    who = {e.id: f"{e.get('instance', e.agent)} {e.verb}" for e in trace.events}
    return sorted((who[edge.src], who[edge.dst], edge.type) for edge in trace.edges)


def in_javascript(span: Span) -> Span:
    """The span as that SDK tells it: the clock in milliseconds, and how long it took."""
    return replace(span, start=floor(span.start), end=floor(span.start) + span.end - span.start)


@given(st.lists(LENGTHS, min_size=1, max_size=6), st.integers(0, 999))
@example([(1_500, 300, 1_400), (1_500, 300, 1_400)], 700)
def test_one_after_another_stays_so(steps: list[Lengths], offset: int) -> None:
    """Each agent follows from the one before, each call of a tool from its turn."""
    spans = Team([[step] for step in steps], offset).spans
    exact, found = told(spans), told([in_javascript(span) for span in spans])
    assert sorted(map(repr, outline(found))) == sorted(map(repr, outline(exact)))
    assert causes(found) == causes(exact)
    assert found.flags == ()


def test_an_agent_that_ends_with_a_quick_tool_is_over_before_the_next_one() -> None:
    """All within one millisecond: the tool came back to the agent, the agent to the next one."""
    spans = [
        Span(1, None, "desk", 0, 12.5, {a.OPERATION: "invoke_workflow"}),
        Span(2, 1, "invoke_agent one", 1, 5.9, AGENT),
        Span(3, 2, "execute_tool search", 5, 5.3, TOOL),
        Span(4, 2, "execute_tool search", 5, 5.2, TOOL),
        Span(5, 1, "invoke_agent two", 5, 12.1, AGENT),
    ]
    named = {f"{n:016x}": name for n, name in enumerate("_d1st2")}
    came = {
        named[edge.src[:16]] + named[edge.dst[:16]]
        for edge in told(spans).edges
        if edge.type in {"return", "tool_dependency"}
    }
    assert came == {"s1", "t1", "12", "2d"}


def test_a_finer_span_among_them_changes_nothing() -> None:
    """As that of a request around them, or of a database inside of a tool."""
    spans = Team([[(1_500, 300, 1_400)], [(1_500, 300, 1_400)]], 700).spans
    told_of = [in_javascript(span) for span in spans]
    told_of[0].parent = 9
    finer = [Span(9, None, "GET /", 0.25, 9.75), Span(8, told_of[3].id, "SELECT", 2.3, 2.4)]
    assert causes(told([*told_of, *finer])) == causes(told(spans))


def test_branches_stay_branches() -> None:
    """What began in one millisecond, and what overlaps by more, ran beside each other."""
    branches = [(4_000, 3_000, 5_000), (7_300, 2_200, 6_000)]
    spans = Team([branches, [(1_500, 2_000, 1_100)], branches], 400).spans
    exact, found = told(spans), told([in_javascript(span) for span in spans])
    assert causes(found) == causes(exact)


def test_what_outlives_its_parent_by_more_than_the_clock_can_err_is_late() -> None:
    """Work that goes on behind the run is told of, as with exact clocks."""
    spans = [
        Span(1, None, "desk", 0, 10.2, {a.OPERATION: "invoke_workflow"}),
        Span(2, 1, "invoke_agent one", 1, 11.1, AGENT),
        Span(3, 1, "invoke_agent two", 2, 13.5, AGENT),
    ]
    trace = told(spans)
    assert trace.flags == ("late_spans",)
    assert [event.agent for event in trace.events if event.get("late")] == ["two"]
