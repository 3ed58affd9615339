"""A recorded graph runs again from its checkpoints: upstream frozen, the user's own untouched."""

import asyncio
import operator
import pickle
import threading
from collections import Counter
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, Send, interrupt
from opentelemetry import trace as otel_trace
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_langgraph import LangGraphAdapter, Recorded
from orchtrace_otel.errors import ConfigError, ReplayBlockedError
from orchtrace_otel.replay import Change, Part, Slot, find_reads, is_replaying, record


class State(TypedDict, total=False):
    """What the teams of these tests share."""

    topics: list[str]
    findings: Annotated[list[str], operator.add]
    notes: Annotated[list[str], operator.add]
    draft: str
    answer: str


class Errand(TypedDict):
    """What one researcher is sent out with."""

    topic: str


class Calls:
    """Nodes that count how often they are called."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._lock = threading.Lock()

    def node(self, name: str, function: Any) -> Any:
        def call(state: Any) -> Any:
            with self._lock:
                self.count[name] += 1
            return function(state)

        return call

    def anode(self, name: str, function: Any) -> Any:
        async def acall(state: Any) -> Any:
            with self._lock:
                self.count[name] += 1
            await asyncio.sleep(0)
            return function(state)

        return acall

    def taken(self) -> dict[str, int]:
        """What was called since it was asked last."""
        taken = dict(self.count)
        self.count.clear()
        return taken


@pytest.fixture
def calls() -> Calls:
    return Calls()


def says(text: str) -> Any:
    return lambda _: {"findings": [text]}


def joins(state: State) -> State:
    return {"answer": " ".join(state.get("findings", []))}


def has_both(state: Any) -> float:
    """The answer needs two of the three."""
    return float("red" in state["answer"] and "blue" in state["answer"])


WORDS = {"ann": "red", "bob": "blue", "cid": "green"}


def research(calls: Calls, make: str = "node", **options: Any) -> Any:
    """A plan, three researchers beside each other, and a writer who joins what they found."""
    graph = StateGraph(State)
    node = getattr(calls, make)
    graph.add_node("plan", node("plan", lambda _: {"topics": [*WORDS]}))
    for name, word in WORDS.items():
        graph.add_node(name, node(name, says(word)))
        graph.add_edge("plan", name)
    graph.add_node("writer", node("writer", joins))
    graph.add_edge([*WORDS], "writer")
    graph.add_edge(START, "plan")
    options.setdefault("checkpointer", InMemorySaver())
    return graph.compile(name="team", **options)


CONFIG: Any = {"configurable": {"thread_id": "one"}}


def ran(traced: Any, graph: Any, given: Any = None, *, is_async: bool = False) -> Any:
    """Run a graph once, and return its trace and where its run is."""
    given = {"findings": []} if given is None else given
    if is_async:
        asyncio.run(graph.ainvoke(given, CONFIG))
    else:
        graph.invoke(given, CONFIG)
    return traced.traces[-1], graph.with_config(configurable={"thread_id": "one"})


AGENTS = [Part("agent", name) for name in WORDS]
LETTERS = [Slot(name, "writer", 1) for name in WORDS]


@pytest.mark.parametrize("make", ["node", "anode"])
@pytest.mark.parametrize("players", [AGENTS, LETTERS], ids=["agents", "messages"])
def test_two_of_three_share_what_needs_both(traced, calls, make, players) -> None:
    """Shapley gives them half each and the third nothing, exactly; upstream is never called."""
    trace, target = ran(traced, research(calls, make), is_async=make == "anode")
    calls.taken()
    found = orchtrace.counterfactual(
        trace, target, players, method="shapley", score=has_both, replays=1
    )
    assert [effect.value for effect in found.effects] == [0.5, 0.5, 0.0]
    assert found.lost == {}
    assert calls.taken() == {"writer": 8}  # as often as there are coalitions


def test_messages_of_a_shared_state_are_players(traced, calls) -> None:
    """Who wrote what somebody read: one slot each, found in the trace and in the checkpoints."""
    trace, target = ran(traced, research(calls))
    calls.taken()
    plan = [Slot("plan", name, 1) for name in (*WORDS, "writer")]
    assert {*find_reads(trace)} == {*plan, *LETTERS}
    found = orchtrace.counterfactual(trace, target, score=has_both, replays=2)
    assert {effect.player: effect.value for effect in found.effects} == {
        **dict.fromkeys(plan, 0.0),
        **dict(zip(LETTERS, [1.0, 1.0, 0.0], strict=True)),
    }
    assert "plan" not in calls.taken()


def test_the_users_saver_is_left_alone(traced, calls) -> None:
    """Byte for byte, whatever is replayed; and no span of any instrumentation comes of it."""
    saver = InMemorySaver()
    trace, target = ran(traced, research(calls, checkpointer=saver))

    def held() -> bytes:
        storage = {key: {**value} for key, value in saver.storage.items()}
        # Being read, some versions leave an empty place for what nobody wrote.
        writes = {key: value for key, value in saver.writes.items() if value}
        return pickle.dumps((storage, writes, dict(saver.blobs)))

    before, spans = held(), traced.started
    others = otel_trace.get_tracer("of another instrumentation", tracer_provider=traced.provider)

    def score(state: Any) -> float:
        with others.start_as_current_span("host's own"):
            return has_both(state)

    for players in (AGENTS, "message"):
        orchtrace.counterfactual(trace, target, players, score=score, replays=2)
    assert held() == before
    assert traced.started == spans
    assert len(traced.traces) == 1


def test_a_sqlite_saver_is_left_alone(traced, calls) -> None:
    """All rows of its tables are as they were."""
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    with sqlite.SqliteSaver.from_conn_string(":memory:") as saver:
        trace, target = ran(traced, research(calls, checkpointer=saver))

        def held() -> list[Any]:
            tables = ("checkpoints", "writes")
            return [saver.conn.execute(f"SELECT * FROM {one}").fetchall() for one in tables]  # noqa: S608 - our own names

        before = held()
        found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
        assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
        assert held() == before


def test_an_asynchronous_saver_is_read_from_another_thread(traced, calls) -> None:
    """Asked from within its loop, in a thread; replays have loops of their own."""
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")

    async def main() -> Any:
        async with aio.AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            graph = research(calls, "anode", checkpointer=saver)
            await graph.ainvoke({"findings": []}, CONFIG)
            target = graph.with_config(configurable={"thread_id": "one"})
            return await asyncio.to_thread(
                orchtrace.counterfactual,
                traced.traces[0],
                target,
                AGENTS,
                score=has_both,
                replays=2,
            )

    found = asyncio.run(main())
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]


def test_a_store_is_read_and_never_written(traced, calls) -> None:
    """A replay sees its own puts, the user's store does not."""
    store = InMemoryStore()
    store.put(("town",), "river", {"name": "Oder"})
    seen: list[tuple[Any, Any, list[str]]] = []
    graph = StateGraph(State)
    graph.add_node("ann", calls.node("ann", says("red")))

    def writer(state: State, *, store: BaseStore) -> State:
        store.put(("town",), "bridge", {"name": "new"})
        store.delete(("town",), "river")
        found = (store.get(("town",), "river"), store.get(("town",), "bridge").value)
        seen.append((*found, [item.key for item in store.search(("town",))]))
        return joins(state)

    graph.add_node("writer", writer)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "writer")
    graph = graph.compile(checkpointer=InMemorySaver(), store=store)
    trace, target = ran(traced, graph)
    store.put(("town",), "river", {"name": "Oder"})
    store.delete(("town",), "bridge")
    seen.clear()
    found = orchtrace.counterfactual(trace, target, [Part("agent", "ann")], score=len, replays=2)
    assert found.lost == {}
    assert seen == [(None, {"name": "new"}, ["bridge"])] * 2
    assert [item.key for item in store.search(("town",))] == ["river"]


