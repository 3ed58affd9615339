"""Which kind of team a trace shows, and what says so.

The survey (arXiv 2605.02801) names six kinds and defines none by the trace; the rules here
are proposed for this project [P]. Each activation is sorted by how it came about, and the
kind that most of them speak for is the team's:

- *called*: its holder (the activation around it) opened it: `centralized`;
- *nested*: it is held by an agent that is not the lead, or holds others itself: `hierarchical`;
- *handed over*: a peer opened it: `swarm`;
- *chained*: it follows the end of one peer, who did not choose it: where the chain comes
  back to an agent it had, or roles say that one checks what others do,
  `planner_executor_critic`; where all of the chain passes through one agent, `centralized`;
- *mutual*: its agent read several peers who read it, in two turns or more each: `debate`;
- *by tool*: it runs inside a tool call of the lead; the lead's own tool calls count half
  an activation each: `harness`.

Where a second kind has a third of the activations the team is `mixed`, and where no kind has
three fifths a quarter is enough; a lead's own tools make a team mixed only there. Where a
trace has no agents below its lead, or a chain without a way back, it is `unknown`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.teams import Act, Team, read_team

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from orchtrace_otel.model import Trace

MOST: Final = 0.6
"""Share of activations from which on one kind is the team's, unless a second has `MUCH`."""

SOME: Final = 0.25
"""Share from which on a second kind makes a team mixed in which no kind has `MOST`."""

MUCH: Final = 1 / 3
"""Share from which on a second kind makes any team mixed."""

_PLANS: Final = ("plan",)
_EXECUTES: Final = ("execut", "coder", "writer", "solver", "actor")
_CHECKS: Final = ("critic", "review", "verif", "check", "judge", "evaluat")

_WAY: Final[Mapping[str, str]] = {
    "called": "centralized",
    "nested": "hierarchical",
    "handed over": "swarm",
    "chained": "planner_executor_critic",
    "mutual": "debate",
    "by tool": "harness",
}


class Evidence(NamedTuple):
    """What was recognised, and what it rests on.

    Attributes:
        topology: One of `TOPOLOGIES`.
        shares: Kind to its share of the activations, from 0 to 1; kinds without any are
            left out.
        signs: Sentences for people: what was seen.
        activations: How each activation came about, by its span id.
    """

    topology: str
    shares: Mapping[str, float]
    signs: tuple[str, ...]
    activations: Mapping[str, str]


def topology(facts: Facts) -> str:
    """Return what the trace says of itself, else what is recognised."""
    return facts.trace.topology or _explain(facts).topology


def explain_topology(trace: Trace) -> Evidence:
    """Recognise the kind of a team, with the evidence for it.

    Time and space are O(V + E); the order of events and edges changes nothing.

    Args:
        trace: A trace of this project. Traces of others, without activations, are read by
            what they gave to whom.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> events = [Event(f"{name}.open", 0, "spawn", "lead", {"to": name, "parent": "r"})
        ...           for name in ("scout", "coder", "tester")]
        >>> evidence = explain_topology(Trace("run", "task", tuple(events)))
        >>> evidence.topology, evidence.signs
        ('centralized', ('3 of 3 activations were called',))
    """
    return _explain(Facts(trace))


def _explain(facts: Facts) -> Evidence:
    team = read_team(facts)
    ways = _sort(team)
    counted = Counter(ways.values())
    signs = [f"{count} of {len(ways)} activations were {way}" for way, count in _ranked(counted)]
    own = team.tools_of_lead
    if own:
        signs.append(f"the lead called {own} tools itself")
    weights = {_WAY[way]: float(count) for way, count in counted.items()}
    if own >= _FEW:
        weights["harness"] = weights.get("harness", 0.0) + own / 2
    kind = _name(team, weights, signs)
    total = sum(weights.values())
    shares = {name: weight / total for name, weight in sorted(weights.items())}
    return Evidence(kind, shares, tuple(signs), ways)


_FEW: Final = 3


