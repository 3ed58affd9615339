"""Why a team stopped: each condition, alone and combined, and every other end."""

import asyncio
import itertools

import pytest
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response, TerminatedException, TerminationCondition
from autogen_agentchat.conditions import (
    ExternalTermination,
    FunctionalTermination,
    FunctionCallTermination,
    HandoffTermination,
    MaxMessageTermination,
    SourceMatchTermination,
    StopMessageTermination,
    TextMentionTermination,
    TextMessageTermination,
    TimeoutTermination,
    TokenUsageTermination,
)
from autogen_agentchat.messages import (
    HandoffMessage,
    StopMessage,
    TextMessage,
    ToolCallExecutionEvent,
)
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_core import SingleThreadedAgentRuntime
from autogen_core.models import FunctionExecutionResult, RequestUsage

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture


class Bored(TerminationCondition):
    """A condition of the host's own, which signs with whatever it likes."""

    def __init__(self) -> None:
        self._done = False

    @property
    def terminated(self) -> bool:
        return self._done

    async def __call__(self, messages):
        if self._done:
            raise TerminatedException
        if len(messages) == 1 and messages[0].source == "user":
            return None
        self._done = True
        return StopMessage(content="secret words", source="a, b and c")

    async def reset(self) -> None:
        self._done = False


class Everything(BaseChatAgent):
    """An agent whose one answer has in it what every built-in condition looks for."""

    def __init__(self) -> None:
        super().__init__("a", "all at once")

    @property
    def produced_message_types(self):
        return (TextMessage, HandoffMessage, StopMessage)

    async def on_messages(self, messages, cancellation_token) -> Response:
        result = FunctionExecutionResult(content="", name="finish", call_id="1")
        inner = [
            ToolCallExecutionEvent(content=[result], source="a"),
            HandoffMessage(content="", source="a", target="user"),
            StopMessage(content="", source="a"),
        ]
        usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
        said = TextMessage(content="one", source="a", models_usage=usage)
        return Response(chat_message=said, inner_messages=inner)

    async def on_reset(self, cancellation_token) -> None:
        """Nothing is kept."""


async def _run_alone(agent, condition) -> None:
    await RoundRobinGroupChat([agent], termination_condition=condition).run(task="go")


def _external() -> ExternalTermination:
    condition = ExternalTermination()
    condition.set()
    return condition


def _says_so(messages) -> bool:
    return messages[-1].source == "a"


CONDITIONS = {
    "MaxMessageTermination": (lambda: MaxMessageTermination(2), "max_steps"),
    "TextMentionTermination": (lambda: TextMentionTermination("one"), "information_complete"),
    "TokenUsageTermination": (lambda: TokenUsageTermination(max_total_token=1), "token_budget"),
    "TimeoutTermination": (lambda: TimeoutTermination(0), "time_budget"),
    "ExternalTermination": (_external, "external"),
    "SourceMatchTermination": (lambda: SourceMatchTermination(["a"]), "information_complete"),
    "TextMessageTermination": (lambda: TextMessageTermination("a"), "information_complete"),
    "FunctionalTermination": (lambda: FunctionalTermination(_says_so), "information_complete"),
    "StopMessageTermination": (StopMessageTermination, "information_complete"),
    "FunctionCallTermination": (
        lambda: FunctionCallTermination("finish"),
        "information_complete",
    ),
    "HandoffTermination": (lambda: HandoffTermination("user"), "handoff"),
}
EARLY = ("TimeoutTermination", "ExternalTermination")
"""Those that fire before anybody has spoken."""


def _reason(names) -> str:
    return CONDITIONS[names[0]][1]


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_is_named_and_typed(traced, name) -> None:
    """Each built-in condition stops the run under its own reason and class."""
    asyncio.run(_run_alone(Everything(), CONDITIONS[name][0]()))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"], stop["status"]) == (
        _reason([name]),
        name,
        "ok",
    )


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(CONDITIONS, 2)))
def test_combined_conditions_name_those_that_fired(traced, one, other) -> None:
    """Or names those that fired first, And all in their order; the first gives the reason."""
    first, second = CONDITIONS[one][0], CONDITIONS[other][0]

    async def both() -> None:
        await _run_alone(Everything(), first() | second())
        await _run_alone(Everything(), first() & second())
        await _run_alone(Everything(), (first() & TextMentionTermination("never")) | second())

    asyncio.run(both())
    early = [name for name in (one, other) if name in EARLY]
    late = [name for name in (one, other) if name not in EARLY]
    expected = [early or late, early + late, [other]]
    assert [(t.stop["stop_reason"], t.stop["stop_detail"]) for t in traced.traces] == [
        (_reason(names), ", ".join(names)) for names in expected
    ]


