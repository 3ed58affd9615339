"""Teams that go on where an earlier run left them, here and in another process."""

import asyncio
import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
from autogen_agentchat.state import TeamState
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture

ROOT = Path(__file__).parents[3]


def _team(plain, **kwargs) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([plain("a"), plain("b")], max_turns=2, **kwargs)


def _as_json(state) -> str:
    """As a host writes it; before 0.7 states held times."""
    return json.dumps(state, default=str)


def _links(trace):
    return trace.events[0].get("links")


def _to_stop(trace):
    return [{"run": trace.trace_id, "event": trace.stop.id}]


def test_next_run_of_a_team_is_linked_until_it_is_reset(traced, plain) -> None:
    """A team keeps its conversation from run to run; `reset` ends it."""

    async def thrice() -> None:
        team = _team(plain)
        await team.run(task="go")
        await team.run()
        await team.reset()
        await team.run(task="again")

    asyncio.run(thrice())
    first, second, third = traced.traces
    assert [_links(trace) for trace in traced.traces] == [None, _to_stop(first), None]
    assert len({first.trace_id, second.trace_id, third.trace_id}) == 3


def test_state_that_is_loaded_links_to_the_run_it_was_saved_after(traced, plain) -> None:
    """Another team, here, with the state as JSON: the state is as AutoGen made it."""

    async def save_and_load() -> None:
        team = _team(plain)
        await team.run(task="go")
        state = await team.save_state()
        assert set(state) == {"type", "version", "agent_states"}
        other = _team(plain)
        await other.load_state(json.loads(_as_json(state)))
        await other.run()
        # Loading again, after the run, goes back to the first one.
        await other.load_state(state=state)
        await other.run()

    asyncio.run(save_and_load())
    first, second, third = traced.traces
    assert _links(second) == _links(third) == _to_stop(first)


def test_state_of_elsewhere_links_to_nothing(traced, plain) -> None:
    """A state that was saved untraced, after another run or none, is no one's."""

    async def load() -> None:
        team = _team(plain)
        await team.run(task="go")
        state = await _team(plain).save_state()
        await team.load_state(state)
        await team.run(task="go")

    asyncio.run(load())
    assert [_links(trace) for trace in traced.traces] == [None, None]


def test_state_is_equal_with_and_without_us(traced, plain) -> None:
    """What `save_state` gives is the same, and what it is given stays as it was."""

    async def states() -> None:
        team = _team(plain)
        await team.run(task="go")
        traced_state = await team.save_state()
        again = await team.save_state()
        assert traced_state == again
        given = copy.deepcopy(traced_state)
        await team.load_state(given)
        assert given == traced_state
        assert TeamState.model_validate(traced_state).model_dump() == traced_state

    asyncio.run(states())
    assert len(traced.traces) == 1


def test_bad_state_fails_where_it_did(traced, plain) -> None:
    """The host's error is AutoGen's, and the team is linked as before."""

    async def load() -> None:
        team = _team(plain)
        await team.run(task="go")
        for state in ({}, {"agent_states": {}}, {"agent_states": {"a": 1}, "orchtrace": 7}):
            with pytest.raises(ValueError, match="state"):
                await team.load_state(state)
        await team.run()

    asyncio.run(load())
    first, second = traced.traces
    assert _links(second) == _to_stop(first)


def test_team_inside_a_run_is_linked_across_runs_only(traced, plain) -> None:
    """Called twice in one run a team is delegated to; the next run links to its close."""
    team = _team(plain)

    @orchtrace.team("outer")
    async def outer(times: int) -> None:
        for _ in range(times):
            await team.run(task="go")

    async def both() -> None:
        await outer(2)
        await outer(1)

    asyncio.run(both())
    first, second = traced.traces
    inner = [e for t in traced.traces for e in t.events
             if e.id.endswith(".open") and e.get("to") == "RoundRobinGroupChat"]  # fmt: skip
    closed = [e.id for e in first.events if e.verb == "return"
              and e.agent == "RoundRobinGroupChat"]  # fmt: skip
    assert [(e.verb, e.get("links")) for e in inner] == [
        ("spawn", None),
        ("delegate", None),
        ("spawn", [{"run": first.trace_id, "event": closed[-1]}]),
    ]
    assert second.trace_id != first.trace_id


