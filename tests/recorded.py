"""Runs with content, made by hand, for tests of data sets: what a team would have left behind.

`Recorder` writes a content store and builds traces whose calls refer to it. `siblings` is
the case that others collapse: parallel agents with identical prompts, interleaved. `many`
makes any number of runs of any number of tasks.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from orchtrace_otel.content.segments import document_line, use_line
from orchtrace_otel.content.tokens import Tokens
from orchtrace_otel.content.turn import turn_document
from orchtrace_otel.model import Edge, Event, Reward, Trace, Turn
from orchtrace_otel.schema import dump

Json = dict[str, Any]
START = 1_795_988_434_000_000_000
LOOK = {
    "type": "function",
    "name": "look",
    "description": "Look something up.",
    "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
}


def text(role: str, content: str) -> Json:
    """A message of one text."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def tokens(words: str, *, offset: int = 0, logprobs: bool = True) -> Tokens:
    """Exact tokens of a completion: one a word, so that tests can count them."""
    ids = tuple(range(10 + offset, 10 + offset + len(words.split())))
    return Tokens(
        provenance="exact",
        prompt_ids=(1, 2, 3),
        ids=ids,
        logprobs=tuple(-0.5 for _ in ids) if logprobs else (),
        logprobs_kind="raw" if logprobs else "unknown",
        mask=tuple(1 for _ in ids),
        tokenizer="words",
        chat_template="0" * 64,
    )


@dataclass
class Call:
    """One LLM call to be recorded."""

    agent: str
    prompt: Sequence[Json]
    completion: Sequence[Json]
    role: str | None = None
    instance: str | None = None
    tools: Sequence[Json] = ()
    tokens: Tokens = field(default_factory=Tokens)
    t: float = 1.0
    model: str = "fake-1"
    policy_version: str | None = None
    finish_reason: str = "stop"
    reward: float | None = None
    with_content: bool = True
    flags: Sequence[str] = ()


class Recorder:
    """Writes content as a process would, into one segment of a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = folder / "content"
        (self.store / "segments").mkdir(parents=True, exist_ok=True)
        self._segment = self.store / "segments" / "000001-test"
        self._known: set[str] = set()

    def _put(self, kind: str, body: object) -> tuple[str, bytes]:
        data = orjson.dumps(body)
        ref = hashlib.sha256(kind.encode() + data).hexdigest()[:32]
        return ref, document_line(kind, ref, data)

    def turn(self, run_id: str, turn_id: str, call: Call) -> str:
        """Write what a call said; return its ref."""
        lines: dict[str, bytes] = {}

        def put(kind: str, body: object) -> str:
            ref, line = self._put(kind, body)
            lines[ref] = line
            return ref

        prompt = [put("message", message) for message in call.prompt]
        completion = [put("message", message) for message in call.completion]
        document = turn_document(
            {
                "run_id": run_id,
                "turn_id": turn_id,
                "model": call.model,
                "response_model": call.model,
                "provider": "fake",
                "policy_version": call.policy_version,
                "response_id": f"resp-{turn_id}",
                "reasoning": "none",
            },
            prompt=put("prompt", {"messages": prompt}),
            completion=completion,
            tools=put("tools", {"tools": list(call.tools)}) if call.tools else None,
            parameters={"temperature": 0.7},
            finish_reasons=[call.finish_reason],
            tokens=call.tokens,
            flags=call.flags,
        )
        ref = put("turn", document)
        with self._segment.open("ab") as segment:
            segment.write(use_line(run_id, lines))
            for name, line in lines.items():
                if name not in self._known:
                    segment.write(line)
        self._known |= lines.keys()
        return ref

    def run(  # noqa: PLR0913
        self,
        number: int,
        calls: Sequence[Call],
        *,
        task: str | None = None,
        reward: float | None = None,
        component: str = "task",
        rewards: Sequence[Reward] = (),
        decisions: Sequence[Json] = (),
        stop_reason: str = "information_complete",
        topology: str = "centralized",
        revision: int = 0,
        weight: float | None = None,
    ) -> Trace:
        """Build a run: the lead spawns each agent, each makes its calls, the lead stops."""
        root = f"{number:08x}00000000"
        run_id = f"{number:032x}-{root}"
        events = [
            Event(
                f"{root}.open",
                0.0,
                "message",
                "user",
                {
                    "verb": "begin",
                    "start_unix_nano": START + number * 10**9,
                    "from": "user",
                    "to": "lead",
                    "activation": root,
                    "instance": "lead#1",
                    "status": "ok",
                    **({} if weight is None else {"weight": weight}),
                },
            )
        ]
        edges: list[Edge] = []
        turns: list[Turn] = []
        given: list[Reward] = list(rewards)
        if reward is not None:
            given.append(Reward(id=f"{run_id}-outcome", component=component, value=reward))
        for place, call in enumerate(calls, 1):
            span, turn_id = f"{number:08x}{place:08x}", f"{number:08x}{place + 4096:08x}"
            instance = call.instance or f"{call.agent}#{place}"
            role = {} if call.role is None else {"role": call.role}
            common = {"activation": span, "instance": instance, "status": "ok", **role}
            events.append(
                Event(
                    f"{span}.open",
                    call.t,
                    "spawn",
                    "lead",
                    {
                        "verb": "spawn",
                        "decision": "O1",
                        "to": call.agent,
                        "parent": root,
                        **common,
                    },
                )
            )
            edges.append(Edge(f"{root}.open", f"{span}.open", "spawn"))
            events.append(
                Event(
                    f"{span}.close",
                    call.t + 0.5,
                    "return",
                    call.agent,
                    {
                        "verb": "return",
                        "from": call.agent,
                        "to": "lead",
                        "tokens": 12,
                        "turns": [turn_id],
                        **common,
                    },
                )
            )
            edges.append(Edge(f"{span}.open", f"{span}.close", "causal"))
            if call.reward is not None:
                given.append(
                    Reward(
                        id=f"{turn_id}-own",
                        component=component,
                        value=call.reward,
                        unit="turn",
                        target=turn_id,
                        family="R4",
                    )
                )
            turns.append(
                Turn(
                    id=turn_id,
                    activation=span,
                    agent=call.agent,
                    instance=instance,
                    t=call.t + 0.1,
                    duration_s=0.3,
                    model=call.model,
                    provider="fake",
                    input_tokens=8,
                    output_tokens=4,
                    finish_reason=call.finish_reason,
                    status="ok",
                    event=f"{span}.close",
                    content_ref=self.turn(run_id, turn_id, call) if call.with_content else None,
                    policy_version=call.policy_version,
                )
            )
        end = max([0.0, *(event.t for event in events)]) + 1
        for place, keys in enumerate(decisions):
            events.append(
                Event(
                    f"{number:08x}{place + 8192:08x}",
                    end,
                    "orchestrator_decision",
                    "lead",
                    {
                        "verb": "decide",
                        "activation": root,
                        "instance": "lead#1",
                        "status": "ok",
                        **keys,
                    },
                )
            )
            end += 0.5
        events.sort(key=lambda event: event.t)
        stop = f"{number:08x}{0xFFFFFFFF:08x}"
        events.append(
            Event(
                stop,
                end,
                "orchestrator_decision",
                "lead",
                {
                    "verb": "stop",
                    "decision": "O5",
                    "activation": root,
                    "instance": "lead#1",
                    "status": "ok",
                    "stop_reason": stop_reason,
                    "revision": revision,
                    "flags": [],
                    "turn_records": [turn.to_dict() for turn in turns],
                    "reward_records": [one.to_dict() for one in given],
                },
            )
        )
        return Trace(
            run_id,
            run_id if task is None else task,
            tuple(events),
            tuple(edges),
            {one.component: one.value for one in given if one.unit == "team"},
            {"tokens": 12 * len(calls), "wall_clock_s": end, "tool_calls": 0, "messages": 0},
            "python",
            topology,
            {},
        )


def write(folder: Path, traces: Sequence[Trace], name: str = "traces.jsonl") -> Path:
    """Write traces as `jsonl:` does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("ab") as lines:
        for trace in traces:
            lines.write(dump(trace) + b"\n")
    return folder


