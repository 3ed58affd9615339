"""A run of plain code with content: a lead that calls two scouts, and goes on with what they said.

Unlike those of `recorded.py` it is made by the project itself, with a conversation whose
tokens continue one another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orchtrace_otel as orchtrace
from orchtrace_otel import content
from orchtrace_otel.content import Capture, ask
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.model import Trace
from orchtrace_otel.testing import capture

Json = dict[str, Any]


def answered(words: str, prompt_ids: list[int], ids: list[int]) -> Json:
    """What a chat server says that gives tokens."""
    told = [{"token": f"token_id:{one}", "logprob": -one / 100, "top_logprobs": []} for one in ids]
    message = {"role": "assistant", "content": words}
    return {
        "id": f"r-{words}",
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "stop",
                "logprobs": {"content": told},
                "token_ids": ids,
            }
        ],
        "prompt_token_ids": prompt_ids,
        "usage": {"prompt_tokens": len(prompt_ids), "completion_tokens": len(ids)},
    }


def say(messages: list[Json], words: str, prompt_ids: list[int], ids: list[int]) -> str:
    """Make one call."""
    with ask("tiny", messages, parameters={"temperature": 1.0}) as asked:
        asked.answered(answered(words, prompt_ids, ids))
    return words


def nested(folder: Path, *, task: str = "tide", reward: float = 1.0) -> tuple[str, Trace]:
    """Run the team; return its store and its trace.

    The lead's second prompt begins with the tokens of its first call: 1 2 3, then 4 5; the
    scouts' reports are 6 7.
    """
    store = folder / "content"

    @orchtrace.agent("scout", role="executor")
    def scout(where: str) -> str:
        return say([{"role": "user", "content": where}], f"{where}: high", [8, 9], [10, 11])

    @orchtrace.agent("lead", role="planner")
    def lead() -> str:
        asked: list[Json] = [{"role": "user", "content": "How high is the tide?"}]
        plan = say(asked, "ask two", [1, 2, 3], [4, 5])
        reports = [scout("north"), scout("south")]
        asked += [
            {"role": "assistant", "content": plan},
            {"role": "user", "content": "; ".join(reports)},
        ]
        return say(asked, "high", [1, 2, 3, 4, 5, 6, 7], [12, 13])

    @orchtrace.team("tides", task_id=task, reward=lambda _: reward)
    def team() -> str:
        return lead()

    with capture() as captured:
        recorder = set_up(Capture(mode="EVENT_ONLY", store=str(store), redact_defaults=False), None)
        assert recorder is not None
        try:
            team()
            assert recorder.flush(30)
        finally:
            content.use(None)
            recorder.shutdown(10)
    trace = captured.trace
    assert trace is not None
    return str(store), trace
