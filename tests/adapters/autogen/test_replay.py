"""A recorded team runs again from the turn before a change, as a fresh team of its own."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, UserProxyAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_core import FunctionCall
from autogen_core.memory import ListMemory, MemoryContent
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from autogen_core.tools import FunctionTool, TextResultContent, ToolResult, Workbench
from autogen_ext.models.replay import ReplayChatCompletionClient
from opentelemetry import trace as otel_trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_autogen import AutoGenAdapter, Recorded
from orchtrace_otel import content
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.errors import ConfigError, ReplayBlockedError
from orchtrace_otel.replay import Change, Part, Slot, is_replaying, record

USAGE = RequestUsage(prompt_tokens=1, completion_tokens=1)


class Model(ChatCompletionClient):
    """A model that answers by a function of what it is asked, and counts its calls."""

    def __init__(self, answers: Callable[[Sequence[Any]], Any], called: Callable[[], None]) -> None:
        self._answers = answers
        self._called = called

    async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:
        self._called()
        answer = self._answers(messages)
        reason = "stop" if isinstance(answer, str) else "function_calls"
        return CreateResult(finish_reason=reason, content=answer, usage=USAGE, cached=False)

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """There is nothing to close."""

    def actual_usage(self) -> RequestUsage:
        return USAGE

    def total_usage(self) -> RequestUsage:
        return USAGE

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 1

    def remaining_tokens(self, *_: Any, **__: Any) -> int:
        return 1

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            structured_output=False,
            family="unknown",
        )


class Cast:
    """Makes agents whose models are counted."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def agent(self, name: str, answers: Any, **options: Any) -> AssistantAgent:
        """Return an assistant that says a text, or what a function makes of its messages."""
        function = answers if callable(answers) else lambda _: answers

        def called() -> None:
            self.count[name] += 1

        return AssistantAgent(
            name, model_client=Model(function, called), description=name, **options
        )

    def taken(self) -> dict[str, int]:
        """What was called since it was asked last."""
        taken = dict(self.count)
        self.count.clear()
        return taken


@pytest.fixture
def cast() -> Cast:
    return Cast()


def joins(messages: Sequence[Any]) -> str:
    """What a writer makes of what it read."""
    return " ".join(str(m.content) for m in messages if isinstance(m, UserMessage))


def has_both(result: TaskResult) -> float:
    """The answer needs two of the three."""
    text = str(result.messages[-1].content)
    return float("red" in text and "blue" in text)


def ran(traced: Any, build: Callable[[], Any], task: str = "go") -> tuple[Any, TaskResult]:
    """Run a team once; return its trace and what it said."""
    result = asyncio.run(build().run(task=task))
    return traced.traces[-1], result


WORDS = {"ann": "red", "bob": "blue", "cid": "green"}
AGENTS = [Part("agent", name) for name in WORDS]
LETTERS = [Slot(name, "broadcast", 1) for name in WORDS]


def round_robin(cast: Cast) -> Callable[[], RoundRobinGroupChat]:
    """Three researchers one after the other, and a writer who joins what they said."""

    def build() -> RoundRobinGroupChat:
        team = [cast.agent(name, word) for name, word in WORDS.items()]
        return RoundRobinGroupChat(
            [*team, cast.agent("writer", joins)], termination_condition=MaxMessageTermination(5)
        )

    return build


def selector(cast: Cast) -> Callable[[], SelectorGroupChat]:
    """The same, chosen by a model that goes down the list of who has not spoken yet."""

    def chooses(messages: Sequence[Any]) -> str:
        text = str(messages[-1].content)
        return next((name for name in WORDS if f"{name}:" not in text), "writer")

    def build() -> SelectorGroupChat:
        team = [cast.agent(name, word) for name, word in WORDS.items()]
        return SelectorGroupChat(
            [*team, cast.agent("writer", joins)],
            model_client=Model(chooses, lambda: cast.count.update(["selector"])),
            selector_prompt="{history}",
            termination_condition=MaxMessageTermination(5),
        )

    return build


