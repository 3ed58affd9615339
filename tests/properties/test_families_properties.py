"""What holds for the rewards of every run: ranges, orders, names, and what changes nothing."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import Facts, score
from orchtrace_otel.rewards.explaining import explain
from orchtrace_otel.rewards.families import STRUCTURAL
from orchtrace_otel.rewards.families.orchestration.communication import message_delays, messages
from orchtrace_otel.rewards.measures import measure
from tests.properties.test_rewards_properties import random_run, seeds


def talking_run(seed: int) -> Trace:
    """A random run in which messages are read, by events that come later."""
    trace = random_run(seed)
    chance = random.Random(seed)  # noqa: S311 - seeded
    edges = list(trace.edges)
    for event in trace.events:
        later = [other for other in trace.events if other.t > event.t]
        if event.verb == "message" and later:
            readers = chance.sample(later, min(len(later), chance.randint(0, 2)))
            edges += [Edge(event.id, reader.id, "message") for reader in readers]
    return replace(trace, edges=tuple(edges))


def structural(trace: Trace) -> dict[str, Any]:
    """Every structural component; those of events by id."""
    facts = Facts(trace)
    found: dict[str, Any] = {}
    for one in STRUCTURAL:
        values = facts.share(one.read)
        if isinstance(values, dict):
            values = {trace.events[place].id: value for place, value in values.items()}
        found[one.name] = values
    return found


@given(seeds)
def test_every_number_is_in_its_declared_range(seed):
    """No reward of any run is dropped for being outside of what it says of itself."""
    trace = talking_run(seed)
    facts = Facts(trace)
    for one in STRUCTURAL:
        values = one.read(facts)
        if values is not None:
            numbers = values.values() if isinstance(values, dict) else [values]
            assert one.contract.admits_all(numbers), one.name
    assert score(trace).flags == ()


@given(seeds, st.randoms())
def test_order_of_events_and_edges_changes_no_reward(seed, rng):
    """Events and edges in any order give the same numbers, bit for bit."""
    trace = talking_run(seed)
    events, edges = list(trace.events), list(trace.edges)
    rng.shuffle(events)
    rng.shuffle(edges)
    assert structural(replace(trace, events=tuple(events), edges=tuple(edges))) == structural(trace)


@given(seeds)
def test_names_of_agents_change_no_reward(seed):
    """Rewards of a run look at who is who, and at no name."""
    trace = talking_run(seed)

    def renamed(event: Event) -> Event:
        keys = dict(event.keys)
        for key in ("instance", "to", "from"):
            if key in keys:
                keys[key] = f"x{keys[key]}"
        return replace(event, agent=f"x{event.agent}", keys=keys)

    other = replace(trace, events=tuple(map(renamed, trace.events)))
    assert structural(other) == structural(trace)


@settings(deadline=None)
@given(seeds)
def test_the_delay_of_a_message_is_the_span_without_its_edges(seed):
    """Spelled out: drop what was read of one message, and measure the span again."""
    trace = talking_run(seed)
    before, _ = measure(trace)
    delays = message_delays(trace)
    read = messages(Facts(trace))
    assert delays.keys() == {trace.events[place].id for place in read}
    for identity, delay in delays.items():
        kept = tuple(e for e in trace.edges if not (e.src == identity and e.type == "message"))
        after, _ = measure(replace(trace, edges=kept))
        assert round(delay * 1e9) == round(before["span"] * 1e9) - round(after["span"] * 1e9)
        assert delay >= 0


@given(seeds, st.data())
def test_an_instant_off_the_way_changes_no_reward(seed, data):
    """A decision without duration, tokens or effects is free."""
    trace = talking_run(seed)
    cause = data.draw(st.sampled_from(trace.events[:-1]))
    at = cause.t + cause.get("duration_s", 0)
    idle = Event("idle", at, "orchestrator_decision", "idle", {"verb": "decide"})
    more = replace(
        trace, events=(idle, *trace.events), edges=(*trace.edges, Edge(cause.id, "idle", "causal"))
    )
    assert structural(more) == structural(trace)


@given(seeds)
def test_parts_of_a_run_agree_with_each_other(seed):
    """Shares are means of what stands on events, and a detector needs what it detects."""
    found = structural(talking_run(seed))
    for share, parts in (("tools_used", "tool_used"), ("messages_used", "message_used")):
        values = list((found[parts] or {}).values())
        assert found[share] == (sum(values) / len(values) if values else None)
    if found["r_parallel"]:
        assert found["serial_collapse"] == 0
    if found["serial_collapse"] == -1:
        assert found["independence"] > 0


@given(seeds)
@settings(deadline=None)
def test_the_parts_of_an_explanation_make_up_its_number(seed):
    """What events are said to add to work and span is what these are, to the printed digits."""
    trace = talking_run(seed)
    metrics, _ = measure(trace)
    for name in ("work", "span"):
        explained = explain(trace, name)
        assert explained is not None
        parts = [float(part.counts.removesuffix(" s")) for part in explained.parts]
        assert math.isclose(math.fsum(parts), metrics[name], rel_tol=1e-3)
    delay = structural(trace)["message_delay"]
    if delay is not None:
        filled = explain(trace, "message_delay").filled.split(" s")
        assert math.isclose(float(filled[0]) - float(filled[1].removeprefix(" - ")), delay)


ODD = st.sampled_from([None, 7, 1.5, True, "x", (), ["x"], {"a": "b"}])
NAMES = "to from instance parent activation status tool content_ref verb late rewards valid turns"
KEYS = st.sampled_from(NAMES.split())


@given(seeds, st.data())
@settings(deadline=None)
def test_whatever_others_write_into_keys_no_family_fails(seed, data):
    """A key that holds something else than ours do is as good as none, and nothing is lost."""
    trace = talking_run(seed)
    place = data.draw(st.integers(0, len(trace.events) - 1))
    event = trace.events[place]
    odd = replace(event, keys={**event.keys, data.draw(KEYS): data.draw(ODD)})
    events = (*trace.events[:place], odd, *trace.events[place + 1 :])
    changed = replace(trace, events=events)
    structural(changed)
    scored = score(changed)
    failed = {f"reward_failed:{one.name}" for one in STRUCTURAL}
    assert failed.isdisjoint(scored.flags)
    if isinstance(odd.get("rewards", {}), dict):
        return
    assert scored.events[place]["rewards"] == odd["rewards"]
