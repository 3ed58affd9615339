"""`opentelemetry-instrument python app.py` traces an application that knows nothing of us."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from orchtrace_otel.model import Trace

LANGGRAPH = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    text: str

graph = StateGraph(State)
graph.add_node("writer", lambda state: {"text": state["text"] + "!"})
graph.add_edge(START, "writer")
graph.add_edge("writer", END)
print(graph.compile().invoke({"text": "hi"})["text"])
"""

AUTOGEN = """
import asyncio
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

model = ReplayChatCompletionClient(["hi!"])
team = RoundRobinGroupChat(
    [AssistantAgent("writer", model)], termination_condition=MaxMessageTermination(2)
)
print(asyncio.run(team.run(task="hi")).messages[-1].content)
"""


@pytest.mark.parametrize(("app", "system"), [(LANGGRAPH, "langgraph"), (AUTOGEN, "autogen")])
def test_application_without_a_line_of_ours_is_traced(
    tmp_path: Path, app: str, system: str
) -> None:
    """Its output is its own, and one trace of its team stands in the folder."""
    pytest.importorskip("langgraph" if system == "langgraph" else "autogen_agentchat")
    (tmp_path / "app.py").write_text(textwrap.dedent(app))
    done = subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "app.py"],
        cwd=tmp_path,
        env=os.environ
        | {
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "ORCHTRACE_EXPORTERS": "jsonl:traces",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hi!\n"), done.stderr
    assert "orchtrace" not in done.stderr
    assert "already instrumented" not in done.stderr
    (line,) = (tmp_path / "traces" / "traces.jsonl").read_text().splitlines()
    trace = Trace.from_json(line)
    assert trace.system == system
    assert "writer" in {event.agent for event in trace.events}


def test_a_wrong_setting_costs_the_traces_not_the_application(tmp_path: Path) -> None:
    """Whoever starts us without a line of code gets one line that says what is wrong."""
    (tmp_path / "app.py").write_text("print('hi!')\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "app.py"],
        cwd=tmp_path,
        env=os.environ
        | {
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "ORCHTRACE_MAX_SPANS": "many",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hi!\n")
    assert "orchtrace traces nothing: ORCHTRACE_MAX_SPANS must be a whole number" in done.stderr
    assert "Traceback" not in done.stderr