def fan_out(calls: Calls) -> Any:
    """A planner sends one researcher out for each topic."""
    graph = StateGraph(State)
    graph.add_node("plan", calls.node("plan", lambda _: {"topics": ["red", "blue", "green"]}))
    graph.add_node("scout", calls.node("scout", lambda errand: {"findings": [errand["topic"]]}))
    graph.add_node("writer", calls.node("writer", joins))
    graph.add_edge(START, "plan")
    graph.add_conditional_edges(
        "plan", lambda s: [Send("scout", {"topic": one}) for one in s["topics"]], ["scout"]
    )
    graph.add_edge("scout", "writer")
    return graph.compile(checkpointer=InMemorySaver())


def test_what_is_sent_out_is_taken_out_packet_by_packet(traced, calls) -> None:
    """Without its packet a researcher is not called, and the others' work is as it was."""
    trace, target = ran(traced, fan_out(calls))
    calls.taken()
    packets = [Slot("plan", "scout", n) for n in (1, 2, 3)]
    found = orchtrace.counterfactual(trace, target, packets, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
    # With the packet in, its researcher works anew; the other two never do.
    assert calls.taken() == {"scout": 3, "writer": 6}


@pytest.mark.parametrize(("capacity", "value"), [(1, -1.0), (2, 0.0), (3, 0.0)])
def test_capacity_says_how_many_work_at_once(traced, calls, capacity, value) -> None:
    """The first so many packets are worked on."""
    trace, target = ran(traced, fan_out(calls))
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={Part("capacity", "scout"): capacity},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [value]


def test_without_any_capacity_nothing_is_worked_on(traced, calls) -> None:
    """All packets are left, and who joins gets nothing."""
    trace, target = ran(traced, fan_out(calls))
    calls.taken()
    answers: list[str] = []

    def score(state: Any) -> float:
        answers.append(state["answer"])
        return has_both(state)

    capacity = Part("capacity", "scout")
    (effect,) = orchtrace.counterfactual(
        trace, target, [capacity], score=score, replays=2, workers=1
    ).effects
    assert effect.value == 1.0
    assert sorted(answers) == ["", "red blue green"]
    assert "scout" not in calls.taken()


def test_messages_are_edited_as_their_reader_finds_them(traced, calls) -> None:
    """By a text, or by an update of the state; the packet of a Send likewise."""
    trace, target = ran(traced, research(calls))
    green, red = LETTERS[2], LETTERS[0]
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={green: ["purple"], red: ["pink", {"findings": ["dark red"]}]},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [0.0, -1.0, 0.0]
    trace, target = ran(traced, fan_out(calls))
    packet = Slot("plan", "scout", 3)
    asked = {Slot("plan", "scout", 1): [{"topic": "pink"}], packet: [{"topic": "blue"}]}
    found = orchtrace.counterfactual(
        trace, target, method="edits", alternatives=asked, score=has_both, replays=2
    )
    assert [effect.value for effect in found.effects] == [-1.0, 0.0]


def test_agents_are_edited_by_what_they_write_or_by_a_function(traced, calls) -> None:
    """A fixed update of the state, or one made from the input; they are not called."""
    trace, target = ran(traced, research(calls))
    calls.taken()
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={
            Part("agent", "ann"): [{"findings": ["pink"]}, lambda s: {"findings": ["red"]}],
        },
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [-1.0, 0.0]
    assert "ann" not in calls.taken()


def test_roles_and_dependencies_are_taken_out(traced, calls) -> None:
    """All agents of a role; all that one agent reads from another."""

    @orchtrace.agent("ann", role="executor")
    def ann(_: State) -> State:
        calls.count["ann"] += 1
        return {"findings": ["red"]}

    @orchtrace.agent("bob", role="verifier")
    def bob(_: State) -> State:
        return {"findings": ["blue"]}

    graph = StateGraph(State)
    graph.add_node("first", ann)
    graph.add_node("second", bob)
    graph.add_node("writer", joins)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    calls.taken()
    players = [
        Part("role", "executor"),
        Part("dependency", "writer<-bob"),
        Part("dependency", "bob<-ann"),
    ]
    found = orchtrace.counterfactual(trace, target, players, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
    assert calls.taken() == {}


def test_what_is_not_downstream_stays_as_it_was(traced, calls) -> None:
    """A branch that reads nothing of what changed is not called, though it comes later."""

    class Left(TypedDict, total=False):
        findings: Annotated[list[str], operator.add]

    class Right(TypedDict, total=False):
        notes: Annotated[list[str], operator.add]

    graph = StateGraph(State)
    graph.add_node("a", calls.node("a", says("red")), input_schema=Left)
    graph.add_node("a2", calls.node("a2", says("blue")), input_schema=Left)
    graph.add_node("b", calls.node("b", lambda _: {"notes": ["n"]}), input_schema=Right)
    graph.add_node("b2", calls.node("b2", lambda _: {"notes": ["m"]}), input_schema=Right)
    graph.add_node("writer", calls.node("writer", joins))
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    graph.add_edge("a", "a2")
    graph.add_edge("b", "b2")
    graph.add_edge(["a2", "b2"], "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()), {"notes": []})
    calls.taken()
    found = orchtrace.counterfactual(trace, target, [Part("agent", "a")], score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0]
    assert calls.taken() == {"a2": 2, "writer": 2}


def loop(calls: Calls) -> Any:
    """A writer and a critic in rounds: the critic sends it back until the draft is long."""
    graph = StateGraph(State)

    def draft(state: State) -> State:
        return {"draft": state.get("draft", "") + "x" + "!" * len(state.get("notes", []))}

    def critic(state: State) -> Command[str]:
        if len(state["draft"]) >= 6:
            return Command(goto="end", update={"notes": ["fine"]})
        return Command(goto="writer", update={"notes": ["more"]})

    graph.add_node("writer", calls.node("writer", draft))
    graph.add_node("critic", calls.node("critic", critic), destinations=("writer", "end"))
    graph.add_node("end", lambda state: {"answer": state["draft"]})
    graph.add_edge(START, "writer")
    graph.add_edge("writer", "critic")
    return graph.compile(checkpointer=InMemorySaver())


def test_slots_count_rounds_and_later_ones_are_found_again(traced, calls) -> None:
    """In a loop each round is a slot; earlier rounds stay as they were."""
    trace, target = ran(traced, loop(calls), {"draft": ""})
    assert calls.taken() == {"writer": 3, "critic": 3}
    slots = [one for one in find_reads(trace) if one[:2] == ("critic", "writer")]
    assert slots == [Slot("critic", "writer", 1), Slot("critic", "writer", 2)]
    drafts: list[str] = []

    def score(state: Any) -> float:
        drafts.append(state["answer"])
        return float(len(state["answer"]))

    found = orchtrace.counterfactual(
        trace, target, slots[1:], score=score, baseline="replayed", replays=2, workers=1
    )
    # It was "x", "xx!", "xx!x!!". Without its second note the critic goes on once more, and
    # of its notes the writer then has the first and the third.
    assert sorted(drafts) == ["xx!x!!", "xx!x!x!!"]
    assert found.lost == {}
    assert calls.taken() == {"writer": 3, "critic": 3}


def test_a_node_that_is_taken_out_goes_where_it_went(traced, calls) -> None:
    """A hand-off by a command stays one, empty: the end is reached."""
    trace, target = ran(traced, loop(calls), {"draft": "xxxxxx"})
    assert calls.taken() == {"writer": 1, "critic": 1}
    answers: list[str] = []

    def score(state: Any) -> float:
        answers.append(state["answer"])
        return 1.0

    orchtrace.counterfactual(trace, target, [Part("agent", "critic")], score=score, replays=2)
    assert answers == ["xxxxxxx"] * 2
    assert calls.taken() == {}


def tooled(prices: list[str], ask: Any) -> Any:
    """An agent who asks a shop for what its reader names."""
    graph = StateGraph(State)
    graph.add_node("ann", says("pie"))

    def shopper(state: State) -> State:
        wanted = (state.get("findings") or ["soup"])[-1]
        answer = ask.invoke(
            {"name": "ask", "args": {"what": wanted}, "id": "7", "type": "tool_call"}
        )
        prices.append(answer.content)
        return {"answer": answer.content}

    graph.add_node("shopper", shopper)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "shopper")
    return graph.compile(checkpointer=InMemorySaver())


def test_tools_are_played_back_or_block_the_replay(traced) -> None:
    """The same arguments give what they gave; others are blocked, though hosts catch errors."""
    asked: list[str] = []

    @tool
    def ask(what: str) -> str:
        """Ask what it costs."""
        asked.append(what)
        return f"{what}: 3"

    prices: list[str] = []
    with record() as recording:
        trace, target = ran(traced, tooled(prices, ask))
    assert len(recording) == 1
    letter = Slot("ann", "shopper", 1)
    found = orchtrace.counterfactual(
        trace, target, [letter], score=lambda _: 1.0, replays=4, recording=recording
    )
    assert asked == ["pie"]
    assert found.effects[0].lost == {"blocked": 2}  # without the letter it asks for soup
    assert prices == ["pie: 3"] * 3
    nothing = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=4)
    assert nothing.lost == {"blocked": 4}
    assert asked == ["pie"]


def test_tools_that_are_safe_are_called_again(traced) -> None:
    """The mark is that of the function's decorator."""
    asked: list[str] = []

    @tool
    @orchtrace.tool(replay_safe=True)
    def ask(what: str) -> str:
        """Ask what it costs."""
        asked.append(what)
        return f"{what}: 3"

    trace, target = ran(traced, tooled([], ask))
    letter = Slot("ann", "shopper", 1)
    found = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=4)
    assert found.lost == {}
    assert sorted(asked) == ["pie"] * 3 + ["soup"] * 2


