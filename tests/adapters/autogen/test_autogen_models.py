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


class Streamed(ChatCompletionClient):
    """A client of the host's own, below the base class alone: it says what it is given."""

    component_type = "model"

    def __init__(self, result, chunks=("one", "two"), info=None) -> None:
        self.result = result
        self.chunks = chunks
        self.asked = 0
        self.info = info

    async def create(self, messages, **kwargs):
        self.asked += 1
        return self.result

    async def create_stream(self, messages, **kwargs):
        self.asked += 1
        for chunk in self.chunks:
            yield chunk
        yield self.result

    async def close(self) -> None:
        """There is nothing to close."""

    def actual_usage(self):
        return self.result.usage

    def total_usage(self):
        return self.result.usage

    def count_tokens(self, messages, **kwargs) -> int:
        return 0

    def remaining_tokens(self, messages, **kwargs) -> int:
        return 1

    @property
    def capabilities(self):
        return self.info

    @property
    def model_info(self):
        return self.info


def _agent(client, **kwargs):
    from autogen_agentchat.agents import AssistantAgent

    return AssistantAgent("a", model_client=client, **kwargs)


@pytest.mark.parametrize("stream", [False, True])
def test_client_below_the_base_class_alone_is_one_turn(script, stream) -> None:
    """It was made before the hooks went in, and is used after they came out."""
    client = Streamed(script.says("three"), info=script.client().model_info)
    agent = _agent(client, model_client_stream=stream)
    with capture() as captured, orchtrace.instrument("autogen"):
        result = asyncio.run(agent.run(task="go"))
    asyncio.run(agent.run(task="go"))
    assert client.asked == 2
    assert result.messages[-1].to_text() == "three"
    (turn,) = captured.trace.turns
    assert (turn.input_tokens, turn.output_tokens, turn.status) == (7, 3, "ok")
    assert captured.trace.costs["tokens"] == 10


def test_stream_that_ends_without_a_result_tells_no_usage(traced, script) -> None:
    """Chunks alone say nothing of tokens: they stay unknown, never 0."""

    class Short(Streamed):
        async def create_stream(self, messages, **kwargs):
            yield "only"

    agent = _agent(
        Short(script.says("x"), info=script.client().model_info), model_client_stream=True
    )
    with pytest.raises(RuntimeError, match="No final model result"):
        asyncio.run(agent.run(task="go"))
    (turn,) = traced.trace.turns
    assert (turn.input_tokens, turn.output_tokens, turn.finish_reason) == (None, None, None)
    assert traced.trace.metrics["turns_without_usage"] == 1
    assert traced.trace.costs["tokens"] == 0


def test_stream_that_is_left_is_a_cancelled_turn(traced, script) -> None:
    """A consumer that leaves an agent in the middle of an answer ends the turn as well."""

    async def leave() -> None:
        client = Streamed(script.says("x"), info=script.client().model_info)
        stream = _agent(client, model_client_stream=True).run_stream(task="go")
        async for item in stream:
            if type(item).__name__ == "ModelClientStreamingChunkEvent":
                break
        await stream.aclose()

    asyncio.run(leave())
    (turn,) = traced.trace.turns
    assert (turn.status, turn.input_tokens) == ("cancelled", None)
    assert traced.trace.stop["stop_reason"] == "consumer_closed"


def test_cached_answer_is_a_turn_that_costs_nothing(traced, script) -> None:
    """A cache repeats the usage of the call that it kept; the tokens were spent once."""
    from autogen_ext.models.cache import ChatCompletionCache

    client = Streamed(script.says("one"), info=script.client().model_info)

    async def twice() -> None:
        cache = ChatCompletionCache(client)
        for _ in range(2):
            await _agent(cache).run(task="go")

    asyncio.run(twice())
    assert client.asked == 1
    assert [trace.costs["tokens"] for trace in traced.traces] == [10, 0]
    assert [trace.metrics["turns_without_usage"] for trace in traced.traces] == [0, 0]
    chats = _chats(traced)
    assert [chat.attributes.get("orchtrace.turn.cached") for chat in chats] == [None, True]


