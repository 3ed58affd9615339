"""Which result is of which call of a tool, in traces of others, whose ids do not say it.

It is what the call led to at once. Where no edge says so, as in logs that list one event
after another, results go to the calls that wait for one: by the id that the model gave the
call, else by agent and tool, first come, first served.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from orchtrace_otel.model import Event
    from orchtrace_otel.rewards.facts import Facts

_Sign: TypeAlias = tuple[str | None, str | None, str | None]
"""What a call and a result have in common: the call's id; else an agent, a tool, or both."""


def results_of_others(
    facts: Facts, calls: Sequence[int], closings: Collection[int]
) -> Mapping[int, int | None]:
    """Position of the result of each call; its own where the call says itself how it went.

    Args:
        facts: Of the trace.
        calls: Positions of the calls of others.
        closings: Positions of what closes intervals of ours.
    """
    events = facts.events
    answers = set(facts.by_type.get("tool_result", ())).difference(closings)
    tools = {_text(events[at], "tool") for at in calls}
    left, found = set(answers), dict[int, int | None]()
    waiting: dict[int, list[int]] = {}
    for place in facts.in_order(calls):
        led = [at for at in facts.effects[place] if at in answers]
        fitting = [at for at in led if _fits(events[place], events[at], tools)]
        if fitting:
            # One that no other call has; several may share one.
            found[place] = at = min(fitting, key=lambda at: (at not in left, *_when(events[at])))
            left.discard(at)
        else:
            waiting[place] = led
    if left:
        found |= _in_turn(facts, waiting, left, tools)
        left.difference_update(found.values())
    for place, led in waiting.items():
        if place not in found:
            found[place] = _without(events, place, [at for at in led if at in left])
    return found


def _without(events: Sequence[Event], place: int, led: Sequence[int]) -> int | None:
    """What is taken for the result of a call that has none by its names."""
    keys = events[place].keys
    of_another_name = [at for at in led if _has_its_id(events[place], events[at])]
    own = place if "duration_s" in keys or "status" in keys else None
    return min(of_another_name, key=lambda at: _when(events[at]), default=own)


def _fits(call: Event, result: Event, tools: Collection[str | None]) -> bool:
    """Whether a result may be that of a call, by the id of the call and by its tool."""
    asked, given = _text(call, "tool"), _tool_of(result, tools)
    return _has_its_id(call, result) and (asked is None or given is None or asked == given)


def _has_its_id(call: Event, result: Event) -> bool:
    asked, given = _text(call, "tool_call_id"), _text(result, "tool_call_id")
    return asked is None or given is None or asked == given


def _tool_of(result: Event, tools: Collection[str | None]) -> str | None:
    """The tool that gave a result; others may name it as the agent."""
    tool = _text(result, "tool")
    return result.agent if tool is None and result.agent in tools else tool


def _in_turn(
    facts: Facts, waiting: Collection[int], left: Collection[int], tools: Collection[str | None]
) -> Mapping[int, int]:
    """Results that no edge gives to a call, each to the first that waits for such a one."""
    events = facts.events
    callers = {events[at].agent for at in facts.by_type["tool_call"]}
    has_ids = any(_text(events[at], "tool_call_id") is not None for at in left)
    lines: defaultdict[_Sign, deque[int]] = defaultdict(deque)
    found: dict[int, int] = {}
    ordered = facts.in_order((*waiting, *left))
    # Of one moment, calls come first.
    for place in sorted(ordered, key=lambda at: (events[at].t, events[at].type)):
        event = events[place]
        if event.type == "tool_call":
            for sign in _signs_of_call(event, has_ids=has_ids):
                lines[sign].append(place)
            continue
        for sign in _signs_of_result(event, _tool_of(event, tools), callers):
            line = lines[sign]
            while line and line[0] in found:
                line.popleft()
            if line:
                found[line.popleft()] = place
                break
    return found


def _signs_of_call(call: Event, *, has_ids: bool) -> Collection[_Sign]:
    """All by which its result may know it: its id, where results have any."""
    identity, agent, tool = _text(call, "tool_call_id"), call.agent, _text(call, "tool")
    if has_ids and identity is not None:
        return ((identity, None, None),)
    return {(None, agent, tool), (None, agent, None), (None, None, tool), (None, None, None)}


def _signs_of_result(result: Event, tool: str | None, callers: Collection[str]) -> Iterator[_Sign]:
    """By what its call is sought: its id; else its tool, and its agent, where that is no tool."""
    identity = _text(result, "tool_call_id")
    if identity is not None:
        yield identity, None, None
    yield None, result.agent if result.agent in callers else None, tool


def _text(event: Event, key: str) -> str | None:
    value = event.keys.get(key)
    return value if isinstance(value, str) else None


def _when(event: Event) -> tuple[float, str]:
    return event.t, event.id
