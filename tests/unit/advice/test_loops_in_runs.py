"""The same again without news is a loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import content
from orchtrace_otel.content import Capture
from orchtrace_otel.content.setup import set_up
from tests.trees import recording
from tests.unit.advice.teams import points, poll, run, writer


def test_the_same_again_without_news_is_a_loop() -> None:
    """Once the host says what changes; tools for polling are left out."""
    advisor = orchtrace.advise(pollable=["poll"])

    @orchtrace.team
    def looping() -> None:
        for _ in range(4):
            advisor.observe(answer="same")
            poll()
            writer()

    with advisor:
        trace = run(looping)
    assert [event["features"]["loop"] for event in points(trace)[:4]] == [0, 0, 1, 1]
    assert [event["features"]["repeats"] for event in points(trace)[:4]] == [0, 1, 2, 3]


def test_an_agent_that_is_called_back_and_answers_is_no_deadlock() -> None:
    """While it works who called it waits for itself; once it is back nobody does."""

    @orchtrace.agent
    class Asker:
        def __call__(self, *, again: bool) -> None:
            orchtrace.decide("ask", chosen="helper")
            if again:
                Helper()(self)

    @orchtrace.agent
    class Helper:
        def __call__(self, asker: Asker) -> None:
            asker(again=False)

    @orchtrace.team
    def calling_back() -> None:
        Asker()(again=True)
        writer()

    with orchtrace.advise():
        trace = run(calling_back)
    seen = [(event.verb, event["features"]["deadlock"]) for event in points(trace)]
    assert seen == [
        ("decide", 0),
        ("decide", 1),
        ("return", 0),
        ("return", 0),
        ("return", 0),
        ("return", 0),
        ("stop", 0),
    ]


@pytest.mark.parametrize("states", [(-1, -2), (-1.0, -2.0), ((3, -1), (3, -2))])
def test_states_that_python_hashes_alike_are_two(states: tuple[object, object]) -> None:
    """What moves between -1 and -2 goes on, and is no loop."""
    advisor = orchtrace.advise()

    @orchtrace.team
    def moving() -> None:
        for number in range(4):
            advisor.observe(state=states[number % 2])
            writer()

    with advisor:
        trace = run(moving)
    assert [event["features"]["progress"] for event in points(trace)[:4]] == [1, 1, 1, 1]
    assert [event["features"]["loop"] for event in points(trace)[:4]] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("calls", "loops"),
    [
        ("xa xa xa", [0, 0, 1]),
        ("xa xa ya xa", [0, 0, 0, 1]),
        ("xa xb xc xd", [0, 0, 0, 0]),
        ("xa ya za", [0, 0, 0]),
        ("xa yb xa yb xa", [0, 0, 0, 0, 1]),
        ("x! x! x!", [0, 0, 0]),
    ],
    ids=["thrice", "with another between", "results move", "arguments differ", "cycle", "retries"],
)
def test_calls_that_give_the_same_again_are_a_loop_where_content_is_captured(
    calls: str, loops: list[int], tmp_path: Path
) -> None:
    """By keyed hashes of arguments and results; seen at the next decision point."""

    @orchtrace.tool
    def look(where: str, *, answer: Iterator[str]) -> str:
        said = next(answer)
        if said == "!":
            raise LookupError
        return said

    @orchtrace.team
    def looping() -> None:
        for call in calls.split():
            with suppress(LookupError):
                look(call[0], answer=iter(call[1]))
            orchtrace.decide("again", chosen=call)

    with orchtrace.advise(), recording() as captured:
        set_up(Capture(mode="EVENT_ONLY", store=str(tmp_path)), None)
        try:
            looping()
        finally:
            recorder = content.use(None)
            assert recorder is not None
            recorder.shutdown(10)
    found = [event["features"]["loop"] for event in points(captured.trace)]
    assert found == [*loops, 0]


def test_without_content_the_same_call_is_a_repeat_and_no_loop() -> None:
    """What it was asked and what it gave is not looked at."""

    @orchtrace.team
    def looping() -> None:
        for _ in range(4):
            poll()
            with orchtrace.aggregate():
                pass

    with orchtrace.advise():
        found = [event["features"] for event in points(run(looping))]
    assert [one["loop"] for one in found] == [0] * 5
    assert [one["repeats"] for one in found[:4]] == [0, 1, 2, 3]
