"""Whole orchestrations as text with marked fields, and pairs of them that won and lost.

The text of an orchestration is its specification: who takes part, in which role, with
which model (the capacity), and what waits for what. Where each field stands in the text
is told by spans, so that an edit of one field can be rewarded on that field's tokens
alone (LEMON, arXiv 2605.14483). Pairs are of one task, and ties are none (OrchRM, arXiv
2606.13598: win and lose plans of one task). No reward and no word of a judge is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from orchtrace_otel.datasets import Dropped, Group, Run

Json: TypeAlias = dict[str, Any]

TABLES = ("events", "edges", "turns", "rewards")
"""Tables that a specification is made of."""


class Span(NamedTuple):
    """Where a field stands: characters `start` to `end` of the text, the end not among them."""

    agent: str
    field: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Specification:
    """An orchestration as text."""

    text: str
    spans: tuple[Span, ...]

    def to_dict(self) -> list[Json]:
        """The spans as JSON."""
        return [span._asdict() for span in self.spans]


class _Member(NamedTuple):
    """An instance of an agent: its first opening and what led to it."""

    instance: str
    role: str
    model: str
    after: tuple[str, ...]


def specification(run: Run) -> Specification:
    """Write down a run's orchestration, instance by instance in order of their beginning."""
    text = ""
    spans: list[Span] = []
    for member in _members(run):
        after = ", ".join(member.after) or "the task"
        parts = (("role", member.role), ("capacity", member.model), ("dependency", after))
        text += f"agent {member.instance}"
        for field, value in parts:
            text += f" | {field}: "
            spans.append(Span(member.instance, field, len(text), len(text) + len(value)))
            text += value
        text += "\n"
    return Specification(text, tuple(spans))


def _members(run: Run) -> Iterator[_Member]:
    models: dict[str, str] = {}
    for row in run.rows.turns:
        models.setdefault(str(row.get("instance", row.get("agent"))), str(row.get("model", "?")))
    owner = {row["id"]: _instance(row) for row in run.rows.events}
    causes: dict[str, list[str]] = {}
    for edge in run.rows.edges:
        if edge["type"] != "temporal":
            causes.setdefault(edge["dst"], []).append(edge["src"])
    seen: set[str] = set()
    for row in run.rows.events:
        instance = _instance(row)
        if row["id"] != f"{row.get('activation')}.open" or instance in seen:
            continue
        seen.add(instance)
        before = {owner.get(source, "") for source in causes.get(row["id"], ())} - {instance, ""}
        role = str(row.get("role", "none"))
        yield _Member(instance, role, models.get(instance, "none"), tuple(sorted(before)))


def _instance(row: Json) -> str:
    return str(row.get("instance", row.get("agent", "")))


class Contest(NamedTuple):
    """Two runs of one task; `margin` is how much better the first did."""

    won: Run
    lost: Run
    margin: float


def contests(group: Group) -> Iterator[Contest | Dropped]:
    """Pair the runs of one task, the best with the worst and inwards; ties are dropped."""
    ranked = sorted(group.runs, key=lambda run: (-(run.label.value or 0.0), run.id))
    used: set[str] = set()
    for place in range(len(ranked) // 2):
        won, lost = ranked[place], ranked[-1 - place]
        margin = (won.label.value or 0.0) - (lost.label.value or 0.0)
        if margin > 0 and margin >= group.job.margin:
            used |= {won.id, lost.id}
            yield Contest(won, lost, margin)
    for run in ranked:
        if run.id not in used:
            yield Dropped("no_margin", run.id)
