"""People in a run: input that is waited for, hand-overs to a user, teams paused from outside."""

import asyncio
import time

import pytest
from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.conditions import HandoffTermination, TextMentionTermination
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core import CancellationToken

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture

CANARY = "canary-e3b9"


def _ask(answer: str):
    async def ask(prompt: str, cancellation_token) -> str:
        await asyncio.sleep(0.01)
        return answer

    return ask


def _humans(trace):
    return [event for event in trace.events if event.verb == "human_intervention"]


def test_input_is_an_event_of_the_time_it_took(traced, plain, read) -> None:
    """What the user proxy says follows from what it was told; what that was is not kept."""
    team = RoundRobinGroupChat([plain("a"), UserProxyAgent("user", input_func=_ask(CANARY))],
                               max_turns=2)  # fmt: skip
    asyncio.run(team.run(task="go"))
    trace = traced.trace
    assert read.outline(trace)[5:10] == [
        "5 RoundRobinGroupChat decide user <- causal 4",
        "6 RoundRobinGroupChat spawn user <- message 0, message 3, spawn 5",
        "7 user human_intervention <- causal 6",
        "8 user message broadcast <- causal 7",
        "9 user return RoundRobinGroupChat <- causal 8",
    ]
    (event,) = _humans(trace)
    assert event["name"] == "user_input"
    assert 0.01 <= event["duration_s"] < 5
    assert CANARY not in trace.to_json()
    assert not any(CANARY in str(dict(span.attributes)) for span in traced.spans)


def test_input_from_a_thread_is_the_same_event(traced) -> None:
    """A plain function is asked on a thread of the loop's pool."""

    def ask(prompt: str) -> str:
        time.sleep(0.002)
        return "yes"

    team = RoundRobinGroupChat([UserProxyAgent("user", input_func=ask)], max_turns=1)
    asyncio.run(team.run(task="go"))
    assert [(e.agent, e["status"]) for e in _humans(traced.trace)] == [("user", "ok")]


def test_user_who_hands_over_is_asked_first(traced, plain, read) -> None:
    """A user proxy that was handed to answers with a hand-off of its own."""
    first = plain("a", lambda _: HandoffMessage(content="you", target="user", source="a"))
    user = UserProxyAgent("user", input_func=_ask("back"))
    team = Swarm([first, user], max_turns=2)
    asyncio.run(team.run(task="go"))
    verbs = [(e.agent, e.verb) for e in traced.trace.events if e.agent in {"a", "user"}][1:]
    assert verbs == [
        ("a", "delegate"),
        ("a", "return"),
        ("a", "begin"),
        ("user", "human_intervention"),
        ("user", "delegate"),
        ("user", "return"),
    ]


def test_input_that_fails_is_the_agents_error(traced, plain, caplog) -> None:
    """The host sees AutoGen's error; the trace says what the input function raised."""
    caplog.set_level("CRITICAL", logger="autogen_core")

    async def broken(prompt: str, cancellation_token) -> str:
        raise EOFError(CANARY)

    team = RoundRobinGroupChat([UserProxyAgent("user", input_func=broken)], max_turns=1)
    with pytest.raises(RuntimeError, match=CANARY):
        asyncio.run(team.run(task="go"))
    assert _humans(traced.trace)[0]["status"] == "error"
    assert traced.trace.stop["status"] == "error"
    assert CANARY not in traced.trace.to_json()


def test_input_that_is_cancelled_is_no_error(traced) -> None:
    """A token that is cancelled while a human thinks ends wait, turn and run as cancelled."""
    asked = asyncio.Event()

    async def never(prompt: str, cancellation_token) -> str:
        asked.set()
        waiting = asyncio.get_running_loop().create_future()
        cancellation_token.link_future(waiting)
        return await waiting

    async def cancel() -> None:
        token = CancellationToken()
        team = RoundRobinGroupChat([UserProxyAgent("user", input_func=never)], max_turns=1)
        running = asyncio.create_task(team.run(task="go", cancellation_token=token))
        await asked.wait()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    trace = traced.trace
    assert [e["status"] for e in trace.events if e.verb in {"human_intervention", "return"}] == [
        "cancelled",
        "cancelled",
    ]
    assert (trace.stop["stop_reason"], trace.stop["status"]) == ("cancelled", "cancelled")


def test_run_after_a_hand_over_to_a_user_is_linked_to_it(traced, script) -> None:
    """The team stops for a user, and goes on with the answer in a run of its own."""

    async def both() -> None:
        hands = script.calls(("1", "transfer_to_user", "{}"))
        agent = script.agent("a", hands, "done", handoffs=["user"])
        until = HandoffTermination("user") | TextMentionTermination("done")
        team = Swarm([agent], termination_condition=until)
        await team.run(task="go")
        answer = HandoffMessage(content="yes", source="user", target="a")
        await team.run(task=answer)

    asyncio.run(both())
    first, second = traced.traces
    assert (first.stop["stop_reason"], first.stop["status"]) == ("handoff", "ok")
    assert "links" not in first.events[0].keys
    assert second.events[0]["links"] == [{"run": first.trace_id, "event": first.stop.id}]
    root = next(s for s in traced.spans if s.context.trace_id == int(second.trace_id[:32], 16)
                and s.parent is None)  # fmt: skip
    assert [(f"{k.context.trace_id:032x}", f"{k.context.span_id:016x}") for k in root.links] == [
        (first.trace_id[:32], first.stop.id)
    ]


def test_pause_and_resume_are_interventions(traced, plain) -> None:
    """Both are the orchestrator's events, the later from the earlier; neither ends anything."""

    async def paused() -> None:
        inside = asyncio.Event()
        go_on = asyncio.Event()

        async def wait() -> str:
            inside.set()
            await go_on.wait()
            return "on"

        team = RoundRobinGroupChat([plain("a", lambda _: wait()), plain("b")], max_turns=2)
        running = asyncio.create_task(team.run(task="go"))
        await inside.wait()
        await team.pause()
        await team.resume()
        go_on.set()
        await running

    asyncio.run(paused())
    trace = traced.trace
    pause, resume = _humans(trace)
    assert [(e.agent, e["name"], e["status"]) for e in (pause, resume)] == [
        ("RoundRobinGroupChat", "pause", "ok"),
        ("RoundRobinGroupChat", "resume", "ok"),
    ]
    assert [(e.src, e.type) for e in trace.edges if e.dst == resume.id] == [(pause.id, "causal")]
    assert [e for e in trace.edges if e.dst == pause.id] == []
    assert trace.stop["stop_detail"] == "max_turns"


def test_pause_fails_where_it_did(plain) -> None:
    """A team that has not run cannot be paused, with us or without."""
    team = RoundRobinGroupChat([plain("a")], max_turns=1)
    with capture() as captured, orchtrace.instrument("autogen"):
        for method in (team.pause, team.resume):
            with pytest.raises(RuntimeError, match="has not been initialized"):
                asyncio.run(method())
    assert captured.started == 0