def swarm(cast: Cast) -> Callable[[], Swarm]:
    """The same, each handing over to the next one, with its word before it."""
    order = [*WORDS, "writer"]

    def hands(name: str, word: str) -> Any:
        target = order[order.index(name) + 1]

        def answers(_: Sequence[Any]) -> list[FunctionCall]:
            return [FunctionCall(id=name, name=f"transfer_to_{target}", arguments="{}")]

        return cast.agent(name, answers, handoffs=[_handoff(target, word)], tools=[])

    def build() -> Swarm:
        team = [hands(name, word) for name, word in WORDS.items()]
        return Swarm(
            [*team, cast.agent("writer", joins)], termination_condition=MaxMessageTermination(5)
        )

    return build


def _handoff(target: str, word: str) -> Any:
    from autogen_agentchat.base import Handoff

    return Handoff(target=target, message=word)


@pytest.mark.parametrize("make", [round_robin, selector, swarm])
def test_two_of_three_share_what_needs_both(traced, cast, make) -> None:
    """Shapley gives them half each and the third nothing, exactly, in every kind of team."""
    build = make(cast)
    trace, result = ran(traced, build)
    assert has_both(result) == 1.0
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace, target, AGENTS, method="shapley", score=has_both, replays=1
    )
    assert [effect.value for effect in found.effects] == [0.5, 0.5, 0.0]
    assert found.lost == {}


@pytest.mark.parametrize("make", [round_robin, selector])
def test_messages_are_taken_out_of_what_others_read(traced, cast, make) -> None:
    """The useful ones are worth all, the filler nothing; who spoke before is not asked again."""
    build = make(cast)
    trace, result = ran(traced, build)
    cast.taken()
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, LETTERS[2:], score=has_both, replays=2)
    (filler,) = found.effects
    assert (filler.value, filler.r_msg) == (
        0.0,
        -0.5 * filler.delay_s / trace.costs["wall_clock_s"],
    )
    assert {name: n for name, n in cast.taken().items() if name != "selector"} == {"writer": 2}
    found = orchtrace.counterfactual(trace, target, score=has_both, replays=2)
    values = {effect.player: effect.value for effect in found.effects}
    assert values == dict(zip(LETTERS, [1.0, 1.0, 0.0], strict=True)) | {
        Slot("writer", "broadcast", 1): 1.0
    }
    assert found.lost == {}


def test_one_reader_alone_may_miss_a_message(traced, cast) -> None:
    """By a slot that names the reader, or by all that it reads from the sender."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    players = [
        Slot("ann", "writer", 1),
        Slot("ann", "bob", 1),
        Part("dependency", "writer<-bob"),
        Part("dependency", "cid<-bob"),
    ]
    found = orchtrace.counterfactual(trace, target, players, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 0.0, 1.0, 0.0]


def test_messages_agents_and_capacity_are_edited(traced, cast) -> None:
    """By another text, for all or for one reader; by what an agent says; by the number of turns."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={
            LETTERS[0]: ["pink", "dark red"],
            Slot("ann", "cid", 1): ["pink"],
            Part("agent", "bob"): ["grey", lambda read: f"blue after {read[-1].source}"],
            Part("capacity", "max_turns"): [3],
        },
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [-1.0, 0.0, 0.0, -1.0, 0.0, -1.0]


def test_a_role_is_all_who_have_it(traced, cast) -> None:
    """Roles are those of the trace."""

    def build() -> RoundRobinGroupChat:
        team = [
            orchtrace.agent(cast.agent("ann", "red"), role="executor"),
            orchtrace.agent(cast.agent("bob", "blue"), role="executor"),
            orchtrace.agent(cast.agent("cid", "green"), role="verifier"),
        ]
        return RoundRobinGroupChat(
            [*team, cast.agent("writer", joins)], termination_condition=MaxMessageTermination(5)
        )

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, "role", score=has_both, replays=2)
    values = {effect.player.name: effect.value for effect in found.effects}
    assert values == {"executor": 1.0, "verifier": 0.0}


def test_later_rounds_are_found_again(traced, cast) -> None:
    """In rounds the second message of an agent is taken out, the first stays as it was."""

    def build() -> RoundRobinGroupChat:
        counts = cast.agent("counts", lambda read: str(len(read)))
        return RoundRobinGroupChat(
            [cast.agent("ann", "x"), counts], termination_condition=MaxMessageTermination(7)
        )

    trace, result = ran(traced, build)
    cast.taken()
    said: list[list[str]] = []

    def score(result: TaskResult) -> float:
        said.append([str(m.content) for m in result.messages])
        return float(said[-1][-1])

    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace, target, [Slot("ann", "broadcast", 2)], score=score, replays=2, workers=1
    )
    # With a system message each reads the task, what the other said, and what it said itself.
    assert said == [["go", "x", "3", "x", "5", "x", "7"], ["go", "x", "3", "", "4", "x", "6"]]
    assert found.effects[0].value == 1.0
    assert cast.taken() == {"ann": 2, "counts": 4}