def test_condition_of_the_hosts_own_is_named_by_its_class(traced, script) -> None:
    """What it signs with may be content; its class is not."""

    team = RoundRobinGroupChat([script.agent("a", "one")], termination_condition=Bored())
    asyncio.run(team.run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("information_complete", "Bored")
    assert "secret" not in traced.trace.to_json()
    assert "a, b and c" not in traced.trace.to_json()


def test_condition_of_the_hosts_own_is_named_among_others(traced, script) -> None:
    """Combined with built-in ones, the host's condition is the one that none of them is."""
    either = Bored() | MaxMessageTermination(9)
    asyncio.run(_run_alone(script.agent("a", "one"), either))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("information_complete", "Bored")


def test_condition_derived_from_a_built_in_one_keeps_its_reason(traced, script) -> None:
    """A subclass is named by its own class and typed by its base."""

    class Patience(MaxMessageTermination):
        pass

    asyncio.run(_run_alone(script.agent("a", "one"), Patience(2)))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("max_steps", "Patience")


def test_turn_limit(traced, plain) -> None:
    """A team's own limit on turns is a limit on steps."""
    asyncio.run(RoundRobinGroupChat([plain("a")], max_turns=2).run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("max_steps", "max_turns")


def test_external_condition_ends_a_team_that_runs(traced, plain) -> None:
    """Set from outside in the middle, it stops the team after the turn."""
    condition = ExternalTermination()
    acts = [None, lambda _: condition.set() or "done"]
    agents = [plain(name, act) for name, act in zip("ab", acts, strict=True)]
    asyncio.run(RoundRobinGroupChat(agents, termination_condition=condition).run(task="go"))
    trace = traced.trace
    assert (trace.stop["stop_reason"], trace.stop["stop_detail"]) == (
        "external",
        "ExternalTermination",
    )
    assert [e.agent for e in trace.events if e.verb == "message"] == ["a", "b"]


def test_end_of_a_flow_is_a_task_done(traced, plain) -> None:
    """A flow without anything left to run has done what it was drawn for."""
    agents = [plain("a"), plain("b")]
    graph = DiGraphBuilder().add_node(agents[0]).add_node(agents[1]).add_edge(*agents).build()
    asyncio.run(GraphFlow(agents, graph=graph).run(task="go"))
    assert traced.trace.stop["stop_reason"] == "information_complete"
    assert traced.trace.stop["stop_detail"] == "Digraph execution is complete"


def _choosing(team: RoundRobinGroupChat, speakers: list[str]) -> RoundRobinGroupChat:
    """Make a team's manager choose some speakers, whoever spoke last."""
    make_factory = team._create_group_chat_manager_factory

    def factory_of(*args, **kwargs):
        make = make_factory(*args, **kwargs)

        def factory():
            manager = make()

            async def select_speaker(thread) -> list[str]:
                return speakers

            manager.select_speaker = select_speaker
            return manager

        return factory

    team._create_group_chat_manager_factory = factory_of
    return team


def test_team_that_nobody_ends_is_a_deadlock(traced, plain) -> None:
    """A manager that asks nobody leaves its runtime idle; AutoGen then stops without a reason."""
    team = _choosing(RoundRobinGroupChat([plain("a")]), [])
    result = asyncio.run(team.run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"], stop["status"]) == ("deadlock", "idle", "ok")
    assert [message.to_text() for message in result.messages] == ["go"]


def test_runtime_that_is_stopped_is_why_its_team_was_given_up(plain) -> None:
    """AutoGen lets a team wait for ever then; whoever gives up was not the reason."""

    async def leave() -> None:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        asked = asyncio.Event()

        async def wait() -> str:
            asked.set()
            return "done"

        team = RoundRobinGroupChat([plain("a", lambda _: wait())], runtime=runtime)
        running = asyncio.ensure_future(team.run(task="go"))
        await asked.wait()
        await runtime.stop()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with capture() as captured, orchtrace.instrument("autogen"):
        asyncio.run(leave())
    stop = captured.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"], stop["status"]) == (
        "external",
        "runtime stopped",
        "cancelled",
    )
    assert captured.open == {}


class Wrong(Everything):
    """An agent whose answer is none."""

    async def on_messages(self, messages, cancellation_token) -> Response:
        return None


def _nobody(plain):
    return Swarm(
        [plain("a", lambda _: HandoffMessage(content="", source="a", target="nobody"))],
        max_turns=3,
    )


def _selector(plain, script):
    def broken(thread):
        msg = "no choice"
        raise LookupError(msg)

    return SelectorGroupChat(
        [plain("a"), plain("b")], model_client=script.client(), selector_func=broken
    )


@pytest.mark.parametrize(
    ("make", "error", "speakers"),
    [
        (lambda plain, _: RoundRobinGroupChat([Wrong()]), "AttributeError", ["a"]),
        (lambda plain, _: _nobody(plain), "AssertionError", ["a"]),
        (_selector, "LookupError", []),
        (
            lambda plain, _: _choosing(RoundRobinGroupChat([plain("a")]), ["nobody"]),
            "RuntimeError",
            [],
        ),
    ],
)
def test_team_that_breaks_ends_with_its_error(  # noqa: PLR0913 - fixtures and the case
    traced, plain, script, caplog, make, error, speakers
) -> None:
    """Participants that answer nothing, hand over to nobody, managers that fail: an error each."""
    caplog.set_level("CRITICAL", logger="autogen_core")
    with pytest.raises((RuntimeError, LookupError)):
        asyncio.run(make(plain, script).run(task="go"))
    trace = traced.trace
    assert (trace.stop["stop_reason"], trace.stop["status"]) == ("error", "error")
    assert trace.stop["stop_detail"] == error
    assert [e["to"] for e in trace.events[1:] if e.id.endswith(".open")] == speakers
