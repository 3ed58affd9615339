"""However a team is consumed, cancelled or broken: same tree, all spans end, host unharmed."""

import asyncio
import gc
import logging

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import CancellationToken
from autogen_core.models import UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace


def _words() -> ReplayChatCompletionClient:
    """A model whose stream is three words and the answer."""
    return ReplayChatCompletionClient(["one two three"])


def _team(plain, *acts, **kwargs) -> RoundRobinGroupChat:
    acts = acts or (None, None)
    agents = [plain(name, act) for name, act in zip("abcdef", acts, strict=False)]
    kwargs.setdefault("max_turns", 4)
    return RoundRobinGroupChat(agents, **kwargs)


def _stop(trace) -> tuple[str, str | None, str]:
    return trace.stop["stop_reason"], trace.stop.get("stop_detail"), trace.stop["status"]


def test_run_equals_run_stream(traced, script, read) -> None:
    """The same team run either way leaves the same trace."""

    def team() -> RoundRobinGroupChat:
        agents = [script.agent("a", "one", "two"), script.agent("b", "three", "four")]
        return RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(5))

    async def both() -> None:
        await team().run(task="go")
        async for _ in team().run_stream(task="go"):
            pass

    asyncio.run(both())
    first, second = traced.traces
    assert read.outline(first) == read.outline(second)
    assert _stop(first) == _stop(second) == ("max_steps", "MaxMessageTermination", "ok")


def test_steps_in_tasks_of_their_own_leave_the_same_trace(traced, plain, read) -> None:
    """Nothing is current between steps, so that each may be taken by another task."""

    async def by_hand() -> None:
        stream = _team(plain).run_stream(task="go")
        while True:
            try:
                await asyncio.create_task(anext(stream))
            except StopAsyncIteration:
                break
        await _team(plain).run(task="go")

    asyncio.run(by_hand())
    first, second = traced.traces
    assert read.outline(first) == read.outline(second)


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_consumer_that_leaves_early_ends_everything(traced, plain, taken) -> None:
    """A stream closed after a few items ends its run with `consumer_closed`, no error."""

    async def leave() -> None:
        stream = _team(plain).run_stream(task="go")
        for _ in range(taken):
            await anext(stream)
        await stream.aclose()

    asyncio.run(leave())
    if taken == 0:
        # A stream that was never begun is no run.
        assert traced.traces == []
        return
    assert _stop(traced.trace) == ("consumer_closed", "GeneratorExit", "cancelled")
    assert not [span for span in traced.spans if not span.status.is_ok]


def test_close_by_another_task_logs_nothing(traced, plain) -> None:
    """A stream that is closed elsewhere than it was read leaves no complaint behind."""

    async def elsewhere() -> None:
        stream = _team(plain).run_stream(task="go")
        await asyncio.create_task(anext(stream))
        await asyncio.create_task(stream.aclose())
        alone = plain("alone").run_stream(task="go")
        await asyncio.create_task(anext(alone))
        await asyncio.create_task(alone.aclose())

    asyncio.run(elsewhere())
    assert [_stop(trace)[0] for trace in traced.traces] == ["consumer_closed", "consumer_closed"]


def test_stream_that_is_dropped_ends(traced, plain) -> None:
    """A consumer that breaks off without closing leaves that to the event loop."""

    async def drop() -> None:
        async for _ in _team(plain).run_stream(task="go"):
            break
        gc.collect()
        closing = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.wait(closing)

    asyncio.run(drop())
    assert _stop(traced.trace)[0] == "consumer_closed"


def test_model_stream_that_a_decorated_function_breaks_off_ends_there(traced) -> None:
    """Its turn is cancelled before the function returns; the event loop closes it too late."""

    @orchtrace.agent("reader")
    async def reader(client) -> str:
        async for chunk in client.create_stream([UserMessage(content="go", source="user")]):
            return chunk
        return ""

    assert asyncio.run(reader(_words())) == "one "
    assert traced.trace.flags == ("tokens_unknown",)
    assert [turn.status for turn in traced.trace.turns] == ["cancelled"]
    returned = next(event for event in traced.trace.events if event.verb == "return")
    assert returned["turns"] == [turn.id for turn in traced.trace.turns]


def test_agent_whose_stream_a_decorated_function_breaks_off_is_in_its_run(traced, read) -> None:
    """So is the turn that it was in; the work was missing."""

    @orchtrace.agent("outer")
    async def outer(agent) -> None:
        async for item in agent.run_stream(task="go"):
            if isinstance(item, ModelClientStreamingChunkEvent):
                break

    async def drop() -> None:
        agent = AssistantAgent("inner", _words(), model_client_stream=True)
        await outer(agent)
        await asyncio.sleep(0)  # the loop closes the stream

    asyncio.run(drop())
    assert read.outline(traced.trace) == [
        "0 user begin orchestrator",
        "1 orchestrator spawn outer <- spawn 0",
        "2 outer spawn inner <- spawn 1",
        "3 inner return outer (cancelled)",
        "4 outer return orchestrator <- return 3",
        "5 orchestrator stop <- return 4",
    ]
    assert [(turn.agent, turn.status) for turn in traced.trace.turns] == [("inner", "cancelled")]


