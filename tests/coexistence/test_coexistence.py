"""Other instrumentations of LangChain beside ours, the real ones, put in before ours and after.

Each needs an environment of its own: `make test-coexistence` makes them.
"""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PEERS = {
    "openinference": "openinference.instrumentation.langchain",
    "traceloop": "opentelemetry.instrumentation.langchain",
    "genai": "opentelemetry.instrumentation.genai.langchain",
}


def _is_here(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


HERE = [peer for peer, module in PEERS.items() if _is_here(module)]
pytestmark = [
    pytest.mark.skipif(not HERE, reason="make test-coexistence runs it, with environments for it"),
]
BOTH = ["ours,theirs", "theirs,ours"]


@functools.cache
def run(peer, order):
    """What came of the scenario under some instrumentations."""
    script = Path(__file__).parent / "scenario.py"
    rooms = os.pathsep.join(str(ROOT / room) for room in (".", "adapters", "exporters"))
    done = subprocess.run(
        [sys.executable, str(script), peer, order],
        env={**os.environ, "PYTHONPATH": rooms},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def spans_of(came, *, ours):
    return [s for s in came["spans"] if (s["tracer"] == "orchtrace_otel") is ours]


def _is_ambient(peer, span):
    """Whether a span has as parent whatever is current, which in a node or a tool is ours.

    OpenInference makes none of its spans current, so a user's span is in ours. Traceloop
    makes a span where a `Command` is made, in the middle of the user's code.
    """
    return (peer == "openinference" and span["tracer"] == "user") or (
        peer == "traceloop" and span["name"].startswith("goto ")
    )


@pytest.mark.parametrize("order", BOTH)
@pytest.mark.parametrize("peer", HERE)
def test_ours_counts_what_it_counts_alone(peer, order):
    """Tokens, tool calls, turns, stops and every agent's events are those without the other."""
    alone, both = run(peer, "ours"), run(peer, order)
    assert alone["tokens"] == [14, 14, 7, 0, 0]
    for what in ("tokens", "tools", "turns", "stops", "flags", "shape"):
        assert both[what] == alone[what]


@pytest.mark.parametrize("order", BOTH)
@pytest.mark.parametrize("peer", HERE)
def test_theirs_are_as_without_ours(peer, order):
    """Names, parents, status and attributes of their spans are the same, and of the user's."""
    alone, both = run(peer, "theirs"), run(peer, order)
    ours = [f"{s['tracer']}/{s['name']}" for s in spans_of(both, ours=True)]
    before, theirs = (
        [dict(s, around=[]) if _is_ambient(peer, s) else s for s in spans_of(came, ours=False)]
        for came in (alone, both)
    )
    assert not any(around in ours for span in theirs for around in span["around"])
    key = functools.partial(json.dumps, sort_keys=True)
    assert sorted(map(key, theirs)) == sorted(map(key, before))


@pytest.mark.parametrize("order", BOTH)
@pytest.mark.parametrize("peer", HERE)
def test_ours_lie_in_ours(peer, order):
    """A turn and a tool call lie right in their activation's span, never in one of theirs."""
    for span in spans_of(run(peer, order), ours=True):
        if span["name"].startswith("invoke_workflow"):
            continue
        nearest = span["around"][0]
        assert nearest.startswith("orchtrace_otel/") or span["name"] == "invoke_agent helper", span


@pytest.mark.parametrize("order", BOTH)
@pytest.mark.parametrize("peer", HERE)
def test_the_host_sees_the_same_and_ours_logs_nothing(peer, order):
    """Results are equal to those without any; what is logged is what they log alone."""
    both = run(peer, order)
    assert both["said"] == run(peer, "none")["said"]
    assert both["logged"] == run(peer, "theirs")["logged"]
    assert not [s for s in spans_of(both, ours=True) if s["status"] == "ERROR"]
