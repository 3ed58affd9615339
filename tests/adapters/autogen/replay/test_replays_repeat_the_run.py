"""A replay in which all stays as it is gives what the run gave, of random teams whose models do."""

import asyncio
import hashlib
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination, TokenUsageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core import FunctionCall
from autogen_core.models import FunctionExecutionResultMessage
from autogen_core.tools import FunctionTool

import orchtrace_otel as orchtrace
from orchtrace_autogen import Recorded
from orchtrace_autogen._replay import TeamReplayer
from orchtrace_otel.content import Capture, use
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.errors import ReplayBlockedError
from orchtrace_otel.replay import Change, Part, Slot
from tests.adapters.autogen.replay.teams import Cast, Model


def number(*said: object) -> int:
    """Return a number that follows from what was said, in every process."""
    return int(hashlib.sha256(repr(said).encode()).hexdigest()[:8], 16)


@orchtrace.tool(replay_safe=True)
def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def build(seed: int) -> Any:
    """Build a random team; whoever speaks says what follows from all that it read."""
    dice = random.Random(seed)  # noqa: S311 - a seed for a test
    names = [f"agent{at}" for at in range(dice.choice((2, 3, 4)))]
    kind = dice.choice(("turns", "swarm", "selector", "function"))
    others = {name: [n for n in names if n != name] if kind == "swarm" else [] for name in names}
    tools = [FunctionTool(double, "Doubles.", name="double")]
    people = [
        Cast().agent(
            name,
            lambda read, name=name: _answer(read, name, others[name]),
            tools=tools,
            handoffs=others[name],
            reflect_on_tool_use=dice.random() < 0.5,
            max_tool_iterations=dice.choice((1, 3)),
        )
        for name in names
    ]
    limits: dict[str, Any] = {
        "termination_condition": MaxMessageTermination(dice.choice((6, 9)))
        | TokenUsageTermination(max_total_token=dice.choice((8, 12, 99))),
        "max_turns": dice.choice((4, 7)),
    }
    if kind == "turns":
        return RoundRobinGroupChat(people, **limits)
    if kind == "swarm":
        return Swarm(people, **limits)
    if kind == "function":
        limits["selector_func"] = lambda thread: _choose(thread, names)
    model = Model(lambda read: names[number(*map(_words, read)) % len(names)], lambda: None)
    repeats = dice.random() < 0.5
    return SelectorGroupChat(people, model, allow_repeated_speaker=repeats, **limits)


def _words(message: Any) -> tuple[str, str]:
    return type(message).__name__, str(message.content)


def _answer(read: Sequence[Any], name: str, others: list[str]) -> Any:
    said = number(*map(_words, read))
    if isinstance(read[-1], FunctionExecutionResultMessage):
        return f"{name} has {said % 1_000}"
    if others and said % 3 == 0:
        target = others[said % len(others)]
        return [FunctionCall(id=f"h{said}", name=f"transfer_to_{target}", arguments="{}")]
    if said % 4 == 1:
        numbers = range(said % 7, said % 7 + 1 + said % 3 % 2)
        calls = [(str(n), json.dumps({"n": n})) for n in numbers]
        return [FunctionCall(id=one, name="double", arguments=given) for one, given in calls]
    return f"{name} says {said % 1_000}"


def _choose(thread: Sequence[Any], names: list[str]) -> str | None:
    """Choose now and then, and leave the others to the model."""
    said = number(len(thread), thread[-1].to_text())
    return names[said % len(names)] if said % 2 else None


def _told(result: TaskResult) -> list[Any]:
    events = ("ToolCallRequestEvent", "ToolCallExecutionEvent")
    told = [
        (type(one).__name__, one.source, "" if type(one).__name__ in events else str(one.content))
        for one in result.messages
    ]
    return [*told, result.stop_reason]


@pytest.mark.parametrize("is_captured", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_a_replay_of_all_that_was_is_the_run(traced, tmp_path, seed, is_captured) -> None:
    """From whichever turn on it is run anew; managers and limits go on from where they were."""
    if is_captured:
        store = str(tmp_path / "content")
        recorder = set_up(Capture(mode="EVENT_ONLY", store=store), None)

    async def run_and_replay() -> tuple[list[Any], list[list[Any]]]:
        result = await build(seed).run(task="go")
        again: list[list[Any]] = []

        def score(replayed: TaskResult) -> float:
            again.append(_told(replayed))
            return 1.0

        recorded = Recorded(team=lambda: build(seed), messages=result)
        if is_captured:
            recorder.shutdown(5.0)
            use(None)
            recorded = Recorded(team=lambda: build(seed), store=store)
        replayer = TeamReplayer(recorded, traced.trace, score)
        speakers = {one.source for one in result.messages} - {"user"}
        players = [Part("agent", name) for name in sorted(speakers)]
        players += [Slot(name, "broadcast", at) for name in sorted(speakers) for at in (1, 2)]
        for player in players:
            try:
                await replayer.value(Change(anew=frozenset({player})), 0)
            except ReplayBlockedError:
                assert isinstance(player, Slot)  # it spoke less often, or handed over
        return _told(result), again

    try:
        told, again = asyncio.run(run_and_replay())
    finally:
        use(None)
    assert again
    assert all(one == told for one in again)
