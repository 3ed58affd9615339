"""The runs that every trainer gets: made by hand, the demo's, and a thousand of a made-up team."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.datasets import Job, Report, export
from tests.recorded import LOOK, Call, Recorder, many, siblings, text, tokens, write

DEMO = os.environ.get("ORCHTRACE_DEMO")
"""Folder of the demo's `traces` and `content`; `make test-trainers` makes it."""


@dataclass(frozen=True)
class Source:
    """Some runs: where their traces and their content are, and the reward that labels them."""

    traces: Path
    content: Path
    reward: str | None = None

    def export(self, name: str, out: Path, **choices: Any) -> Report:
        """Make a data set of all of them, in one split."""
        job = Job(
            **{
                "format": name,
                "content": str(self.content),
                "reward": self.reward,
                "validation": 0.0,
                **choices,
            }
        )
        return export(job, [str(self.traces)], out)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    """Each kind of runs by its name."""
    by_hand = Recorder(tmp_path_factory.mktemp("by_hand"))
    thousand = Recorder(tmp_path_factory.mktemp("thousand"))
    runs = [siblings(by_hand, 1), siblings(by_hand, 2), *_tool_users(by_hand)]
    found = {
        "by hand": Source(write(by_hand.folder / "traces", runs), by_hand.store),
        "thousand": Source(
            write(thousand.folder / "traces", many(thousand, 1_000)), thousand.store
        ),
    }
    if DEMO is not None:
        # Only one of its teams has a reward that somebody gave; what is computed is there for all.
        found["demo"] = Source(Path(DEMO, "traces"), Path(DEMO, "content"), "r_finish")
    return found


def _with_forced(sampled: Tokens) -> Tokens:
    """Tokens of which the server forced the second."""
    return replace(sampled, mask=(1, 0, *sampled.mask[2:]))


def _tool_users(recorder: Recorder) -> list[Any]:
    """Four runs of one task that called a tool and then answered, well and badly."""
    asked = [text("system", "You look things up."), text("user", "How high is the tide?")]
    look = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"what": "tide"}}
    seen = {"type": "tool_call_response", "id": "c1", "response": "3 m"}
    calling = {"role": "assistant", "parts": [look]}
    read = [*asked, calling, {"role": "tool", "parts": [seen]}]
    return [
        recorder.run(
            number,
            [
                Call("scout", asked, [calling], tools=[LOOK], t=1.0, tokens=tokens("look tide")),
                Call(
                    "scout",
                    read,
                    [text("assistant", answer)],
                    tools=[LOOK],
                    t=2.0,
                    tokens=_with_forced(tokens(answer)),
                    policy_version="step-7",
                ),
            ],
            task="the tide, looked up",
            reward=reward,
        )
        for number, (answer, reward) in enumerate(
            [("Three metres.", 1.0), ("Two metres!", 0.0), ("It is 3 m.", 0.9), ("Ten feet?", 0.2)],
            start=11,
        )
    ]