def priced(cast: Cast, asked: list[str], **options: Any) -> Callable[[], RoundRobinGroupChat]:
    """A guest says what it wants, a shopper asks a shop for it and says what it costs."""

    def look_up(what: str) -> str:
        """Look up what it costs."""
        asked.append(what)
        return f"{what}: 3"

    function = orchtrace.tool(replay_safe=True)(look_up) if options.get("safe") else look_up

    def shops(messages: Sequence[Any]) -> Any:
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return messages[-1].content[0].content
        wanted = [str(m.content) for m in messages if isinstance(m, UserMessage)][-1]
        call = json.dumps({"what": wanted})
        return [FunctionCall(id="7", name="look_up", arguments=call)]

    def build() -> RoundRobinGroupChat:
        tool = FunctionTool(function, name="look_up", description="Look up what it costs.")
        shopper = cast.agent("shopper", shops, tools=[tool], reflect_on_tool_use=True)
        team = [cast.agent("guest", "pie"), shopper, cast.agent("writer", joins)]
        return RoundRobinGroupChat(team, termination_condition=MaxMessageTermination(4))

    return build


def test_tools_are_played_back_or_block_the_replay(traced, cast) -> None:
    """The same arguments give what they gave; others are blocked, though the agent catches it."""
    asked: list[str] = []
    build = priced(cast, asked)
    with record() as recording:
        trace, result = ran(traced, build)
    assert (len(recording), asked) == (1, ["pie"])
    target = Recorded(team=build, messages=result)
    letter = Slot("guest", "broadcast", 1)
    found = orchtrace.counterfactual(
        trace, target, [letter], score=lambda _: 1.0, replays=4, recording=recording
    )
    assert found.lost == {"blocked": 2}  # without the letter the shopper looks up "go"
    nothing = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=4)
    assert nothing.lost == {"blocked": 4}
    assert asked == ["pie"]


def test_tools_that_are_safe_are_called_again(traced, cast) -> None:
    """The mark is that of the function's decorator."""
    asked: list[str] = []
    build = priced(cast, asked, safe=True)
    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    letter = Slot("guest", "broadcast", 1)
    found = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=2)
    assert found.lost == {}
    assert sorted(asked) == ["go", "pie", "pie"]


def test_an_assistant_remembers_the_tools_of_turns_that_are_as_they_were(traced, cast) -> None:
    """Its context is what it was, call and result included, and no tool is called for it."""
    asked: list[str] = []
    read: list[list[str]] = []

    def shops(messages: Sequence[Any]) -> Any:
        read.append([type(one).__name__ for one in messages])
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return "three"
        if any(isinstance(one, FunctionExecutionResultMessage) for one in messages):
            return "done"
        return [FunctionCall(id="7", name="look_up", arguments='{"what": "pie"}')]

    def look_up(what: str) -> str:
        """Look up what it costs."""
        asked.append(what)
        return f"{what}: 3"

    def build() -> RoundRobinGroupChat:
        shopper = cast.agent("shopper", shops, tools=[look_up], reflect_on_tool_use=True)
        return RoundRobinGroupChat(
            [shopper, cast.agent("guest", "thanks")], termination_condition=MaxMessageTermination(4)
        )

    trace, result = ran(traced, build)
    last = read[-1]
    read.clear()
    guest = Slot("guest", "broadcast", 1)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(
        trace, target, [guest], score=lambda _: 1.0, replays=2, workers=1
    )
    assert found.lost == {}
    assert read == [last, [*last[:-1]]]
    assert asked == ["pie"]


@pytest.fixture
def store(tmp_path) -> Any:
    """Content goes to a store meanwhile."""
    capture = content.Capture(mode="EVENT_ONLY", store=str(tmp_path / "content"))
    recorder = set_up(capture, None)
    yield tmp_path / "content"
    content.use(None)
    recorder.shutdown(5.0)