def test_next_call_in_a_run_reads_what_was_said_in_the_one_before(traced, plain, read) -> None:
    """Of the same team or of another that is handed it: messages keep their events in a run."""
    first, second = _team(plain), RoundRobinGroupChat([plain("c")], max_turns=1)

    @orchtrace.team("outer")
    async def outer() -> None:
        await first.run(task="go")
        result = await first.run()
        await second.run(task=[result.messages[-1]])

    asyncio.run(outer())
    trace = traced.trace
    events = {event.id: event for event in trace.events}
    whom: dict[str, list[str]] = {e.id: [] for e in trace.events if e.id.endswith(".open")}
    for edge in trace.edges:
        if edge.type == "message":
            whom[edge.dst].append(events[edge.src].agent)
    heard = [(str(events[one]["to"]), sorted(agents)) for one, agents in whom.items()]
    assert [one for one in heard if one[0] in {"a", "b", "c"}] == [
        ("a", ["outer"]),
        ("b", ["a", "outer"]),
        ("a", ["b"]),
        ("b", ["a"]),
        ("c", ["b"]),
    ]


def test_flow_that_is_set_back_follows_from_what_is_said_after_it(traced, plain, read) -> None:
    """In one run, as where a step is tried again: what the state undoes is no cause."""

    async def again() -> None:
        agents = [plain(name) for name in "abc"]
        graph = DiGraphBuilder()
        for agent in agents:
            graph.add_node(agent)
        graph.add_edge(agents[0], agents[1]).add_edge(agents[1], agents[2])
        flow = GraphFlow(agents, graph.build(), max_turns=1)
        await flow.run(task="go")
        state = await flow.save_state()
        await flow.run()
        await flow.load_state(state)
        await flow.run()
        await flow.run()

    asyncio.run(orchtrace.team("outer")(again)())
    trace = traced.trace
    closes = [e.id for e in trace.events if e.verb == "return" and e.agent == "b"]
    merged = [e.id for e in trace.events if e.verb == "aggregate"][-1]
    calls = [e.id for e in trace.events if e.id.endswith(".open") and e.get("to") == "GraphFlow"]
    assert len(closes) == 2
    assert {e.src for e in trace.edges if e.dst == merged} == {closes[-1], calls[-1]}


def test_state_carries_its_link_where_the_host_asks_for_it(plain, monkeypatch) -> None:
    """With the key, every process that loads the state knows; without us it loads as well."""
    monkeypatch.setenv("ORCHTRACE_AUTOGEN_STATE", "linked")

    async def save():
        team = _team(plain)
        await team.run(task="go")
        return await team.save_state()

    with capture() as captured, orchtrace.instrument("autogen"):
        state = asyncio.run(save())
    trace = captured.trace
    assert state["orchtrace"] == f"{trace.trace_id}:{trace.stop.id}"
    assert TeamState.model_validate(state)
    asyncio.run(_team(plain).load_state(state))
    found = _in_another_process(state)
    assert found == _to_stop(trace)
    forged = {**state, "orchtrace": "a text of the host's"}
    assert _in_another_process(forged) is None


def _in_another_process(state) -> object:
    """Load a state and run its team in a process of its own; return the run's links."""
    code = """
import asyncio, json, sys
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat
import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture
from tests.adapters.autogen.conftest import Plain

async def main():
    team = RoundRobinGroupChat([Plain("a"), Plain("b")], max_turns=2)
    await team.load_state(json.load(sys.stdin))
    await team.run()

with capture() as captured, orchtrace.instrument("autogen"):
    asyncio.run(main())
print(json.dumps(captured.trace.events[0].get("links")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=_as_json(state),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'adapters'}:{ROOT / 'exporters'}"},
    )
    return json.loads(done.stdout)


def test_teams_are_not_kept_for_their_links(plain) -> None:
    """What is remembered of a team goes with it."""
    import gc
    import weakref

    with capture(), orchtrace.instrument("autogen"):
        team = _team(plain)
        asyncio.run(team.run(task="go"))
        asyncio.run(team.save_state())
        gone = weakref.ref(team)
        del team
        gc.collect()
        assert gone() is None
