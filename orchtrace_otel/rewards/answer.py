"""Which event gave the answer of a run."""

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
    if stop is not None:
        opening = _opening_of(events[stop])
        causes = [
            place
            for place in graph.causes[stop]
            if place != stop and events[place].id != opening and _held(events[place])
        ]
        if causes:
            return causes[0] if len(causes) == 1 else _latest(causes, events, graph)
    end = None if stop is None else graph.begin[stop]
    others = (
        place
        for place, event in enumerate(events)
        if event.type in _ANSWERS and _held(event) and (end is None or graph.finish[place] <= end)
    )
    return _latest(others, events, graph)


def is_stop_useful(events: Sequence[Event], graph: Graph) -> bool:
    """Whether the stop counts as useful by itself: it has tokens and did not fail.

    It carries what the run's own activation did at last.
    """
    stop = graph.stop
    return stop is not None and "tokens" in events[stop].keys and _held(events[stop])


def _opening_of(stop: Event) -> str | None:
    name = stop.keys.get("activation")
    return name + ".open" if isinstance(name, str) else None


def _held(event: Event) -> bool:
    return event.keys.get("status") != "error"


def _latest(places: Iterable[int], events: Sequence[Event], graph: Graph) -> int | None:
    return max(places, key=lambda place: (graph.finish[place], events[place].id), default=None)