@pytest.mark.parametrize("make", [round_robin, selector, swarm])
def test_captured_content_is_enough(traced, cast, store, make) -> None:
    """With content on, the factory alone is handed over; or the store is named."""
    build = make(cast)
    build.__annotations__["return"] = type(build())
    trace, _ = ran(traced, build)
    content.active().flush(5.0)
    for target in (build, Recorded(team=build, store=store)):
        found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
        assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
        assert found.lost == {}


def test_captured_calls_of_tools_are_remembered(traced, cast, store) -> None:
    """An assistant whose turn is as it was has its calls in its context, off the store."""
    asked: list[str] = []
    seen: list[list[str]] = []

    build_priced = priced(cast, asked)

    def build() -> RoundRobinGroupChat:
        team = build_priced()
        team._max_turns = 5
        team._termination_condition = None
        shopper = team._participants[1]
        answers = shopper._model_client._answers

        def noted(messages: Sequence[Any]) -> Any:
            seen.append([type(one).__name__ for one in messages])
            return answers(messages)

        shopper._model_client._answers = noted
        return team

    with record() as recording:
        trace, _ = ran(traced, build)
    content.active().flush(5.0)
    wanted = seen[-2:]
    seen.clear()
    again = Slot("guest", "broadcast", 2)
    found = orchtrace.counterfactual(
        trace,
        Recorded(team=build, store=store),
        method="edits",
        alternatives={again: ["pie"]},
        score=lambda _: 1.0,
        replays=2,
        workers=1,
        recording=recording,
    )
    assert found.lost == {}
    assert seen == wanted * 2


def test_redacted_content_is_not_taken_for_what_was_said(traced, cast, tmp_path) -> None:
    """A team that would read something else than it did is not rebuilt."""
    capture = content.Capture(
        mode="EVENT_ONLY", store=str(tmp_path / "content"), redact_patterns=("red",)
    )
    recorder = set_up(capture, None)
    try:
        build = round_robin(cast)
        trace, _ = ran(traced, build)
        with pytest.raises(ConfigError, match="redacted"):
            orchtrace.counterfactual(trace, Recorded(team=build), AGENTS, score=has_both)
    finally:
        content.use(None)
        recorder.shutdown(5.0)


def test_a_team_that_is_a_component_is_built_again(traced) -> None:
    """The very team is handed over, and is not touched: what it keeps is as it was."""
    models = [ReplayChatCompletionClient(["one", "two"]) for _ in range(2)]
    agents = [
        AssistantAgent(name, model_client=model)
        for name, model in zip(("ann", "bob"), models, strict=True)
    ]
    team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3))
    result = asyncio.run(team.run(task="go"))
    before = json.dumps(asyncio.run(team.save_state()), sort_keys=True, default=str)
    found = orchtrace.counterfactual(
        traced.traces[-1],
        Recorded(team=team, messages=result),
        [Part("agent", "ann")],
        score=lambda r: float(len(str(r.messages[-1].content))),
        replays=2,
    )
    assert found.effects[0].value == 0.0
    assert json.dumps(asyncio.run(team.save_state()), sort_keys=True, default=str) == before
    assert "orchtrace" not in str(vars(agents[0]))


