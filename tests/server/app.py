"""Graphs as a project for LangGraph's server has them: traced from the module that it imports."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

import orchtrace_otel as orchtrace

orchtrace.configure()
orchtrace.instrument("langgraph")


class State(TypedDict, total=False):
    topic: str
    results: Annotated[list[str], operator.add]
    answer: str
    approved: str


async def plan(state: State) -> State:
    return {"topic": state["topic"].strip()}


def share_out(state: State) -> list[Send]:
    return [Send("worker", {"topic": f"{state['topic']} {number}"}) for number in range(3)]


def worker(state: State) -> State:
    return {"results": [state["topic"].upper()]}


async def merge(state: State) -> State:
    return {"answer": ", ".join(sorted(state["results"]))}


async def review(state: State) -> State:
    return {"approved": interrupt({"fine?": state["answer"]})}


async def refuse(state: State) -> State:
    raise ValueError(state["topic"])


_reviewed = StateGraph(State)
for node in (plan, worker, merge, review):
    _reviewed.add_node(node)
_reviewed.add_edge(START, "plan")
_reviewed.add_conditional_edges("plan", share_out, ["worker"])
_reviewed.add_edge("worker", "merge")
_reviewed.add_edge("merge", "review")
_reviewed.add_edge("review", END)
reviewed = _reviewed.compile(name="reviewed")

_refused = StateGraph(State)
_refused.add_node(refuse)
_refused.add_edge(START, "refuse")
refused = _refused.compile(name="refused")
