"""Teams that go wrong: the host sees what it saw without us, and the trace says what happened."""

import asyncio

import pytest
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import HandoffMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core import CancellationToken, SingleThreadedAgentRuntime

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture


@pytest.fixture(autouse=True)
def _quiet(caplog) -> None:
    """AutoGen logs each error of its agents."""
    caplog.set_level("CRITICAL", logger="autogen_core")


async def _seen(team, **kwargs) -> list[tuple[str, str]]:
    """What a host sees of a run: each item, and the exception that ends it."""
    items = []
    try:
        async for item in team.run_stream(task="go", **kwargs):
            if isinstance(item, TaskResult):
                items.append(("result", str(item.stop_reason)))
            else:
                items.append((type(item).__name__, item.to_text()))
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is compared
        # Of a text only what does not tell where the source lies.
        items.append((type(error).__name__, str(error).partition("\n")[0]))
    return items


def _returns(trace) -> list[tuple[str, str, str | None]]:
    return [(e.agent, e["status"], e.get("error_type")) for e in trace.events if e.verb == "return"]


def _stop(trace) -> tuple[str, str | None, str]:
    return trace.stop["stop_reason"], trace.stop.get("stop_detail"), trace.stop["status"]


class Odd:
    """Ways to answer wrongly."""

    @staticmethod
    def nothing(plain):
        class Nothing(plain):
            async def on_messages(self, messages, cancellation_token):
                return None

        return Nothing("odd")

    @staticmethod
    def no_response(plain):
        class NoResponse(plain):
            async def on_messages_stream(self, messages, cancellation_token):
                yield TextMessage(content="not yet", source="odd")

        return NoResponse("odd")

    @staticmethod
    def text(plain):
        class Text(plain):
            async def on_messages_stream(self, messages, cancellation_token):
                yield "text"

        return Text("odd")

    @staticmethod
    def unknown_message(plain):
        class Foreign(TextMessage):
            type: str = "Foreign"

        class Unknown(plain):
            async def on_messages(self, messages, cancellation_token):
                return Response(chat_message=Foreign(content="x", source="odd"))

        return Unknown("odd")

    @staticmethod
    def raises(plain):
        def fail(_: int) -> str:
            msg = "secret 1"
            raise ZeroDivisionError(msg)

        return plain("odd", fail)


@pytest.mark.parametrize(
    ("way", "kinds"),
    [
        ("nothing", {"AttributeError"}),
        # Which of the two depends on AutoGen's release.
        ("no_response", {"RuntimeError", "ValueError"}),
        ("text", {"ValueError"}),
        ("unknown_message", {"ValueError"}),
        ("raises", {"ZeroDivisionError"}),
    ],
)
def test_participant_that_answers_wrongly(traced, plain, way, kinds) -> None:
    """Its turn ends with AutoGen's complaint, and so does the run."""
    items = asyncio.run(_seen(RoundRobinGroupChat([plain("a"), getattr(Odd, way)(plain)])))
    (first, (agent, status, kind)) = _returns(traced.trace)
    assert (first, agent, status) == (("a", "ok", None), "odd", "error")
    assert kind in kinds
    assert _stop(traced.trace) == ("error", kind, "error")
    assert "secret" not in traced.trace.to_json()
    assert items[-1][0] == "RuntimeError"


@pytest.mark.parametrize("way", ["nothing", "no_response", "text", "unknown_message", "raises"])
def test_host_sees_wrong_answers_as_without_us(plain, way) -> None:
    """Items and exceptions are equal."""

    def run() -> list[tuple[str, str]]:
        return asyncio.run(_seen(RoundRobinGroupChat([plain("a"), getattr(Odd, way)(plain)])))

    without = run()
    with capture(), orchtrace.instrument("autogen"):
        assert run() == without


def test_hand_off_to_nobody(traced, plain) -> None:
    """AutoGen refuses it; the delegation was made and led to no turn."""

    def team() -> Swarm:
        say = HandoffMessage(content="you", source="a", target="nobody")
        return Swarm([plain("a", lambda _: say), plain("b")])

    with_us = asyncio.run(_seen(team()))
    trace = traced.trace
    handle = [(e.agent, e.verb, e.get("to")) for e in trace.events if e.verb == "delegate"]
    assert handle == [("a", "delegate", "nobody")]
    assert _returns(trace) == [("a", "ok", None)]
    kind = with_us[-1][1].partition(":")[0]
    assert _stop(trace) == ("error", kind, "error")
    assert with_us[-1][0] == "RuntimeError"
    orchestrated = [e.get("chosen") for e in trace.events if e.verb == "decide"]
    assert orchestrated == ["a"]


def test_hand_off_to_nobody_is_seen_as_without_us(plain) -> None:
    """Items and exceptions are equal."""

    def run() -> list[tuple[str, str]]:
        say = HandoffMessage(content="you", source="a", target="nobody")
        return asyncio.run(_seen(Swarm([plain("a", lambda _: say), plain("b")])))

    without = run()
    with capture(), orchtrace.instrument("autogen"):
        assert run() == without