def test_replays_leave_no_span(traced, cast) -> None:
    """Neither ours, nor AutoGen's own, nor of a host that knows nothing of suppression."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    spans = traced.started
    taken = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(taken))
    tracer = otel_trace.get_tracer("of the host", tracer_provider=provider)

    def score(result: TaskResult) -> float:
        with tracer.start_as_current_span("own"):
            return has_both(result)

    target = Recorded(team=build, messages=result)
    orchtrace.counterfactual(trace, target, AGENTS, score=score, replays=2)
    assert traced.started == spans
    assert taken.get_finished_spans() == ()
    assert len(traced.traces) == 1


class Counting(BaseChatAgent):
    """An agent of its own, whose state is told by `save_state`, or is not."""

    def __init__(self, name: str) -> None:
        super().__init__(name, name)
        self.spoke = 0

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Any, cancellation_token: Any) -> Response:
        self.spoke += 1
        return Response(chat_message=TextMessage(content="hm", source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None:
        self.spoke = 0


class Telling(Counting):
    async def save_state(self) -> Mapping[str, Any]:
        return {"spoke": self.spoke}


def test_what_cannot_be_rebuilt_says_so(traced, cast) -> None:
    """State of an agent's own, a memory, a person, another kind of team: blocked, and why."""

    async def asks(prompt: str, cancellation_token: Any = None) -> str:
        assert not is_replaying()
        return "yes"

    async def memory() -> ListMemory:
        kept = ListMemory()
        await kept.add(MemoryContent(content="old", mime_type="text/plain"))
        return kept

    kept = asyncio.run(memory())
    teams: dict[str, Callable[[], list[Any]]] = {
        "what a Telling keeps": lambda: [Telling("ann"), cast.agent("bob", "b")],
        "has a memory": lambda: [cast.agent("ann", "a", memory=[kept]), cast.agent("bob", "b")],
        "ask a person": lambda: [
            cast.agent("ann", "a"),
            cast.agent("bob", "b"),
            UserProxyAgent("eve", input_func=asks),
        ],
    }
    for why, agents in teams.items():

        def build(agents: Any = agents) -> RoundRobinGroupChat:
            people = agents()
            end = MaxMessageTermination(len(people) + 1)
            return RoundRobinGroupChat(people, termination_condition=end)

        trace, result = ran(traced, build)
        replayer = AutoGenAdapter().replayer(
            Recorded(team=build, messages=result), trace, lambda _: 1.0
        )
        change = Change(without=frozenset({Slot("bob", "broadcast", 1)}))
        with pytest.raises(ReplayBlockedError, match=why):
            asyncio.run(replayer.value(change, 0))


def test_an_agent_without_state_is_rebuilt(traced, cast) -> None:
    """One that tells of none has none, as AutoGen has it."""

    def build() -> RoundRobinGroupChat:
        team = [Counting("ann"), cast.agent("writer", joins)]
        return RoundRobinGroupChat(team, termination_condition=MaxMessageTermination(3))

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    letter = Slot("ann", "broadcast", 1)
    found = orchtrace.counterfactual(
        trace, target, [letter], score=lambda r: len(r.messages[-1].content), replays=2
    )
    assert found.effects[0].value == len(" hm")


def test_a_flow_is_not_rebuilt(traced, cast) -> None:
    """A team in which several speak at once is blocked."""

    def build() -> GraphFlow:
        ann, bob = cast.agent("ann", "red"), cast.agent("bob", "blue")
        flow = DiGraphBuilder().add_node(ann).add_node(bob).add_edge(ann, bob)
        return GraphFlow([ann, bob], graph=flow.build())

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, AGENTS[:1], score=has_both, replays=2)
    assert found.lost == {"blocked": 2}


def test_another_team_than_the_recorded_is_blocked(traced, cast) -> None:
    """One that asks others than spoke in the record, and one that is no fresh one."""
    build = round_robin(cast)
    trace, result = ran(traced, build)

    def other() -> RoundRobinGroupChat:
        team = build()
        return RoundRobinGroupChat(team._participants[::-1], max_turns=4)

    same = build()
    asyncio.run(same.run(task="go"))
    for made in (other, lambda: same):
        target = Recorded(team=made, messages=result)
        found = orchtrace.counterfactual(trace, target, LETTERS, score=has_both, replays=2)
        assert found.lost == {"blocked": 6}


def test_players_that_no_turn_is_are_blocked(traced, cast) -> None:
    """The team itself, what nobody said, a name that is unknown: each says so."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    unknown = [
        Part("agent", "RoundRobinGroupChat"),
        Part("role", "critic"),
        Part("dependency", "ann<-bob"),
        Part("capacity", "max_turns"),
        Slot("ann", "broadcast", 2),
    ]
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, unknown, score=has_both, replays=2)
    for effect in found.effects[:3] + found.effects[4:]:
        assert effect.lost == {"blocked": 2}
    assert found.effects[3].lost == {"blocked": 1}  # there is a number of turns, to be edited


def test_a_replay_that_raises_costs_itself_alone(traced, cast) -> None:
    """Counted as failed, and the rest has its numbers."""

    def joins_red(messages: Sequence[Any]) -> str:
        text = joins(messages)
        if "red" not in text:
            msg = "no red"
            raise ValueError(msg)
        return text

    def build() -> RoundRobinGroupChat:
        team = [cast.agent("ann", "red"), cast.agent("bob", "blue")]
        return RoundRobinGroupChat(
            [*team, cast.agent("writer", joins_red)],
            termination_condition=MaxMessageTermination(4),
        )

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, LETTERS[:2], score=has_both, replays=2)
    assert [effect.lost for effect in found.effects] == [{"failed": 1}, {}]
    assert found.effects[1].value == 1.0


@pytest.mark.parametrize(
    ("make", "must"),
    [
        (lambda build, result: Recorded(team=build), "no content is captured"),
        (lambda build, result: Recorded(team=build, messages=result.messages[1:]), "its task"),
        (lambda build, result: build(), "a component"),
    ],
)
def test_what_is_missing_is_said(traced, cast, make, must) -> None:
    """No content, no task, a team that AutoGen cannot dump."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    with pytest.raises(ConfigError, match=must):
        orchtrace.counterfactual(trace, make(build, result), AGENTS, score=has_both)
    assert AutoGenAdapter().replayer(object(), trace, len) is None