def test_a_host_that_catches_is_blocked_all_the_same(traced) -> None:
    """An agent that takes any error of a tool for an answer gets no value."""

    @tool
    def ask(what: str) -> str:
        """Ask what it costs."""
        return f"{what}: 3"

    def shopper(_: State) -> State:
        try:
            return {"answer": ask.invoke({"what": "pie"})}
        except Exception as error:  # noqa: BLE001 - that is what is tested
            return {"answer": str(error)}

    graph = StateGraph(State)
    graph.add_node("ann", says("x"))
    graph.add_node("shopper", shopper)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "shopper")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    found = orchtrace.counterfactual(
        trace, target, [Part("agent", "ann")], score=lambda _: 1.0, replays=2
    )
    assert found.lost == {"blocked": 2}


def test_messages_of_langchain_are_edited_by_their_text(traced) -> None:
    """In a state of messages, whose reducer knows them by id."""

    class Talk(TypedDict):
        messages: Annotated[list[Any], add_messages]
        answer: str

    graph = StateGraph(Talk)
    graph.add_node("ann", lambda _: {"messages": [AIMessage("red and blue", id="m1")]})
    graph.add_node("writer", lambda s: {"answer": " ".join(str(m.content) for m in s["messages"])})
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "writer")
    graph = graph.compile(checkpointer=InMemorySaver())
    trace, target = ran(traced, graph, {"messages": [("user", "which?")]})
    slot = Slot("ann", "writer", 1)
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={slot: ["neither"]},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [-1.0]