def _deaf(plain, reached: asyncio.Event):
    """An agent that never answers, and does not listen to its token."""

    async def wait() -> str:
        reached.set()
        await asyncio.Event().wait()
        return "never"

    return plain("deaf", lambda _: wait())


def test_participant_that_never_answers(plain) -> None:
    """Who gives up waiting on a runtime of the host's ends the run; the turn goes on, late."""

    async def give_up() -> None:
        reached = asyncio.Event()
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        team = RoundRobinGroupChat([plain("a"), _deaf(plain, reached)], runtime=runtime)
        running = asyncio.ensure_future(team.run(task="go"))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with capture() as captured, orchtrace.instrument("autogen"):
        asyncio.run(give_up())
    trace = captured.trace
    assert _stop(trace) == ("cancelled", "asyncio.exceptions.CancelledError", "cancelled")
    assert _returns(trace) == [("a", "ok", None)]
    assert [(e.verb, e["to"]) for e in trace.events if e.verb == "spawn"] == [("spawn", "a")]
    assert trace.flags == ("open_spans",)
    assert (captured.open, captured.ended_twice) == ({}, [])


def test_token_ends_a_turn_that_never_answers(traced, plain) -> None:
    """A cancelled token cancels AutoGen's handler, and with it the turn."""

    async def cancel() -> list[tuple[str, str]]:
        reached = asyncio.Event()
        token = CancellationToken()

        async def wait() -> str:
            reached.set()
            waiting = asyncio.get_running_loop().create_future()
            token.link_future(waiting)
            return await waiting

        team = RoundRobinGroupChat([plain("slow", lambda _: wait())])
        running = asyncio.ensure_future(_seen(team, cancellation_token=token))
        await reached.wait()
        token.cancel()
        return await running

    items = asyncio.run(cancel())
    assert items[-1][0] == "CancelledError"
    assert _returns(traced.trace) == [("slow", "cancelled", None)]
    assert _stop(traced.trace)[0] == "cancelled"


def test_runtime_that_is_stopped_in_the_middle(plain) -> None:
    """Messages are handled no more; whoever waits gives up; the trace holds what was done."""

    async def stopped() -> int:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        agents = [plain("a"), plain("b")]
        team = RoundRobinGroupChat(agents, runtime=runtime, max_turns=50)
        stream = team.run_stream(task="go")
        for _ in range(3):
            await anext(stream)
        await runtime.stop()
        spoke = [agent.spoke for agent in agents]
        more = asyncio.ensure_future(_drain(stream))
        for _ in range(20):
            await asyncio.sleep(0)
        assert [agent.spoke for agent in agents] == spoke
        more.cancel()
        with pytest.raises(asyncio.CancelledError):
            await more
        return sum(spoke)

    with capture() as captured, orchtrace.instrument("autogen"):
        spoke = asyncio.run(stopped())
    assert len(_returns(captured.trace)) == spoke
    assert _stop(captured.trace)[0] == "cancelled"
    assert (captured.open, captured.ended_twice) == ({}, [])


async def _drain(stream) -> None:
    async for _ in stream:
        pass


def test_team_that_runs_again_after_it_was_left(plain) -> None:
    """On a runtime of the host's: the run that was left and the next one are runs apart.

    AutoGen ends the next run at once, by the end of the one that was left, and goes on.
    """

    async def again() -> list[str]:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        team = RoundRobinGroupChat([plain("a"), plain("b")], runtime=runtime, max_turns=2)
        stream = team.run_stream(task="go")
        await anext(stream)
        await stream.aclose()
        await runtime.stop_when_idle()
        runtime.start()
        result = await team.run(task="again")
        await runtime.stop_when_idle()
        return [message.to_text() for message in result.messages]

    without = asyncio.run(again())
    with capture() as captured, orchtrace.instrument("autogen"):
        assert asyncio.run(again()) == without
    left, second = captured.traces
    assert _stop(left)[0] == "consumer_closed"
    assert _stop(second) == ("unknown", None, "ok")
    assert second.events[0]["links"] == [{"run": left.trace_id, "event": left.stop.id}]
    assert captured.open == {}


def test_team_that_is_left_is_followed_until_it_ends_or_goes(plain) -> None:
    """Nothing is kept of teams whose consumers left, however they go on."""
    import gc
    import weakref

    from orchtrace_otel.adapter import load

    async def leave(turns: int) -> weakref.ref:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        team = RoundRobinGroupChat([plain("a"), plain("b")], runtime=runtime, max_turns=turns)
        stream = team.run_stream(task="go")
        await anext(stream)
        await stream.aclose()
        if turns < 5:
            await runtime.stop_when_idle()
        else:
            await runtime.stop()
        return weakref.ref(team)

    with capture(), orchtrace.instrument("autogen"):
        hooks = load("autogen")._hooks
        gone = [asyncio.run(leave(turns)) for turns in (2, 5_000)]
        gc.collect()
        assert [ref() for ref in gone] == [None, None]
        assert hooks._teams == {}