class Shop(Workbench):
    """A workbench that is none of AutoGen's own."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    async def list_tools(self) -> list[Any]:
        return []

    async def call_tool(self, name: str, arguments: Any = None, *_: Any, **__: Any) -> ToolResult:
        self.asked.append(arguments["what"])
        return ToolResult(name=name, result=[TextResultContent(content=f"{arguments['what']}: 3")])

    async def start(self) -> None:
        """There is nothing to start."""

    async def stop(self) -> None:
        """There is nothing to stop."""

    async def reset(self) -> None:
        """There is nothing to reset."""

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """There is nothing to load."""


def test_tools_of_any_workbench_are_held_back(traced, cast) -> None:
    """Those of a server, for example, whose workbench the factory hands to every team."""
    shop = Shop([])

    async def list_tools() -> list[Any]:
        return [{"name": "look_up", "parameters": {"type": "object", "properties": {}}}]

    shop.list_tools = list_tools

    def shops(messages: Sequence[Any]) -> Any:
        wanted = [str(m.content) for m in messages if isinstance(m, UserMessage)][-1]
        call = json.dumps({"what": wanted})
        return [FunctionCall(id="7", name="look_up", arguments=call)]

    def build() -> RoundRobinGroupChat:
        shopper = cast.agent("shopper", shops, workbench=shop)
        return RoundRobinGroupChat([cast.agent("guest", "pie"), shopper], max_turns=2)

    with record() as recording:
        trace, result = ran(traced, build)
    assert (len(recording), shop.asked) == (1, ["pie"])
    found = orchtrace.counterfactual(
        trace,
        Recorded(team=build, messages=result),
        [Slot("guest", "broadcast", 1)],
        score=lambda r: float("pie: 3" in str(r.messages[-1].content)),
        replays=4,
        recording=recording,
    )
    assert found.lost == {"blocked": 2}
    assert shop.asked == ["pie"]


def test_a_run_that_went_on_from_another_is_rebuilt_from_its_state(traced, cast) -> None:
    """What the team remembered before is loaded into the fresh one."""
    build = round_robin(cast)

    async def twice() -> tuple[Any, TaskResult]:
        team = build()
        await team.run(task="first")
        return await team.save_state(), await team.run(task="second")

    state, result = asyncio.run(twice())
    writer = str(result.messages[-1].content)
    assert writer == "first red blue green second red blue green"
    answers: list[str] = []

    def score(result: TaskResult) -> float:
        answers.append(str(result.messages[-1].content))
        return 1.0

    target = Recorded(team=build, messages=result, state=state)
    orchtrace.counterfactual(
        traced.traces[-1], target, LETTERS[2:], score=score, replays=2, workers=1
    )
    assert answers == [writer, "first red blue green second red blue"]


def test_replays_are_not_in_the_hosts_logs(traced, cast, caplog) -> None:
    """Neither what AutoGen says of a replay that is blocked, nor its events."""
    asked: list[str] = []
    build = priced(cast, asked)
    trace, result = ran(traced, build)
    caplog.clear()
    with caplog.at_level("DEBUG"):
        found = orchtrace.counterfactual(
            trace,
            Recorded(team=build, messages=result),
            [Slot("guest", "broadcast", 1)],
            score=lambda _: 1.0,
            replays=2,
        )
    assert found.lost == {"blocked": 2}
    assert [one.name for one in caplog.records if one.name.startswith("autogen")] == []
