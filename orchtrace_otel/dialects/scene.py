"""Who is inside of whom in a trace of others: its meaningful spans, its root, their scopes.

Spans that say nothing of orchestration (HTTP, databases, queues) stay links of the
chain from a span to what is around it. Every question is answered by walking up once:
the cost grows with the number of spans, however deep they nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign, SpanRecord

ACTIVATIONS: Final = frozenset(("workflow", "agent"))
INTERVALS: Final = frozenset(("workflow", "agent", "tool"))


class Scene:
    """The spans of one OTel trace that holds none of ours.

    Args:
        by_id: All of its spans, in canonical order; one at least says something.

    Attributes:
        by_id: The same.
        spans: What the meaningful ones say, in canonical order, glue and doubles aside.
        root_id: Span that is or stands around all of them.
    """

    def __init__(self, by_id: Mapping[str, SpanRecord]) -> None:
        self.by_id = by_id
        told = {key: one.foreign for key, one in by_id.items() if one.foreign is not None}
        around = _Nearest(by_id, told.__contains__)
        tops = [key for key in told if around(key) is None]
        self.root_id = _root(by_id, tops) if tops else next(iter(told))
        doubles = set(self._doubles(told))
        self.spans: dict[str, Foreign] = {
            key: one
            for key, one in told.items()
            if key == self.root_id or (one.kind != "step" and key not in doubles)
        }
        self._scope = _Nearest(by_id, lambda key: self._is(key, INTERVALS))
        self._owner = _Nearest(by_id, lambda key: self._is(key, ACTIVATIONS))

    def scope(self, span_id: str) -> str:
        """Return the workflow, agent or tool around a span; the root's id for those outside."""
        return self._scope(span_id) or self.root_id

    def owner(self, span_id: str) -> str:
        """Return the workflow or agent around a span; the root's id for those outside."""
        return self._owner(span_id) or self.root_id

    def _is(self, span_id: str, kinds: frozenset[str]) -> bool:
        found = self.spans.get(span_id)
        return span_id == self.root_id or (found is not None and found.kind in kinds)

    def _doubles(self, told: Mapping[str, Foreign]) -> Iterator[str]:
        """Yield what two instrumentations told of twice: one inside its own name's."""

        def is_interval(span_id: str) -> bool:
            found = told.get(span_id)
            return found is not None and (found.kind in INTERVALS or span_id == self.root_id)

        around = _Nearest(self.by_id, is_interval)
        for key, one in told.items():
            if one.kind in INTERVALS and key != self.root_id:
                outer = around(key)
                if outer is not None and _is_same(told[outer], one):
                    yield key


class _Nearest:
    """The nearest span above another that is of some sort; None where there is none."""

    def __init__(self, by_id: Mapping[str, SpanRecord], is_wanted: Callable[[str], bool]) -> None:
        self._by_id = by_id
        self._is_wanted = is_wanted
        self._known: dict[str, str | None] = {}

    def __call__(self, span_id: str) -> str | None:
        path = [span_id]
        passed = {span_id}
        found: str | None = None
        for above in _above(self._by_id, span_id):
            if self._is_wanted(above):
                found = above
                break
            if above in self._known:
                found = self._known[above]
                break
            if above in passed:
                break
            path.append(above)
            passed.add(above)
        self._known.update(dict.fromkeys(path, found))
        return found


def _above(by_id: Mapping[str, SpanRecord], span_id: str) -> Iterator[str]:
    """Yield the ids of what is around a span, nearest first; the last may be missing."""
    record = by_id.get(span_id)
    while record is not None and record.parent_id is not None:
        yield record.parent_id
        record = by_id.get(record.parent_id)


def _root(by_id: Mapping[str, SpanRecord], tops: Sequence[str]) -> str:
    """Return the one span on top; where there are several, the nearest around all of them.

    Where nothing is around all, what is uppermost above the first one stands for it.
    """
    if len(tops) == 1:
        return tops[0]
    chain: dict[str, int] = {}
    for above in _above(by_id, tops[0]):
        if above in chain:
            break
        chain[above] = len(chain)
    if not chain:
        return tops[0]
    reached = dict(chain)
    end = len(chain) - 1
    lowest = max((_reach(by_id, top, reached, end) for top in tops[1:]), default=0)
    return list(chain)[lowest]


def _reach(by_id: Mapping[str, SpanRecord], top: str, reached: dict[str, int], end: int) -> int:
    """Return where a chain meets the first one; `end` where it never does."""
    path: list[str] = []
    place = end
    for above in _above(by_id, top):
        if above in reached:
            place = reached[above]
            break
        path.append(above)
        reached[above] = end  # a chain that bites its tail meets nothing
    reached.update(dict.fromkeys(path, place))
    return place


def _is_same(outer: Foreign, inner: Foreign) -> bool:
    """Whether two spans, one inside the other, tell of one agent or of one call of a tool."""
    if (outer.kind == "tool") != (inner.kind == "tool"):
        return False
    key = a.TOOL_NAME if inner.kind == "tool" else a.AGENT_NAME
    return outer.attributes.get(key) == inner.attributes.get(key)