def test_model_stream_that_is_handed_on_is_open_until_it_is_read(traced) -> None:
    """A function that gives its stream to its caller has not broken it off."""

    @orchtrace.agent("asker")
    async def asker(client):
        stream = client.create_stream([UserMessage(content="go", source="user")])
        return await anext(stream), stream

    @orchtrace.agent("reader")
    async def reader(client) -> list[object]:
        first, stream = await asker(client)
        return [first] + [chunk async for chunk in stream]

    *chunks, result = asyncio.run(reader(_words()))
    assert "".join(chunks) == result.content == "one two three"
    assert [(turn.agent, turn.status) for turn in traced.trace.turns] == [("asker", "ok")]


@pytest.mark.parametrize("behind", ["a function", "an agent", "a team"])
def test_tool_that_works_on_after_its_agent_was_cancelled_ends_with_it(
    traced, script, plain, behind
) -> None:
    """AutoGen lets it go on in a task of its own; what is behind it was cut loose."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        """Work."""
        begun.set()
        await may_end.wait()
        return "done"

    async def cancel() -> None:
        inner = plain("inner", lambda _: work())
        tools = {
            "a function": lambda: FunctionTool(work, description="work", name="inner"),
            "an agent": lambda: AgentTool(inner),
            "a team": lambda: TeamTool(_team(plain, lambda _: work()), "inner", "work"),
        }
        call = script.calls(("1", "inner", '{"task": "go"}' if behind != "a function" else "{}"))
        agent = script.agent("outer", call, tools=[tools[behind]()])
        running = asyncio.create_task(agent.run(task="go"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(traced.traces) == 1
        may_end.set()
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(cancel())
    trace = traced.trace
    assert not set(trace.flags) & {"missing_causes", "orphans"}
    closed = [e for e in trace.events if e.verb in {"return", "tool_result"}]
    assert [e["status"] for e in closed] == ["cancelled"] * len(closed)
    assert len(closed) == {"a function": 2, "an agent": 3, "a team": 4}[behind]


def test_consumer_that_leaves_with_the_result_has_seen_the_end(traced, plain) -> None:
    """Breaking off at the result is the usual way to consume a stream, not walking away."""

    async def until_result() -> None:
        stream = _team(plain).run_stream(task="go")
        async for item in stream:
            if isinstance(item, TaskResult):
                break
        await stream.aclose()

    asyncio.run(until_result())
    assert _stop(traced.trace) == ("max_steps", "max_turns", "ok")


def test_cancellation_token_is_a_cancelled_run(traced, plain) -> None:
    """A token cancelled in the middle of a turn ends turn and run as cancelled, not as error."""
    token = CancellationToken()
    started = asyncio.Event()

    async def wait() -> str:
        started.set()
        waiting = asyncio.get_running_loop().create_future()
        token.link_future(waiting)
        await waiting
        return "never"

    async def cancel() -> None:
        run = asyncio.create_task(
            _team(plain, lambda _: wait()).run(task="go", cancellation_token=token)
        )
        await started.wait()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancel())
    trace = traced.trace
    assert _stop(trace) == ("cancelled", "asyncio.exceptions.CancelledError", "cancelled")
    assert [e["status"] for e in trace.events if e.verb == "return"] == ["cancelled"]


def test_cancelled_task_is_a_cancelled_run(traced, plain) -> None:
    """The task that runs the team is cancelled: so is the run."""
    started = asyncio.Event()
    go_on = asyncio.Event()

    async def wait() -> str:
        started.set()
        await go_on.wait()
        return "late"

    async def cancel() -> None:
        run = asyncio.create_task(_team(plain, lambda _: wait()).run(task="go"))
        await started.wait()
        run.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancel())
    assert _stop(traced.trace)[0] == "cancelled"


def test_participant_that_raises_ends_the_run_with_its_own_error(traced, plain, caplog) -> None:
    """The host gets AutoGen's RuntimeError; the trace says what was raised, and by whom."""
    caplog.set_level(logging.CRITICAL, logger="autogen_core")

    def fail(_: int) -> str:
        msg = "no such thing"
        raise KeyError(msg)

    with pytest.raises(RuntimeError, match="KeyError: 'no such thing'"):
        asyncio.run(_team(plain, None, fail).run(task="go"))
    trace = traced.trace
    assert _stop(trace) == ("error", "KeyError", "error")
    returns = [
        (e.agent, e["status"], e.get("error_type")) for e in trace.events if e.verb == "return"
    ]
    assert returns == [("a", "ok", None), ("b", "error", "KeyError")]
    events = {event.id: event for event in trace.events}
    causes = [events[edge.src] for edge in trace.edges if edge.dst == trace.stop.id]
    assert [(cause.agent, cause.verb) for cause in causes] == [("b", "return")]