def test_what_has_to_be_asked_of_a_person_is_blocked(traced) -> None:
    """A replay that comes to an interrupt has no value."""
    graph = StateGraph(State)
    graph.add_node("ann", says("red"))

    def writer(state: State) -> State:
        if "red" not in state.get("findings", []):
            interrupt("what now?")
        return joins(state)

    graph.add_node("writer", writer)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    found = orchtrace.counterfactual(
        trace, target, [Part("agent", "ann")], score=lambda _: 1.0, replays=2
    )
    assert found.lost == {"blocked": 1}


def test_players_that_no_node_is_are_blocked(traced, calls) -> None:
    """The graph itself, what nobody wrote, a name that is unknown: each says so."""
    trace, target = ran(traced, research(calls))
    unknown = [
        Part("agent", "team"),
        Part("role", "critic"),
        Part("dependency", "ann<-bob"),
        Slot("ann", "writer", 2),
    ]
    found = orchtrace.counterfactual(trace, target, unknown, score=has_both, replays=2)
    assert [effect.lost for effect in found.effects] == [{"blocked": 2}] * 4


def test_a_replay_that_raises_or_never_ends_costs_itself_alone(traced, calls) -> None:
    """Counted, and the rest has its numbers."""
    held = threading.Event()
    graph = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", says("blue"))

    def writer(state: State) -> State:
        if is_replaying() and "red" not in state["findings"]:
            msg = "no red"
            raise ValueError(msg)
        if is_replaying() and "blue" not in state["findings"]:
            held.wait(30)
        return joins(state)

    graph.add_node("writer", writer)
    graph.add_edge(START, "ann")
    graph.add_edge(START, "bob")
    graph.add_edge(["ann", "bob"], "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    try:
        found = orchtrace.counterfactual(
            trace, target, AGENTS[:2], score=has_both, replays=2, timeout_s=1.0
        )
    finally:
        held.set()
    assert [effect.lost for effect in found.effects] == [{"failed": 1}, {"timed_out": 1}]
    assert found.left_behind == 1


def test_replays_inside_of_an_open_run_leave_it_alone(traced, calls) -> None:
    """Asked from within a team that runs, nothing is added to its trace."""
    trace, target = ran(traced, research(calls))

    @orchtrace.team("judge")
    def judge() -> float | None:
        found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
        return found.effects[0].value

    assert judge() == 1.0
    assert [event.verb for event in traced.traces[-1].events] == ["begin", "stop"]


def test_a_later_turn_of_a_thread_is_replayed_from_where_it_began(traced, calls) -> None:
    """What earlier invocations left in the state is upstream and stays."""
    graph = research(calls)
    graph.invoke({"findings": ["red", "blue"]}, CONFIG)
    trace, target = ran(traced, graph)
    found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [0.0, 0.0, 0.0]


def test_context_and_thread_are_given_by_recorded(traced) -> None:
    """What no checkpoint holds is handed over."""

    class Context(TypedDict):
        word: str

    def writer(state: State, runtime: Runtime[Context]) -> State:
        return {"answer": " ".join([*state["findings"], runtime.context["word"]])}

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("ann", says("red"))
    graph.add_node("writer", writer)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "writer")
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.invoke({"findings": []}, CONFIG, context={"word": "blue"})
    target = Recorded(graph=compiled, thread_id="one", context={"word": "blue"})
    found = orchtrace.counterfactual(
        traced.traces[-1], target, AGENTS[:1], score=has_both, replays=2
    )
    assert found.effects[0].value == 1.0


