"""Which agent a hand-off went to, and which agent was made before it was called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign, SpanRecord

_FARTHEST: Final = 64
"""How many of its own name an unnamed hand-off is looked for behind."""


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
    found: dict[str, Received] = {}
    agents = [key for key, one in spans.items() if one.kind == "agent"]
    for kind in ("handoff", "spawn"):
        waiting = _Waiting(spans, by_id, [agent for agent in agents if agent not in found])
        for key, one in spans.items():
            if one.kind == kind:
                giver, to = sender(key), one.attributes.get(a.TO)
                agent = waiting.take(by_id[key].start, to, giver)
                if agent is not None:
                    says_so = spans[agent].attributes.get(a.FROM) == giver
                    found[agent] = Received(key, is_exact=to is not None and says_so)
    return found


class _Waiting:
    """Agents that were handed nothing yet; asked for in order of time, so looked at once."""

    def __init__(
        self, spans: Mapping[str, Foreign], by_id: Mapping[str, SpanRecord], agents: list[str]
    ) -> None:
        self._by_id = by_id
        self._names = {agent: str(spans[agent].attributes[a.AGENT_NAME]) for agent in agents}
        self._taken: set[str] = set()
        self._of: dict[str | None, list[str]] = {None: agents}
        for agent, name in self._names.items():
            self._of.setdefault(name, []).append(agent)
        self._place: dict[str | None, int] = {}

    def take(self, start: int, name: str | None, giver: str) -> str | None:
        """Return the first agent from then on of a name; of any but the giver's without one."""
        for agent in islice(self._after(start, name), _FARTHEST):
            if name is not None or self._names[agent] != giver:
                self._taken.add(agent)
                return agent
        return None

    def _after(self, start: int, name: str | None) -> Iterator[str]:
        agents = self._of.get(name, [])
        place = self._place.get(name, 0)
        while place < len(agents) and (
            agents[place] in self._taken or self._by_id[agents[place]].start < start
        ):
            place += 1
        self._place[name] = place
        for at in range(place, len(agents)):
            if agents[at] not in self._taken:
                yield agents[at]