def test_cached_stream_is_a_turn_that_costs_nothing(traced, script) -> None:
    """The same for an answer that is streamed again."""
    from autogen_ext.models.cache import ChatCompletionCache

    client = Streamed(script.says("one"), info=script.client().model_info)

    async def twice() -> None:
        cache = ChatCompletionCache(client)
        for _ in range(2):
            await _agent(cache, model_client_stream=True).run(task="go")

    asyncio.run(twice())
    assert client.asked == 1
    assert [trace.costs["tokens"] for trace in traced.traces] == [10, 0]
    assert len(_chats(traced)) == 2


def test_thought_and_logprobs_are_known_to_be_there(traced, script) -> None:
    """What a reasoning model thought, and how likely its words were, is content."""
    from autogen_core.models import ChatCompletionTokenLogprob

    result = script.says("one")
    result.thought = CANARY
    result.logprobs = [ChatCompletionTokenLogprob(token=CANARY, logprob=-0.5)]
    plain = script.says("two")
    info = script.client().model_info

    async def both() -> None:
        await _agent(Streamed(result, info=info)).run(task="go")
        await _agent(Streamed(plain, info=info)).run(task="go")

    asyncio.run(both())
    keys = ("orchtrace.turn.thought", "orchtrace.turn.logprobs")
    assert [[chat.attributes.get(key) for key in keys] for chat in _chats(traced)] == [
        [True, True],
        [None, None],
    ]
    assert not any(CANARY in str(dict(span.attributes)) for span in traced.spans)
    assert CANARY not in traced.traces[0].to_json()


def test_structured_output_is_asked_for_as_json(traced, script) -> None:
    """That a schema was asked for is known, the schema and the answer are not."""
    from pydantic import BaseModel

    class Answer(BaseModel):
        words: str

    info = {**script.client().model_info, "structured_output": True, "json_output": True}
    client = Streamed(script.says(f'{{"words": "{CANARY}"}}'), info=info)
    result = asyncio.run(_agent(client, output_content_type=Answer).run(task="go"))
    assert result.messages[-1].content.words == CANARY
    (chat,) = _chats(traced)
    assert chat.attributes["gen_ai.output.type"] == "json"
    assert not any(CANARY in str(dict(span.attributes)) for span in traced.spans)
    assert CANARY not in traced.trace.to_json()


def test_client_used_in_plain_code_is_a_turn_of_its_agent(traced, script) -> None:
    """Inside a decorated function the host's own call is the function's turn."""
    from autogen_core.models import UserMessage

    client = Streamed(script.says("one"), info=script.client().model_info)

    @orchtrace.agent("writer")
    async def write() -> str:
        asked = [UserMessage(content="hi", source="user")]
        streamed = [part async for part in client.create_stream(asked)]
        return (await client.create(asked)).content + streamed[0]

    assert asyncio.run(write()) == "oneone"
    trace = traced.trace
    assert [(turn.agent, turn.tokens, turn.status) for turn in trace.turns] == [
        ("writer", 10, "ok"),
        ("writer", 10, "ok"),
    ]
    assert trace.costs["tokens"] == 20


def test_client_that_wraps_another_is_one_turn(traced, script) -> None:
    """A client of the host's that hands on to another one, class by class, is counted once."""

    class Around(Streamed):
        def __init__(self, inner) -> None:
            super().__init__(None, info=inner.model_info)
            self.client = inner

        async def create(self, messages, **kwargs):
            return await self.client.create(messages, **kwargs)

    inner = Streamed(script.says("one"), info=script.client().model_info)
    inner._create_args = {"model": "inner-model"}
    asyncio.run(_agent(Around(Around(inner))).run(task="go"))
    (turn,) = traced.trace.turns
    assert (turn.model, turn.tokens) == ("inner-model", 10)
    assert traced.trace.costs["tokens"] == 10


@pytest.mark.swallows_errors
def test_a_result_that_lacks_what_it_must_have_ends_its_turn(script) -> None:
    """A client that builds one without its fields leaves no turn open."""
    client = Streamed(CreateResult.model_construct(content=None), info=script.client().model_info)

    @orchtrace.agent("writer")
    async def write() -> CreateResult:
        return await client.create([])

    with capture() as captured, orchtrace.instrument("autogen"):
        assert asyncio.run(write()).content is None
    assert captured.open == {}
    (turn,) = captured.trace.turns
    assert (turn.status, turn.input_tokens) == ("ok", None)