def _ranked(counted: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


# --- sorting


def _sort(team: Team) -> dict[str, str]:
    """How each activation came about."""
    arguing = _arguing(team)
    kinds = {act: _way(team, act, arguing) for act in team.kinds}
    ways = {name: kinds[act] for name, act in team.acts.items()}
    _sort_singly(team, ways)
    if not {"chained", "handed over"}.isdisjoint(ways.values()):
        _start_chains(team, ways)
        if _has_hub(team, ways):
            ways = {name: "called" if way == "chained" else way for name, way in ways.items()}
    return ways


def _sort_singly(team: Team, ways: dict[str, str]) -> None:
    """Those that followed another, ran inside of a tool or hold others: mostly few."""
    acts = team.acts
    for name, before in team.after.items():
        if ways.get(name) == "called" and sum(map(acts.__contains__, before)) == 1:
            ways[name] = "chained"
    for name in team.by_tool & ways.keys():
        if ways[name] != "nested":
            ways[name] = "by tool"
    for _, _, holder, _ in team.kinds:
        if holder in acts:
            ways[holder] = "nested"


def _way(team: Team, act: Act, arguing: Collection[str]) -> str:
    """How such an activation came about, if it holds no other and followed nothing."""
    agent, by, holder, _ = act
    if holder != team.lead and holder in team.acts:
        return "nested"
    if by not in (team.agents.get(holder, by), agent):
        return "handed over"
    return "mutual" if agent in arguing else "called"


def _turns(team: Team) -> Counter[str]:
    """How often each agent worked."""
    return Counter([agent for agent, _, _, _ in team.acts.values()])


def _arguing(team: Team) -> Collection[str]:
    """Agents of two turns or more that read two peers, or the only one, who read them."""
    if not team.read:
        return ()
    turns = _turns(team)
    often = {agent for agent, count in turns.items() if count > 1}
    mutual: Counter[str] = Counter()
    for reader, writer in team.read:
        if reader != writer and {reader, writer} <= often and (writer, reader) in team.read:
            mutual[reader] += 1
    needed = 1 if len(turns) == _PAIR else _PAIR
    return {agent for agent, count in mutual.items() if count >= needed}


_PAIR: Final = 2


def _start_chains(team: Team, ways: dict[str, str]) -> None:
    """The first of a chain was called; it belongs to what it began."""
    latest: dict[str, str] = {}
    for name, (agent, by, _, _) in team.acts.items():
        way = ways[name]
        before = team.after.get(name, ()) if way == "chained" else (latest.get(by, ""),)
        if way in ("chained", "handed over"):
            for first in before:
                if ways.get(first) == "called":
                    ways[first] = way
        latest[agent] = name


def _has_hub(team: Team, ways: Mapping[str, str]) -> bool:
    """Whether a chain goes out from one agent to two others or more, each time back to it."""
    acts = team.acts
    steps = [
        {acts[before][0], acts[name][0]}
        for name, givers in team.after.items()
        if ways.get(name) == "chained"
        for before in givers
        if before in acts
    ]
    everybody = set[str]().union(*steps)
    # Of three, the middle one of a single pass is in every step too; a hub comes back.
    turns = _turns(team)
    return len(everybody) > _PAIR and any(
        turns[agent] > _PAIR and all(agent in step for step in steps) for agent in everybody
    )


# --- naming


def _name(team: Team, weights: Mapping[str, float], signs: list[str]) -> str:
    if not weights:
        return "unknown"
    if _checks_itself(team, signs) and set(weights) <= _FLAT:
        return "planner_executor_critic"
    if len({agent for agent, _, _, _ in team.kinds}) == 1 and set(weights) == {"centralized"}:
        signs.append("one agent alone is no team")
        return "unknown"
    kind = _ranked(weights)[0][0]
    if _is_mixed(team, weights):
        return "mixed"
    if kind == "planner_executor_critic" and not _comes_back(team):
        signs.append("the chain never comes back to an agent it had")
        return "unknown"
    return kind


def _is_mixed(team: Team, weights: Mapping[str, float]) -> bool:
    """Whether a second kind has its share; tools of the lead are a weak sign of one."""
    total = sum(weights.values())
    (_, most), *others = _ranked(weights)
    if not others:
        return False
    second, share = others[0]
    is_weak = second == "harness" and team.by_tool.isdisjoint(team.acts)
    if most < MOST * total or is_weak:
        return most < MOST * total and share >= SOME * total
    return share >= MUCH * total


_FLAT: Final = frozenset({"centralized", "planner_executor_critic", "debate"})


def _checks_itself(team: Team, signs: list[str]) -> bool:
    """Whether roles or names say that one checks what another plans or carries out."""
    # The first that says so is named; there are few roles, and may be many activations.
    said = [(role or agent).lower() for agent, _, _, role in team.kinds]
    checks, plans, executes = (_says(said, words) for words in (_CHECKS, _PLANS, _EXECUTES))
    if checks and (plans or executes):
        signs.append(f"{checks!r} checks what {plans or executes!r} does")
        return True
    return False


def _says(said: Iterable[str], words: Iterable[str]) -> str | None:
    return next((text for text in said for word in words if word in text), None)


def _comes_back(team: Team) -> bool:
    return any(count > 1 for count in _turns(team).values())
