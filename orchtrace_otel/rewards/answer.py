"""Which event gave the answer of a run, and what led to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchtrace_otel.model import Event
    from orchtrace_otel.rewards.graph import Graph

_ANSWERS: Final = frozenset({"aggregate", "return"})


def find_answer(events: Sequence[Event], graph: Graph) -> int | None:
    """Position of the answer: the latest cause of the stop that did not fail.

    Without one it is the latest aggregate or return before the stop that did not
    fail; without that there is no answer. That the run began is no answer either.
    """
    stop = graph.stop
    opening = _opening_of(events[stop]) if stop is not None else None
    causes = (
        place
        for place in graph.stop_causes
        if place != stop and events[place].id != opening and _held(events[place])
    )
    answer = _latest(causes, events, graph)
    if answer is not None:
        return answer
    end = None if stop is None else graph.begin[stop]
    others = (
        place
        for place, event in enumerate(events)
        if event.type in _ANSWERS and _held(event) and (end is None or graph.finish[place] <= end)
    )
    return _latest(others, events, graph)


def useful_events(events: Sequence[Event], graph: Graph) -> bytearray:
    """1 for each event that led to the answer, the answer included, 0 for the others.

    The stop counts too where it did not fail: it carries what the run's own
    activation did at last. All are 0 where nothing was answered.
    """
    useful = bytearray(len(events))
    stop = graph.stop
    by_itself = stop is not None and "tokens" in events[stop].keys and _held(events[stop])
    answer = find_answer(events, graph)
    if answer is not None:
        useful[answer] = 1
        for place in reversed(graph.order):
            if not useful[place]:
                for effect in graph.effects[place]:
                    if useful[effect]:
                        useful[place] = 1
                        break
    if by_itself and stop is not None:
        useful[stop] = 1
    return useful


def _opening_of(stop: Event) -> str | None:
    name = stop.keys.get("activation")
    return name + ".open" if isinstance(name, str) else None


def _held(event: Event) -> bool:
    return event.keys.get("status") != "error"


def _latest(places: Iterable[int], events: Sequence[Event], graph: Graph) -> int | None:
    return max(places, key=lambda place: (graph.finish[place], events[place].id), default=None)