def siblings(recorder: Recorder, number: int = 1) -> Trace:
    """Three parallel agents of one name with one prompt, interleaved, each with its own reward."""
    prompt = [text("user", "How high is the tide?")]
    calls = [
        Call(
            "scout",
            prompt,
            [text("assistant", f"answer {place}")],
            role="executor",
            instance=f"scout#{place}",
            t=1.0 + place / 10,
            reward=place / 2,
            tokens=tokens("an answer", offset=place),
        )
        for place in range(3)
    ]
    return recorder.run(number, calls, task="tide", reward=1.0)


_WORDS = (
    *("harbour", "tide", "bread", "lantern", "copper", "bridge", "winter", "orchard", "signal"),
    *("ferry", "violin", "chapel", "meadow", "granite", "compass", "candle", "thunder", "garden"),
    *("window", "river", "mountain", "story", "letter", "engine", "pocket"),
)


def many(
    recorder: Recorder, runs: int, *, tasks: int = 50, seed: int = 7, calls: int = 3
) -> list[Trace]:
    """Runs of several tasks: planner, worker, critic; token ids, tools, rewards that differ."""
    draw = random.Random(seed)  # noqa: S311 - made-up words
    asked = [" ".join(draw.choices(_WORDS, k=14)) for _ in range(tasks)]
    made: list[Trace] = []
    for number in range(1, runs + 1):
        task = number % tasks
        said = [" ".join(draw.choices(_WORDS, k=draw.randint(3, 9))) for _ in range(calls)]
        made.append(
            recorder.run(
                number,
                [
                    Call(
                        ("planner", "worker", "critic")[place % 3],
                        [text("system", "You are careful."), text("user", asked[task])],
                        [text("assistant", words)],
                        role=("planner", "executor", "critic")[place % 3],
                        tools=[LOOK] if place % 3 == 1 else (),
                        t=1.0 + place,
                        tokens=tokens(words),
                        policy_version=f"step-{number % 4}",
                    )
                    for place, words in enumerate(said)
                ],
                task=f"task-{task}",
                reward=round(draw.random(), 3),
                decisions=[
                    {
                        "name": "route",
                        "chosen": "publish",
                        "candidates": ["publish", "revise"],
                        "features": {"drafts": place},
                        "behavior_prob": 0.5,
                    }
                    for place in range(2)
                ],
            )
        )
    return made
