"""How near estimators come to what is true in the world: one function a question.

Each takes a seed and gives one number a row; over several seeds that is a mean with an
interval. Nothing here chooses what is shown: every method, every prior, every seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Final

from orchtrace_otel.replay.counterfactual import counterfactual
from orchtrace_otel.replay.players import Slot
from orchtrace_otel.replay.ranking import spearman
from orchtrace_otel.rewards.credit import METHODS, assign
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.outcome import Outcome
from orchtrace_otel.rewards.topology import explain_topology
from orchtrace_otel.testing.world._chance import chance
from orchtrace_otel.testing.world._play import World, make_group, make_world
from orchtrace_otel.testing.world._teams import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from orchtrace_otel.model import Trace
    from orchtrace_otel.replay.players import Player

APART: Final = 0.1
"""How far planted effects are apart that a ranking is asked to tell apart."""

_WORKERS: Final = 2
_DRAWS: Final = 20

Rows = dict[str, float]


# --- credit


def shares(trace: Trace) -> Mapping[str, Mapping[str, float]]:
    """Return how each method of credit divides a whole over events: method to id to share."""
    credit = assign(Facts(trace, Outcome("outcome", 1.0)))
    if credit is None:
        return {}
    return {method: credit.by_id(method) for method in credit.shares}


def by_agent(trace: Trace, parts: Mapping[str, float]) -> dict[str, float]:
    """Return the shares of events added up by the agent whose activation they lie in."""
    owners = {e["activation"]: e["to"] for e in trace.events if _is_opening(e.id, e.type)}
    found: defaultdict[str, float] = defaultdict(float)
    for event in trace.events:
        found[owners.get(event["activation"], event.agent)] += parts.get(event.id, 0.0)
    return dict(found)


def _is_opening(name: str, kind: str) -> bool:
    return name.endswith(".open") and kind != "tool_call"


def _worlds(seed: int, count: int, *, has_fault: bool = False) -> list[World]:
    """`count` runs of each kind of team, each of a team of its own."""
    return [
        make_world(1_000 * seed + at, kind, has_fault=has_fault)
        for kind in sorted(KINDS)
        for at in range(count)
    ]


# --- 1. rank correlation with exhaustive replay


def fidelity_of_messages(seed: int, count: int) -> Rows:
    """Rank correlation of each structural credit of messages with their true effects."""
    return _fidelity(_worlds(seed, count), _message_scores, lambda world: world.slots)


def fidelity_of_agents(seed: int, count: int) -> Rows:
    """Rank correlation of each structural credit of agents with their true effects."""
    return _fidelity(_worlds(seed, count), _agent_scores, lambda world: world.agents)


def _fidelity(
    worlds: Iterable[World],
    score: Callable[[World], dict[str, dict[Player, float]]],
    players_of: Callable[[World], Sequence[Player]],
) -> Rows:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for world in worlds:
        players = players_of(world)
        truth = [round(world.effect(player), 9) for player in players]
        if len(set(truth)) < len(("one", "other")):
            continue  # all are worth the same: there is nothing to rank
        for name, values in score(world).items():
            found[name].append(spearman([values[player] for player in players], truth))
    return {name: fmean(values) for name, values in found.items()}


def _message_scores(world: World) -> dict[str, dict[Player, float]]:
    parts = shares(world.trace)
    times = {event.id: event.t for event in world.trace.events}
    found: dict[str, dict[Player, float]] = {
        method: {
            letter.slot: parts.get(method, {}).get(letter.event, 0.0) for letter in world.letters
        }
        for method in METHODS
    }
    found["prior: later is better"] = {one.slot: times[one.event] for one in world.letters}
    return found


def _agent_scores(world: World) -> dict[str, dict[Player, float]]:
    parts = {method: by_agent(world.trace, one) for method, one in shares(world.trace).items()}
    tokens, turns = _tokens(world.trace), _turns(world.trace)
    found: dict[str, dict[Player, float]] = {
        method: {part: parts.get(method, {}).get(part.name, 0.0) for part in world.agents}
        for method in METHODS
    }
    found["prior: more tokens are better"] = {p: tokens[p.name] for p in world.agents}
    found["prior: more turns are better"] = {p: turns[p.name] for p in world.agents}
    return found


def _tokens(trace: Trace) -> Counter[str]:
    found: Counter[str] = Counter()
    for turn in trace.turns:
        found[str(turn.agent)] += turn.tokens or 0
    return found


def _turns(trace: Trace) -> Counter[str]:
    return Counter(event.agent for event in trace.events if event.verb == "return")


# --- 2. naming the agent that failed


def name_agent(seed: int, count: int, replays: int) -> Rows:
    """How often each method names the broken agent of one run that failed; ties count in part."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for world in _worlds(seed, count, has_fault=True):
        names = [part.name for part in world.agents]
        if world.failing_agent is None or len(names) < len(("one", "other")):
            continue
        for method, blame in _blame(world, replays).items():
            found[method].append(_hit(blame, names, world.failing_agent))
    return {method: fmean(hits) for method, hits in found.items()}


def _blame(world: World, replays: int) -> dict[str, Mapping[str, float]]:
    """How much each method blames each agent: what was lost goes by shares of credit."""
    parts = shares(world.trace)
    blame: dict[str, Mapping[str, float]] = {
        method: by_agent(world.trace, parts.get(method, {})) for method in METHODS
    }
    replayed = counterfactual(world.trace, world.replay, "agent", replays=replays, workers=_WORKERS)
    blame["replay, leave one out"] = {
        effect.player[1]: -(effect.value or 0.0) for effect in replayed.effects
    }
    return blame | _agent_priors([world])


