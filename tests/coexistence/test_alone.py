"""Runs that another instrumentation of LangChain alone traced, the real ones, as we read them.

Each needs an environment of its own: `make test-coexistence` makes them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.coexistence.test_coexistence import HERE, ROOT

pytestmark = [
    pytest.mark.skipif(not HERE, reason="make test-coexistence runs it, with environments for it"),
]

WHOLE = {
    "agents": ["alice", "join", "left", "model", "plan", "right", "tools"],
    "after": [
        ["left", "join"],
        ["model", "tools"],
        ["plan", "left"],
        ["plan", "right"],
        ["right", "join"],
        ["tools", "model"],
    ],
}
BRANCHES = {
    "openinference": WHOLE,
    "traceloop": WHOLE,
    "genai": {"agents": ["alice"], "after": []},  # it records no nodes
}
PAUSED = {
    "openinference": {"agents": ["ask"], "stop": "paused"},
    "traceloop": {"agents": ["ask"], "stop": "paused"},
    "genai": {"agents": [], "stop": "information_complete"},  # and no interrupts
}


@pytest.mark.parametrize("peer", HERE)
def test_what_an_instrumentation_saw_is_the_run(peer):
    """Agents, tools, tokens, the fan-in and the pause, as far as it records them; no flags."""
    rooms = os.pathsep.join(str(ROOT / room) for room in (".", "adapters", "exporters"))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("alone.py")), peer],
        env={**os.environ, "PYTHONPATH": rooms},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sound = {"flags": [], "faults": []}
    assert json.loads(done.stdout)["runs"] == {
        "branches": {
            **BRANCHES[peer],
            **sound,
            "tools": ["add"],
            "tokens": 14,
            "turns": 2,
            "stop": "information_complete",
        },
        "pausing": {
            **PAUSED[peer],
            **sound,
            "tools": [],
            "tokens": 0,
            "turns": 0,
            "after": [],
        },
    }