def test_team_that_runs_refuses_to_run_again(traced, plain) -> None:
    """The second run is the host's error; the first one goes on and is traced whole."""

    async def twice() -> None:
        team = _team(plain)
        stream = team.run_stream(task="go")
        await anext(stream)
        with pytest.raises(ValueError, match="already running"):
            await team.run(task="again")
        async for _ in stream:
            pass

    asyncio.run(twice())
    refused, whole = traced.traces
    assert _stop(refused) == ("error", "ValueError", "error")
    assert _stop(whole) == ("max_steps", "max_turns", "ok")
    assert [e.verb for e in whole.events].count("return") == 4


def test_tool_that_fails_is_an_error_and_the_team_goes_on(traced, script) -> None:
    """A tool's exception, bad arguments and an unknown tool are failed calls, not failed runs."""

    async def broken(x: int) -> int:
        """Fail."""
        msg = "broken"
        raise OSError(msg)

    calls = script.calls(("1", "broken", '{"x": 1}'), ("2", "broken", "{"), ("3", "missing", "{}"))
    agent = script.agent("a", calls, tools=[broken])
    asyncio.run(RoundRobinGroupChat([agent], max_turns=1).run(task="go"))
    results = [(e["tool"], e["status"]) for e in traced.trace.events if e.verb == "tool_result"]
    assert sorted(results) == [("broken", "error"), ("broken", "error"), ("missing", "error")]
    assert traced.trace.stop["status"] == "ok"


def test_users_span_in_a_tool_is_below_the_tools_span(traced, script) -> None:
    """What a tool does is seen inside its call."""
    from opentelemetry import trace as otel

    async def look() -> str:
        """Look."""
        with otel.get_tracer("user").start_as_current_span("inside"):
            return "seen"

    agent = script.agent("a", script.calls(("1", "look", "{}")), tools=[look])
    asyncio.run(RoundRobinGroupChat([agent], max_turns=1).run(task="go"))
    spans = {span.name: span for span in traced.spans}
    assert spans["inside"].parent.span_id == spans["execute_tool look"].context.span_id


def test_surrounding_span_is_the_runs_parent(traced, plain) -> None:
    """A run joins the trace of whoever calls it."""
    from opentelemetry import trace as otel

    async def inside() -> None:
        with otel.get_tracer("user").start_as_current_span("outside"):
            await _team(plain).run(task="go")

    asyncio.run(inside())
    spans = {span.name: span for span in traced.spans}
    root = spans["invoke_workflow RoundRobinGroupChat"]
    assert root.parent.span_id == spans["outside"].context.span_id


def test_results_are_the_hosts_own(plain) -> None:
    """Streamed items and the result are equal in kind and content with and without us."""

    async def items() -> list[tuple[str, str]]:
        found = []
        async for item in _team(plain).run_stream(task="go"):
            if isinstance(item, TaskResult):
                found.append((type(item).__name__, str(item.stop_reason)))
            else:
                found.append((type(item).__name__, item.to_text()))
        return found

    without = asyncio.run(items())
    from orchtrace_otel.testing import capture

    with capture(), orchtrace.instrument("autogen"):
        assert asyncio.run(items()) == without


def test_team_inside_a_decorated_agent_is_part_of_its_run(traced, plain, read) -> None:
    """The team's orchestrator is spawned by the agent that runs it."""

    @orchtrace.team("outer")
    async def outer() -> str:
        await _team(plain, max_turns=1).run(task="go")
        return "done"

    asyncio.run(outer())
    assert read.outline(traced.trace) == [
        "0 user begin outer",
        "1 outer spawn RoundRobinGroupChat <- spawn 0",
        "2 RoundRobinGroupChat decide a <- causal 1",
        "3 RoundRobinGroupChat spawn a <- message 1, spawn 2",
        "4 a message broadcast <- causal 3",
        "5 a return RoundRobinGroupChat <- causal 4",
        "6 RoundRobinGroupChat return outer <- return 5",
        "7 outer stop <- return 6",
    ]


def test_agent_without_a_hash_is_traced(traced, plain) -> None:
    """Agents are told apart by identity: a host's class may compare as it likes."""

    class Equal(plain):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None

    first, second = Equal("first"), Equal("second")
    orchtrace.agent(first, name="renamed", role="lead")
    asyncio.run(RoundRobinGroupChat([first, second], max_turns=2).run(task="go"))
    asyncio.run(first.run(task="go"))
    team, alone = traced.traces
    assert [e["to"] for e in team.events[1:] if e.verb == "spawn"] == ["first", "second"]
    assert [e.get("role") for e in team.events if e.verb == "spawn"] == ["lead", None]
    assert (alone.events[1]["to"], alone.events[1]["role"]) == ("renamed", "lead")


def test_object_given_a_name_is_traced_under_it(traced, plain) -> None:
    """`agent(team)` names the team in its traces and gives the very object back."""
    team = _team(plain)
    assert orchtrace.agent(name="quartet", role="lead")(team) is team
    asyncio.run(team.run(task="go"))
    assert traced.trace.events[0]["to"] == "quartet"
    assert traced.trace.events[0]["role"] == "lead"
