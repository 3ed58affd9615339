"""What was each message of a graph worth? Replay it from its checkpoints, one message less.

Two scouts find out something useful, a third one talks about the weather; a writer joins
what it reads, and the answer is right where it names the lake and its depth. The replays
run in a scratch saver: the graph's own is read, and nobody before the change is called.
Run it, then: orchtrace show orchtrace-data
"""

from __future__ import annotations

import operator
from typing import Annotated, Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Slot, describe

WORDS = {
    "geographer": "It is Lake Garda.",
    "diver": "It is 346 m deep.",
    "gossip": "It rained all day.",
}


class State(TypedDict, total=False):
    """What the team shares."""

    findings: Annotated[list[str], operator.add]
    answer: str


def scout(name: str) -> Any:
    """Return a node that says its words."""
    return lambda _: {"findings": [WORDS[name]]}


def writer(state: State) -> State:
    """Join what was found."""
    return {"answer": " ".join(state.get("findings", []))}


def is_right(state: State) -> float:
    """Half for the lake, half for its depth."""
    return ("Garda" in state["answer"]) / 2 + ("346" in state["answer"]) / 2


def build_team() -> Any:
    """Return the compiled graph; it needs a checkpointer to be replayed."""
    team = StateGraph(State)
    for name in WORDS:
        team.add_node(name, scout(name))
        team.add_edge(START, name)
    team.add_node("writer", writer)
    team.add_edge([*WORDS], "writer")
    return team.compile(checkpointer=InMemorySaver(), name="lake team")


class _Keeper:
    """An exporter that keeps traces in memory."""

    def __init__(self) -> None:
        self.traces: list[orchtrace.Trace] = []

    def export(self, trace: orchtrace.Trace) -> None:
        """Keep a trace."""
        self.traces.append(trace)

    def amend(self, run_id: str, reward: orchtrace.Reward) -> None:
        """No reward comes late here."""

    def flush(self, timeout_s: float) -> None:
        """There is nothing to wait for."""

    def shutdown(self) -> None:
        """There is nothing to close."""


def main() -> None:
    """Trace one run into orchtrace-data/traces.jsonl, then ask what its messages were worth."""
    keeper, team = _Keeper(), build_team()
    orchtrace.configure(exporters=["jsonl:orchtrace-data/", keeper])
    with orchtrace.instrument("langgraph"):
        team.invoke({"findings": []}, {"configurable": {"thread_id": "1"}})
    orchtrace.flush()
    found = orchtrace.counterfactual(
        keeper.traces[0],
        team.with_config(configurable={"thread_id": "1"}),
        [Slot(name, "writer", 1) for name in WORDS],
        method="shapley",
        score=is_right,
        replays=1,  # nothing here is left to chance
    )
    for effect in found.ranked():
        print(f"{describe(effect.player)}: {effect.value:+.2f}")
    print(f"{found.replays} replays, {sum(found.lost.values())} lost")
    orchtrace.shutdown()


if __name__ == "__main__":
    main()