@pytest.mark.parametrize(
    ("made", "must"),
    [
        ({"checkpointer": None}, "a checkpointer"),
        ({"thread": "other"}, "must have checkpoints"),
        ({"thread": None}, "which thread"),
        ({"durability": "exit"}, "durability"),
    ],
)
def test_what_is_missing_is_said(traced, calls, made, must) -> None:
    """No saver, another thread, none at all, or checkpoints of the end alone."""
    graph = research(calls, checkpointer=made.get("checkpointer", InMemorySaver()))
    options = {"durability": made["durability"]} if "durability" in made else {}
    graph.invoke({"findings": []}, CONFIG, **options)
    thread = made.get("thread", "one")
    target = graph if thread is None else graph.with_config(configurable={"thread_id": thread})
    with pytest.raises(ConfigError, match=must):
        orchtrace.counterfactual(traced.traces[-1], target, AGENTS, score=has_both)


def test_checkpoints_of_another_run_are_refused(traced, calls) -> None:
    """They tell of agents that the trace does not."""
    trace, _ = ran(traced, fan_out(calls))
    _, target = ran(traced, research(calls))
    with pytest.raises(ConfigError, match="those of the trace"):
        orchtrace.counterfactual(trace, target, AGENTS, score=has_both)


def test_the_replayer_alone_holds_tools_back(traced) -> None:
    """Asked outside of `counterfactual`, it calls no tool either."""
    asked: list[str] = []

    @tool
    def ask(what: str) -> str:
        """Ask what it costs."""
        asked.append(what)
        return what

    trace, target = ran(traced, tooled([], ask))
    replayer = LangGraphAdapter().replayer(target, trace, lambda _: 1.0)
    with pytest.raises(ReplayBlockedError):
        replayer.value(Change(without=frozenset({Slot("ann", "shopper", 1)})), 0)
    assert asked == ["pie"]
    assert LangGraphAdapter().replayer(object(), trace, len) is None