def _agent_priors(worlds: Sequence[World]) -> dict[str, Mapping[str, float]]:
    turns: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    first: Counter[str] = Counter()
    last: Counter[str] = Counter()
    for world in worlds:
        spoke = [event.agent for event in world.trace.events if event.verb == "return"]
        turns.update(spoke)
        first[world.agents[0].name] += 1
        last[spoke[-1]] += 1
        errors.update(e.agent for e in world.trace.events if e.get("status") == "error")
    return {
        "prior: chance": {},
        "prior: first agent": first,
        "prior: last speaker": last,
        "prior: most frequent speaker": turns,
        "prior: most errors seen": errors,
    }


def _hit(blame: Mapping[str, float], names: Sequence[str], truth: str) -> float:
    """1 where the truth is blamed most, its share where several are, else 0."""
    most = max(blame.get(name, 0.0) for name in names)
    blamed = [name for name in names if blame.get(name, 0.0) >= most - 1e-12]
    return 1 / len(blamed) if truth in blamed else 0.0


def name_agent_of_group(seed: int, count: int, runs: int) -> Rows:
    """The same from several runs of a team: who has the least share of advantage is named.

    An agent's number is the mean over runs of its share times how much better than the
    team's mean the run was.
    """
    found: defaultdict[str, list[float]] = defaultdict(list)
    for kind in sorted(KINDS):
        for at in range(count):
            group = make_group(1_000 * seed + at, kind, runs=runs)
            names = sorted({part.name for world in group for part in world.agents})
            truth = group[0].failing_agent
            if truth not in names or len(names) < len(("one", "other")):
                continue
            for method, blame in _group_blame(group, names).items():
                found[method].append(_hit(blame, names, str(truth)))
    return {method: fmean(hits) for method, hits in found.items()}


def _group_blame(group: Sequence[World], names: Sequence[str]) -> dict[str, Mapping[str, float]]:
    mean = fmean(world.score for world in group)
    totals: dict[str, Counter[str]] = {method: Counter() for method in METHODS}
    for world in group:
        for method, parts in shares(world.trace).items():
            for name, share in by_agent(world.trace, parts).items():
                totals[method][name] -= share * (world.score - mean)  # type: ignore[assignment] # pyright: ignore[reportArgumentType] # a Counter of numbers
    blame: dict[str, Mapping[str, float]] = dict(totals)
    blame["outcome without it minus with it"] = {name: _contrast(group, name) for name in names}
    return blame | _agent_priors(group)


def _contrast(group: Sequence[World], name: str) -> float:
    inside = [w.score for w in group if any(part.name == name for part in w.agents)]
    outside = [w.score for w in group if all(part.name != name for part in w.agents)]
    return fmean(outside) - fmean(inside) if inside and outside else 0.0


# --- 3. naming the message that did it


def name_message(seed: int, count: int, replays: int) -> Rows:
    """How often each method names the most costly message of one run that failed."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for world in _worlds(seed, count, has_fault=True):
        if world.failing_message is None or len(world.slots) < len(("one", "other")):
            continue
        labels = {slot: str(at) for at, slot in enumerate(world.slots)}
        events = {letter.slot: letter.event for letter in world.letters}
        parts = shares(world.trace)
        blame: dict[str, Mapping[str, float]] = {
            method: {labels[s]: parts.get(method, {}).get(events[s], 0.0) for s in world.slots}
            for method in METHODS
        }
        replayed = counterfactual(world.trace, world.replay, replays=replays, workers=_WORKERS)
        blame["replay, leave one out"] = {
            labels[effect.player]: -(effect.value or 0.0)
            for effect in replayed.effects
            if isinstance(effect.player, Slot)
        }
        last = str(len(labels) - 1)
        blame |= {"prior: chance": {}, "prior: first": {"0": 1.0}, "prior: last": {last: 1.0}}
        for method, one in blame.items():
            hit = _hit(one, list(labels.values()), labels[world.failing_message])
            found[method].append(hit)
    return {method: fmean(hits) for method, hits in found.items()}


# --- 4. replay against the planted effects


def rank_by_replay(seed: int, count: int, replays: int, *, graded: bool) -> Rows:
    """Rank correlation of replayed with planted effects, of messages of all of a seed's runs.

    Of those at least `APART` apart, the mean over several draws of such messages; and of
    all messages, however near to each other.
    """
    pairs: list[tuple[float, float]] = []
    for world in _worlds(seed, count):
        again = partial(world.replay, graded=graded)
        found = counterfactual(world.trace, again, replays=replays, workers=_WORKERS)
        pairs += [(world.effect(e.player), e.value) for e in found.effects if e.value is not None]
    drawn = [_apart(pairs, chance("apart", seed, at).random) for at in range(_DRAWS)]
    return {
        f"at least {APART} apart": fmean(spearman(*zip(*one, strict=True)) for one in drawn),
        "all messages": spearman(*zip(*pairs, strict=True)),
    }


def _apart(
    pairs: Sequence[tuple[float, float]], draw: Callable[[], float]
) -> list[tuple[float, float]]:
    """A random choice of pairs whose true effects are far enough apart, as many as fit."""
    kept: list[tuple[float, float]] = []
    for pair in sorted(pairs, key=lambda _: draw()):
        if all(abs(pair[0] - other[0]) >= APART for other in kept):
            kept.append(pair)
    return kept


# --- 5. topology


def confusion(seeds: Iterable[int]) -> dict[str, Counter[str]]:
    """Return for each kind of team, and mixed, what its runs are recognised as."""
    runs = list(seeds)
    return {
        kind: Counter(explain_topology(make_world(seed, kind).trace).topology for seed in runs)
        for kind in (*sorted(KINDS), "mixed")
    }
