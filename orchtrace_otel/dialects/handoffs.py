"""Which agent a hand-off went to, and which agent was made before it was called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign, SpanRecord


class Received(NamedTuple):
    """What an activation follows from.

    Attributes:
        cause: Span id of the hand-off or the creation.
        is_exact: Whether spans say so themselves, rather than order and names.
    """

    cause: str
    is_exact: bool


def match(
    spans: Mapping[str, Foreign],
    by_id: Mapping[str, SpanRecord],
    sender: Callable[[str], str],
) -> dict[str, Received]:
    """Return what each agent that was handed something follows from.

    A hand-off goes to the first agent that begins after it, is of the name it gives,
    and was not handed anything by another; where it gives none, to the first one that
    is another than its sender.

    Args:
        spans: What the meaningful spans say, in canonical order.
        by_id: The spans.
        sender: Span id of a hand-off to the name of the agent that hands over.
    """
    agents = [key for key, one in spans.items() if one.kind == "agent"]
    found: dict[str, Received] = {}
    for key, one in spans.items():
        if one.kind == "handoff":
            free = (at for at in agents if at not in found and _is_after(by_id, at, key))
            _receive(found, spans, key, free, sender(key))
    for key, one in spans.items():
        if one.kind == "spawn":
            free = (at for at in agents if at not in found and _is_after(by_id, at, key))
            named = (at for at in free if _name(spans, at) == one.attributes[a.TO])
            first = next(named, None)
            if first is not None:
                found[first] = Received(key, is_exact=False)
    return found


def _receive(
    found: dict[str, Received],
    spans: Mapping[str, Foreign],
    handoff: str,
    free: Iterable[str],
    sender: str,
) -> None:
    to = spans[handoff].attributes.get(a.TO)
    for agent in free:
        name = _name(spans, agent)
        if (name == to) if to is not None else (name != sender):
            says_so = spans[agent].attributes.get(a.FROM) == sender
            found[agent] = Received(handoff, is_exact=to is not None and says_so)
            return


def _is_after(by_id: Mapping[str, SpanRecord], agent: str, cause: str) -> bool:
    return by_id[agent].start >= by_id[cause].start and agent != cause


def _name(spans: Mapping[str, Foreign], agent: str) -> str:
    return str(spans[agent].attributes[a.AGENT_NAME])
