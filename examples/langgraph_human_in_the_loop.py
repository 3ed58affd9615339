"""Trace a pause and what comes of it, across two processes: a person approves a letter.

The first call drafts a letter and stops to ask; the checkpoint is in a SQLite file. The
second call, another process, brings the answer and goes on there:

    python examples/langgraph_human_in_the_loop.py
    python examples/langgraph_human_in_the_loop.py "yes, but shorter"

Two runs, two traces; the second begins with a link to the first. It needs no network and
no key, but `pip install langgraph-checkpoint-sqlite`.
"""

import os
import sys

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace

try:
    from langgraph.checkpoint.sqlite import SqliteSaver
except ImportError as error:
    sys.exit(f"This example needs `pip install langgraph-checkpoint-sqlite`: {error}")

# Another process knows a checkpoint again by a key of ours in its metadata. Since you see
# it there, you have to ask for it; inside one process no key is needed.
os.environ.setdefault("ORCHTRACE_LANGGRAPH_CHECKPOINTS", "linked")


class Letter(TypedDict, total=False):
    """What the graph's nodes share."""

    about: str
    draft: str
    answer: str
    sent: str


def write(state: Letter) -> Letter:
    """Draft the letter; a real one would be a model's."""
    return {"draft": f"Dear council, please build the {state.get('about', 'bridge')}."}


def approve(state: Letter) -> Letter:
    """Ask a person; the run stops here until there is an answer."""
    return {"answer": interrupt({"send this?": state.get("draft", "")})}


def send(state: Letter) -> Letter:
    """Do what the person said."""
    if not state.get("answer", "").startswith("yes"):
        return {"sent": "nothing"}
    return {"sent": state.get("draft", "")}


def build_graph(saver: SqliteSaver) -> CompiledStateGraph:
    """Return the compiled graph; it knows nothing of tracing."""
    graph = StateGraph(Letter)
    graph.add_node("write", write)
    graph.add_node("approve", approve)
    graph.add_node("send", send)
    graph.add_edge(START, "write")
    graph.add_edge("write", "approve")
    graph.add_edge("approve", "send")
    graph.add_edge("send", END)
    return graph.compile(checkpointer=saver, name="letter")


def main(answer: str | None = None) -> None:
    """Ask, or go on with the answer, and write the run's trace to `orchtrace-data/`."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with (
        SqliteSaver.from_conn_string("letters.db") as saver,
        orchtrace.instrument("langgraph"),
    ):
        graph = build_graph(saver)
        thread = {"configurable": {"thread_id": "bridge"}}
        if answer is None:
            graph.invoke({"about": "bridge"}, thread)
            print("Asked. Run it again with an answer in quotes, such as: yes")
        else:
            print("Sent:", graph.invoke(Command(resume=answer), thread)["sent"])
    orchtrace.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:2])
