"""LLM turns: each call once, whatever its client's class, with what the client knows."""

import asyncio
import gc
import weakref

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import ChatCompletionClient, CreateResult
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture


def _chats(captured):
    return [span for span in captured.spans if span.name.startswith("chat")]


def test_call_through_a_base_class_is_one_turn(traced, script) -> None:
    """A client that overrides `create` and calls its base is counted once."""

    class Polite(ReplayChatCompletionClient):
        async def create(self, *args, **kwargs):
            return await super().create(*args, **kwargs)

    client = Polite([script.says("one")], model_info=script.client().model_info)
    agent = script.agent("a")
    agent._model_client = client
    asyncio.run(agent.run(task="go"))
    assert len(_chats(traced)) == 1
    assert traced.trace.costs["tokens"] == 10


@pytest.mark.parametrize(
    ("usage", "known"),
    [((7, 3), (7, 3)), ((7, 0), (7, 0)), ((0, 0), (None, None)), ((0, 4), (None, 4))],
)
@pytest.mark.parametrize("stream", [False, True])
def test_usage_that_is_unknown_is_absent(traced, script, usage, known, stream) -> None:
    """A client that was not told writes zeros, which are no counts."""
    agent = script.agent("a", script.says("one", *usage), model_client_stream=stream)
    asyncio.run(agent.run(task="go"))
    (turn,) = traced.trace.turns
    assert (turn.input_tokens, turn.output_tokens) == known
    assert turn.finish_reason == "stop"


def test_model_provider_and_cache_are_recorded(traced, script) -> None:
    """What a client's class keeps as the known ones do is read off it."""

    class BaseOpenAIChatCompletionClient(ReplayChatCompletionClient):
        pass

    client = BaseOpenAIChatCompletionClient(["one"], model_info=script.client().model_info)
    client._create_args = {"model": "gpt-small"}
    agent = script.agent("a")
    agent._model_client = client
    asyncio.run(agent.run(task="go"))
    (chat,) = _chats(traced)
    assert chat.name == "chat gpt-small"
    assert chat.attributes["gen_ai.provider.name"] == "openai"
    assert chat.attributes["orchtrace.turn.cached"] is True


def test_client_that_fails_is_a_failed_turn(traced, script) -> None:
    """The turn ends with the error, and so does the run."""
    agent = script.agent("a")
    with pytest.raises(ValueError, match="No more mock responses"):
        asyncio.run(agent.run(task="go"))
    (turn,) = traced.trace.turns
    assert (turn.status, turn.input_tokens) == ("error", None)
    assert traced.trace.stop["stop_reason"] == "error"


def test_call_outside_a_run_is_no_span(traced, script) -> None:
    """A client that the host calls itself has no run to belong to."""
    from autogen_core.models import UserMessage

    client = script.client("one")
    asyncio.run(client.create([UserMessage(content="hi", source="user")]))
    assert traced.started == 0


def test_uninstrument_restores_the_very_originals() -> None:
    """Classes that were there and classes that came get their own functions back."""
    before = {name: vars(ReplayChatCompletionClient)[name] for name in ("create", "create_stream")}
    hook = vars(ChatCompletionClient).get("__init_subclass__")
    with orchtrace.instrument("autogen"):

        class Late(ReplayChatCompletionClient):
            async def create(self, *args, **kwargs):
                return None

        assert vars(ReplayChatCompletionClient)["create"] is not before["create"]
        assert type(vars(Late)["create"]).__name__ == "FunctionWrapper"
    now = {name: vars(ReplayChatCompletionClient)[name] for name in ("create", "create_stream")}
    assert now == before
    assert vars(ChatCompletionClient).get("__init_subclass__") is hook
    assert type(vars(Late)["create"]).__name__ == "function"


def test_uninstrument_restores_everything_else() -> None:
    """Every name of AutoGen's that is wrapped is the very object again afterwards."""
    import autogen_agentchat.agents._base_chat_agent as chat_agent
    import autogen_core._single_threaded_agent_runtime as runtime
    from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
    from autogen_agentchat.teams import BaseGroupChat
    from autogen_core import RoutedAgent, SingleThreadedAgentRuntime
    from autogen_core.tools import BaseTool

    owners = [chat_agent, runtime, AssistantAgent, BaseChatAgent, BaseGroupChat, RoutedAgent,
              SingleThreadedAgentRuntime, BaseTool]  # fmt: skip
    before = [dict(vars(owner)) for owner in owners]
    with orchtrace.instrument("autogen"), orchtrace.instrument("autogen"):
        assert [dict(vars(owner)) for owner in owners] != before
    now = [dict(vars(owner)) for owner in owners]
    for old, new in zip(before, now, strict=True):
        assert {k for k in old if not k.startswith("_abc")} == {
            k for k in new if not k.startswith("_abc")
        }
        assert [k for k, v in old.items() if not k.startswith("_abc") and new[k] is not v] == []


def test_classes_made_on_the_fly_are_let_go() -> None:
    """A host that makes client classes does not keep them alive through us."""
    with orchtrace.instrument("autogen"):

        class Passing(ReplayChatCompletionClient):
            async def create(self, *args, **kwargs):
                return None

        gone = weakref.ref(Passing)
        del Passing
        gc.collect()
        assert gone() is None


async def _leave_early(team: RoundRobinGroupChat) -> None:
    stream = team.run_stream(task="go")
    await anext(stream)
    await stream.aclose()


def test_agents_and_teams_are_let_go(script) -> None:
    """Nothing of a team is kept once it is over, also where its consumer left."""
    with capture(), orchtrace.instrument("autogen"):
        agents = [script.agent("a", "one"), script.agent("b", "one")]
        teams = [RoundRobinGroupChat([agent], max_turns=1) for agent in agents]
        asyncio.run(teams[0].run(task="go"))
        asyncio.run(_leave_early(teams[1]))
        gone = [weakref.ref(known) for known in (*agents, *teams)]
        agents.clear()
        teams.clear()
        gc.collect()
        assert [ref() for ref in gone] == [None] * 4


CANARY = "canary-7f3e"


def test_content_leaves_through_no_field(traced, script) -> None:
    """Texts, arguments, results, descriptions and errors are in no span and no trace."""

    async def look(what: str) -> str:
        return f"result {CANARY}"

    async def fail() -> str:
        raise RuntimeError(CANARY)

    calls = script.calls(("1", "look", f'{{"what": "{CANARY}"}}'), ("2", "fail", "{}"))
    tools = [FunctionTool(tool, description=CANARY) for tool in (look, fail)]
    first = script.agent("a", calls, tools=tools, description=CANARY, system_message=CANARY)
    second = script.agent("b", _thoughtful(script))
    team = RoundRobinGroupChat([first, second], max_turns=3)
    with pytest.raises(RuntimeError):
        asyncio.run(team.run(task=f"task {CANARY}"))
    assert len(traced.trace.events) > 10
    assert CANARY not in traced.trace.to_json()
    assert CANARY not in "".join(span.to_json() for span in traced.spans)


def _thoughtful(script) -> CreateResult:
    result = script.says(f"answer {CANARY}")
    return result.model_copy(update={"thought": CANARY})