def test_a_graph_inside_hands_over_in_replays_too(traced, calls) -> None:
    """A node that is a graph and goes on by a command to the graph around it."""
    inner = StateGraph(State)

    def clerk(_: State) -> Command[str]:
        calls.count["clerk"] += 1
        return Command(goto="writer", graph=Command.PARENT, update={"findings": ["blue"]})

    inner.add_node("clerk", clerk)
    inner.add_edge(START, "clerk")
    graph = StateGraph(State)
    graph.add_node("ann", calls.node("ann", says("red")))
    graph.add_node("desk", inner.compile(name="desk"), destinations=("writer",))
    graph.add_node("writer", calls.node("writer", joins))
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "desk")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    assert calls.taken() == {"ann": 1, "clerk": 1, "writer": 1}
    players = [Part("agent", "ann"), Part("agent", "desk"), Slot("ann", "writer", 1)]
    found = orchtrace.counterfactual(trace, target, players, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 1.0]
    assert found.lost == {}
    assert calls.taken() == {"clerk": 2, "writer": 6}
    inside = orchtrace.counterfactual(
        trace, target, [Part("agent", "clerk")], score=has_both, replays=2
    )
    assert inside.lost == {"blocked": 2}


@st.composite
def layers(draw: st.DrawFn) -> list[list[tuple[str, bool]]]:
    """Nodes in layers, each with whether it reads the findings or only its own."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    return [
        [(f"n{at}{nth}", draw(st.booleans())) for nth in range(n)] for at, n in enumerate(sizes)
    ]


def layered(shape: list[list[tuple[str, bool]]], out: frozenset[str], saver: Any) -> Any:
    """A team in layers; each node adds a word made of all that it reads."""

    class Notes(TypedDict, total=False):
        notes: Annotated[list[str], operator.add]

    graph = StateGraph(State)

    def node(name: str) -> Any:
        def work(state: State) -> State:
            if name in out:
                return {}
            read = sorted([*state.get("findings", []), *state.get("notes", [])])
            word = f"{name}({'|'.join(read)})"
            return {"findings": [word]} if len(word) % 2 else {"notes": [word]}

        return work

    before = [START]
    for layer in shape:
        for name, reads_all in layer:
            graph.add_node(name, node(name), input_schema=State if reads_all else Notes)
            for source in before:
                graph.add_edge(source, name)
        before = [name for name, _ in layer]
    graph.add_node("end", lambda s: {"answer": f"{sorted(s.get('findings', []))}{s.get('notes')}"})
    graph.add_edge(before, "end")
    return graph.compile(checkpointer=saver)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(shape=layers(), data=st.data())
def test_a_replay_is_what_a_run_without_the_agents_is(traced, shape, data) -> None:
    """Whoever is taken out of whatever team: the state is that of a team that is mute there.

    And whatever the team, its checkpoints and its trace tell of the same messages.
    """
    graph = layered(shape, frozenset(), InMemorySaver())
    trace, target = ran(traced, graph, {"findings": ["task"], "notes": []})
    states: list[Any] = []

    def score(state: Any) -> float:
        states.append(state)
        return 1.0

    replayer = LangGraphAdapter().replayer(target, trace, score)
    assert replayer._slots == {*find_reads(trace)}
    names = [name for layer in shape for name, _ in layer]
    out = data.draw(st.frozensets(st.sampled_from(names)))
    parts = {name: Part("agent", name) for name in names}
    anew = frozenset(part for name, part in parts.items() if name not in out)
    replayer.value(Change(without=frozenset(parts[n] for n in out), anew=anew), 0)
    mute = layered(shape, out, InMemorySaver())
    assert states == [mute.invoke({"findings": ["task"], "notes": []}, CONFIG)]


class Says(BaseChatModel):
    """A model that answers by a function of what it is asked."""

    answers: Any

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answers(messages))])

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> "Says":
        return self


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_supervisors_workers_are_taken_out(traced, calls) -> None:
    """Prebuilt agents that are graphs inside, and hand over by commands to the graph around."""
    supervisor = pytest.importorskip("langgraph_supervisor")
    create_agent = pytest.importorskip("langgraph.prebuilt").create_react_agent

    def boss(messages: Any) -> AIMessage:
        asked = {call["name"] for m in messages for call in getattr(m, "tool_calls", [])}
        for name in WORDS:
            if f"transfer_to_{name}" not in asked:
                call = {"name": f"transfer_to_{name}", "args": {}, "id": f"to-{name}"}
                return AIMessage("", tool_calls=[call])
        return AIMessage(
            " ".join(m.text if isinstance(m.text, str) else m.text() for m in messages)
        )

    def worker(name: str) -> Any:
        model = Says(answers=lambda _: calls.node(name, lambda _: AIMessage(WORDS[name]))(None))
        return create_agent(model, tools=[], name=name)

    team = supervisor.create_supervisor(
        [worker(name) for name in WORDS], model=Says(answers=boss), prompt="Lead."
    )
    trace, target = ran(
        traced, team.compile(checkpointer=InMemorySaver()), {"messages": [("user", "which?")]}
    )
    assert calls.taken() == dict.fromkeys(WORDS, 1)
    letters = [Slot(name, "supervisor", 1) for name in WORDS]

    def score(state: Any) -> float:
        words = str(state["messages"][-1].content).split()  # "transferred" has a "red" in it
        return float({"red", "blue"} <= {*words})

    for players in (AGENTS, letters):
        found = orchtrace.counterfactual(
            trace, target, players, method="shapley", order="any", score=score, replays=1
        )
        assert found.lost == {}
        assert [effect.value for effect in found.effects] == [0.5, 0.5, 0.0]


def test_a_try_that_fails_is_followed_by_another_one(traced, calls) -> None:
    """A node that its policy tries again reads the same messages, once."""
    tries: Counter[bool] = Counter()

    def writer(state: State) -> State:
        tries["red" in state["findings"]] += 1
        if is_replaying() and tries["red" in state["findings"]] % 2:
            msg = "the network"
            raise ConnectionError(msg)
        return joins(state)

    graph = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", says("blue"))
    policy = RetryPolicy(initial_interval=0.001, max_attempts=2)
    graph.add_node("writer", writer, retry_policy=policy)
    graph.add_edge(START, "ann")
    graph.add_edge(START, "bob")
    graph.add_edge(["ann", "bob"], "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    tries.clear()
    found = orchtrace.counterfactual(
        trace, target, LETTERS[:1], score=has_both, replays=2, workers=1
    )
    assert found.lost == {}
    assert found.effects[0].value == 1.0
    assert tries == {True: 2, False: 2}


def test_a_graph_inside_with_a_memory_of_its_own_is_blocked(traced) -> None:
    """What it remembers from one call to the next is in other checkpoints."""
    inner = StateGraph(State)
    inner.add_node("clerk", says("blue"))
    inner.add_edge(START, "clerk")
    graph = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("desk", inner.compile(checkpointer=True))
    graph.add_node("writer", joins)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "desk")
    graph.add_edge("desk", "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    found = orchtrace.counterfactual(trace, target, AGENTS[:1], score=has_both, replays=2)
    assert found.lost == {"blocked": 2}
