"""The conformance kit, on graphs."""

import operator
from collections.abc import Callable
from typing import Annotated, Any

from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from orchtrace_langgraph import LangGraphAdapter
from orchtrace_otel.testing.conformance import CANARY, TOKENS, AdapterConformance, Replayed


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def chain(saver=None, **nodes):
    """A graph whose nodes follow one another."""
    graph = StateGraph(State)
    before = START
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph.compile(name="team", checkpointer=saver)


def says(state):
    return {"log": [CANARY]}


class Model(FakeMessagesListChatModel):
    """A scripted model with a name, which tells when it is called."""

    model_name: str = "scripted"
    look: Callable[[], None]

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self.look()
        return super()._generate(*args, **kwargs)


class TestLangGraph(AdapterConformance):
    can_invoke = True
    can_ainvoke = True
    can_stream = True
    can_astream = True
    can_hand_off = True
    can_call_tools = True
    can_call_models = True
    can_fan_out = True
    can_nest = True
    can_wait = True
    can_replay = True

    def make_adapter(self):
        return LangGraphAdapter()

    def single(self, look):
        def worker(state):
            look()
            return {"log": [CANARY]}

        return chain(worker=worker)

    def failing(self, error):
        def worker(state):
            raise error

        return chain(worker=worker)

    def handing_off(self):
        return chain(first=says, second=says)

    def replayed(self, look):
        def first(state):
            look("first")
            return says(state)

        def second(state):
            look("second")
            return says(state)

        saver = InMemorySaver()
        graph = chain(saver, first=first, second=second)
        thread = {"configurable": {"thread_id": "one"}}
        return Replayed(
            run=lambda: graph.invoke({"log": []}, thread),
            target=lambda _: graph.with_config(thread),
            kept=lambda: repr([*saver.list(thread)]),
        )

    def calling_tool(self, look):
        @tool
        def lookup(text: str) -> str:
            """Look something up."""
            look()
            return text

        return chain(worker=lambda state: {"log": [lookup.invoke({"text": CANARY})]})

    def calling_model(self, look):
        read, written = TOKENS
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        model = Model(responses=[AIMessage(CANARY, usage_metadata=usage)], look=look)
        return chain(worker=lambda state: {"log": [model.invoke(CANARY).content]})

    def fanning_out(self):
        graph = StateGraph(State)
        for name in ("left", "right", "merge"):
            graph.add_node(name, says)
        graph.add_edge(START, "left")
        graph.add_edge(START, "right")
        graph.add_edge(["left", "right"], "merge")
        return graph.compile(name="team")

    def nested(self, look):
        def inner(state):
            look()
            return {"log": [CANARY]}

        return chain(outer=chain(inner=inner))

    def waiting(self, wait):
        async def worker(state):
            await wait()
            return {"log": [CANARY]}

        return chain(worker=worker)

    def invoke(self, team):
        return team.invoke({"log": [CANARY]})

    async def ainvoke(self, team):
        return await team.ainvoke({"log": [CANARY]})

    def stream(self, team):
        return team.stream({"log": [CANARY]}, stream_mode="values")

    def astream(self, team):
        return team.astream({"log": [CANARY]}, stream_mode="values")
