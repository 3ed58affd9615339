"""Graphs that LangGraph's own server runs are traced like others, and it sees what it saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("langgraph_api", reason="the server is heavy: `make test-server` installs it")

from langgraph_sdk import get_sync_client

from orchtrace_otel.model import Trace
from tests.collecting import free_port
from tests.trees import tree

APP = Path(__file__).with_name("app.py")
PATIENCE = 60


class Server(NamedTuple):
    client: Any
    traces: Path
    log: Path

    def wait_for(self, team: str, count: int) -> list[Trace]:
        """The traces of one graph, once there are so many."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            lines = self.traces.read_text().splitlines() if self.traces.exists() else []
            traces = [
                trace for trace in map(Trace.from_json, lines) if trace.events[0]["to"] == team
            ]
            if len(traces) >= count:
                return traces
            time.sleep(0.1)
        pytest.fail(f"{count} traces were expected\n{self.log.read_text()}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in its development form, which raises where code blocks its event loop."""
    folder = tmp_path_factory.mktemp("server")
    graphs = {name: f"{APP}:{name}" for name in ("reviewed", "refused")}
    project = {"dependencies": ["."], "graphs": graphs}
    (folder / "langgraph.json").write_text(json.dumps(project))
    port = free_port()
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    env = {
        **os.environ,
        "ORCHTRACE_EXPORTERS": f"jsonl:{folder / 'traces'}/",
        "ORCHTRACE_STORE": str(folder / "content"),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY",
    }
    log = folder / "log"
    with log.open("w") as sink:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env=env, stdout=sink, stderr=sink
        )
        try:
            with get_sync_client(url=f"http://127.0.0.1:{port}") as client:
                _wait_until_up(client, log)
                yield Server(client, folder / "traces" / "traces.jsonl", log)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def steady(trace: Trace) -> str:
    """The tree of a trace in which workers come back in the order in which they began."""
    workers = [line for line in tree(trace).splitlines() if line.startswith("  worker#")]
    closes = sorted(line for line in workers if line.endswith(".close"))
    back = iter(closes)
    return "\n".join(next(back) if line in closes else line for line in tree(trace).splitlines())


def _wait_until_up(client: Any, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            client.assistants.search()
        except Exception:  # noqa: BLE001 - of whatever kind it is until it listens
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"the server does not answer\n{log.read_text()}")


PAUSED = """\
reviewed#1 begin
  plan#1 spawn < causal reviewed#1.open
  plan#1.close
  decide share_out ['worker'] ['worker'] < causal plan#1.close
  worker#1 spawn < message plan#1.close, spawn decide
  worker#2 spawn < message plan#1.close, spawn decide
  worker#3 spawn < message plan#1.close, spawn decide
  worker#1.close
  worker#2.close
  worker#3.close
  aggregate < aggregate worker#1.close, aggregate worker#2.close, aggregate worker#3.close
  merge#1 spawn < causal aggregate, {merged}
  merge#1.close
  review#1 spawn < causal merge#1.close, message merge#1.close, {merged}
    human_intervention to user interrupt < causal review#1.open
  review#1.close [paused] < causal human_intervention
  stop paused langgraph.errors.GraphInterrupt [paused] < return review#1.close""".format(
    merged="message plan#1.close, message worker#1.close, message worker#2.close, "
    "message worker#3.close"
)

RESUMED = """\
reviewed#1 begin
  human_intervention resume < causal reviewed#1.open
  review#1 spawn < causal human_intervention
  review#1.close
  stop information_complete < return review#1.close"""

REFUSED = """\
refused#1 begin
  refuse#1 spawn < causal refused#1.open
  refuse#1.close ValueError [error]
  stop error ValueError ValueError [error] < return refuse#1.close"""


def test_a_run_that_pauses_and_its_resumed_one_are_two_linked_traces(server: Server) -> None:
    """All modes at once stream as ever; the second run says which one it goes on from."""
    threads, runs = server.client.threads, server.client.runs
    thread = threads.create()["thread_id"]
    modes = ["values", "updates", "debug", "messages-tuple", "custom"]
    seen = [
        chunk.event
        for chunk in runs.stream(thread, "reviewed", input={"topic": " a "}, stream_mode=modes)
    ]
    assert {"values", "updates", "debug"} <= set(seen)
    assert threads.get_state(thread)["next"] == ["review"]
    found = runs.wait(thread, "reviewed", command={"resume": "yes"})
    assert (found["answer"], found["approved"]) == ("A 0, A 1, A 2", "yes")
    paused, resumed = server.wait_for("reviewed", 2)
    assert steady(paused) == PAUSED
    assert tree(resumed) == RESUMED
    stop = {"run": paused.trace_id, "event": paused.events[-1].id}
    assert resumed.events[0]["links"] == [stop]
    assert resumed.task_id == paused.task_id


def test_an_error_reaches_the_caller_and_the_trace(server: Server) -> None:
    """The server tells the error of the node; its name alone is in the trace."""
    thread = server.client.threads.create()["thread_id"]
    with pytest.raises(Exception, match="ValueError: not this"):
        server.client.runs.wait(thread, "refused", input={"topic": "not this"})
    (trace,) = server.wait_for("refused", 1)
    assert tree(trace) == REFUSED
    assert "not this" not in trace.to_json()


def test_the_server_has_nothing_to_say_of_us(server: Server) -> None:
    """No call of ours blocks its event loop, and nothing of ours is logged as wrong."""
    server.wait_for("reviewed", 1)
    lines = server.log.read_text().splitlines()
    assert any("Starting" in line for line in lines)
    assert [line for line in lines if "Blocking" in line] == []
    assert [line for line in lines if "orchtrace_otel" in line and "warning" in line] == []
