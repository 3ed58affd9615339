"""Random teams of every kind, in and behind each other."""

import asyncio
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import autogen_agentchat
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import DiGraphBuilder
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, RequestUsage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace
from tests.adapters.autogen.noted_turns import CalledFloor, Floor, FlowFloor, Link, Nobody, Record
from tests.adapters.autogen.noting_teams import (
    Actor,
    Assistant,
    NotedFlow,
    NotedMagentic,
    NotedRoundRobin,
    NotedSelector,
    NotedSwarm,
    Society,
)

NESTS = not autogen_agentchat.__version__.startswith("0.6")
"""Whether a team may take part in a team."""

WORDS = ("yes", "no")
MODEL = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "structured_output": False,
    "family": ModelFamily.UNKNOWN,
}


class Client(ReplayChatCompletionClient):
    """A model that answers as `answer` says, after a while."""

    def __init__(self, answer: Callable[[Any], CreateResult], wait: Callable[[], Any]) -> None:
        super().__init__([], model_info=MODEL)
        self._answer = answer
        self._wait = wait

    async def create(self, messages, **kwargs) -> CreateResult:
        await self._wait()
        return self._answer(messages)


def _result(content: str | list[FunctionCall]) -> CreateResult:
    usage = RequestUsage(prompt_tokens=3, completion_tokens=2)
    reason = "stop" if isinstance(content, str) else "function_calls"
    return CreateResult(finish_reason=reason, content=content, usage=usage, cached=False)


class Builder:
    """Builds one random team.

    Args:
        seed: What it is drawn from.
        kind: The kind of the outermost team, one of `KINDS`.
        depth: At which depth of nesting it begins; from 2 on nothing is nested.
        runtime: What the outermost team runs on; its own unless given.
    """

    def __init__(self, seed: int, kind: str, depth: int = 0, runtime: Any = None) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a seed for a test
        self.seed = seed
        self.runtime = runtime
        self.record = Record()
        self._numbers = itertools.count(1)
        self.kinds: Counter[str] = Counter()
        self.team = self._team(kind, depth, Nobody(self.record, ""))

    def _name(self, letter: str) -> str:
        return f"{letter}{self.seed}_{next(self._numbers)}"

    async def _wait(self) -> None:
        for _ in range(self.rng.choice((0, 0, 1, 2, 5, 13))):
            await asyncio.sleep(0)

    def _team(self, kind: str, depth: int, around: Floor) -> Any:
        self.kinds[f"{kind} at depth {depth}"] += 1
        name = self._name("t")
        team, own = getattr(self, f"_{kind}")(name, depth)
        team.around, team.own, team.label = around, own, name
        # Before 0.7 teams had no names.
        return orchtrace.agent(team, name=name)

    def _named(self, name: str, depth: int) -> dict[str, Any]:
        given: dict[str, Any] = {"runtime": self.runtime} if depth == 0 else {}
        return given | ({"name": name} if NESTS else {})

    def _round_robin(self, name: str, depth: int) -> tuple[Any, Floor]:
        floor = Floor(self.record, name)
        people = self._people(floor, depth, may_be_teams=NESTS)
        return NotedRoundRobin(people, **self._named(name, depth), **self._limits()), floor

    def _selector(self, name: str, depth: int) -> tuple[Any, Floor]:
        floor = Floor(self.record, name)
        people = self._people(floor, depth, may_be_teams=NESTS)
        names = [person.name for person in people]
        is_scripted = self.rng.random() < 0.5
        last = [""]

        def choose(_: Any) -> str:
            """Choose; a team that speaks twice in a row fails, for want of a task."""
            last[0] = self.rng.choice([n for n in names if n != last[0]] or names)
            return last[0]

        team = NotedSelector(
            people,
            model_client=Client(lambda messages: _result(choose(messages)), self._wait),
            selector_func=None if is_scripted else choose,
            allow_repeated_speaker=True,
            **self._named(name, depth),
            **self._limits(),
        )
        return team, floor

    def _swarm(self, name: str, depth: int) -> tuple[Any, Floor]:
        floor = Floor(self.record, name)
        names = [self._name("p") for _ in range(self.rng.randint(2, 4))]
        people = [self._swimmer(floor, own, names) for own in names]
        return NotedSwarm(people, **self._named(name, depth), **self._limits()), floor

    def _swimmer(self, floor: Floor, name: str, names: list[str]) -> Any:
        others = [other for other in names if other != name]
        if self.rng.random() < 0.4:
            calls = itertools.count()

            def transfers(_: Any) -> CreateResult:
                if self.rng.random() < 0.4:
                    return _result("mine")
                self.record.tools[self.record.now[name]] += 1
                tool = f"transfer_to_{self.rng.choice(others)}"
                return _result([FunctionCall(f"{name}-{next(calls)}", "{}", tool)])

            agent = Assistant(name, model_client=Client(transfers, self._wait), handoffs=others)
            agent.floor = floor
            return agent

        async def act() -> Any:
            await self._wait()
            if self.rng.random() < 0.4:
                return "mine"
            return HandoffMessage(content="yours", source=name, target=self.rng.choice(others))

        return Actor(name, floor, act)

    def _flow(self, name: str, depth: int) -> tuple[Any, Floor]:
        while True:
            people_names = [self._name("p") for _ in range(self.rng.randint(3, 6))]
            links = self._links(people_names)
            floor = FlowFloor(self.record, name, links, people_names[0])
            people = [self._person(floor, depth, own) for own in people_names]
            graph = DiGraphBuilder()
            for person in people:
                graph.add_node(person)
            for link in links:
                graph.add_edge(
                    link.source,
                    link.target,
                    condition=link.word,
                    activation_group=link.group,
                    activation_condition="any" if link.is_any else "all",
                )
            graph.set_entry_point(people[0])
            try:
                built = graph.build()
                built.graph_validate()
            except ValueError:
                continue
            limit = MaxMessageTermination(self.rng.randint(8, 18))
            return (
                NotedFlow(people, built, termination_condition=limit, **self._named(name, depth)),
                floor,
            )

    def _links(self, names: list[str]) -> list[Link]:
        """Draw edges: each node has one from before it, some more, some lead back."""
        pairs: set[tuple[str, str]] = set()
        for n, name in enumerate(names[1:], 1):
            pairs.add((self.rng.choice(names[:n]), name))
            pairs |= {(other, name) for other in names[:n] if self.rng.random() < 0.25}
        back = [(b, a) for n, a in enumerate(names) for b in names[n + 1 : -1]]
        pairs |= {pair for pair in back if self.rng.random() < 0.12}
        turning = {source for source, target in pairs if names.index(target) < names.index(source)}
        choosy = turning | {name for name in names if self.rng.random() < 0.2}
        kinds = {}
        links = []
        for source, target in sorted(pairs):
            is_back = names.index(target) < names.index(source)
            group = f"{target}-{'back' if is_back else self.rng.choice('12')}"
            is_any = kinds.setdefault((target, group), self.rng.random() < 0.4)
            word = self.rng.choice(WORDS) if source in choosy else None
            links.append(Link(source, target, word, group, is_any))
        return links

    def _magentic(self, name: str, depth: int) -> tuple[Any, Floor]:
        floor = Floor(self.record, name)
        people = [self._person(floor, depth) for _ in range(self.rng.randint(1, 3))]
        names = [person.name for person in people]

        def answers(messages: Any) -> CreateResult:
            if "is_request_satisfied" not in messages[-1].content:
                return _result("words")
            if self.rng.random() < 0.1:
                return _result("no ledger at all")
            ledger = {
                "is_request_satisfied": self.rng.random() < 0.15,
                "is_in_loop": self.rng.random() < 0.3,
                "is_progress_being_made": self.rng.random() < 0.7,
                "next_speaker": self.rng.choice(names),
                "instruction_or_question": "go on",
            }
            return _result(
                json.dumps({k: {"answer": v, "reason": "so"} for k, v in ledger.items()})
            )

        team = NotedMagentic(
            people,
            model_client=Client(answers, self._wait),
            max_turns=self.rng.randint(2, 7),
            max_stalls=2,
            **self._named(name, depth),
        )
        return team, floor

    def _limits(self) -> dict[str, Any]:
        if self.rng.random() < 0.5:
            return {"max_turns": self.rng.randint(1, 6)}
        return {"termination_condition": MaxMessageTermination(self.rng.randint(3, 9))}

    def _people(self, floor: Floor, depth: int, *, may_be_teams: bool) -> list[Any]:
        people = []
        for _ in range(self.rng.randint(2, 4)):
            if may_be_teams and depth < 2 and self.rng.random() < 0.25:
                people.append(self._team(self.rng.choice(INNER), depth + 1, floor))
            else:
                people.append(self._person(floor, depth))
        return people

    def _person(self, floor: Floor, depth: int, name: str | None = None) -> Any:
        name = name or self._name("p")
        drawn = self.rng.random()
        if depth < 2 and drawn < 0.12:
            mind = Society(
                name,
                team=self._team(self.rng.choice(INNER), depth + 1, CalledFloor(self.record, name)),
                model_client=Client(lambda _: _result(self.rng.choice(WORDS)), self._wait),
            )
            mind.floor = floor
            return mind
        if drawn < 0.4:
            return self._assistant(floor, depth, name)

        async def act() -> str:
            await self._wait()
            return self.rng.choice(WORDS)

        return Actor(name, floor, act)

    def _assistant(self, floor: Floor, depth: int, name: str) -> Any:
        """Return an agent that calls tools, one of which may be an agent or a team."""
        calls = itertools.count()

        async def look() -> str:
            """Look."""
            await self._wait()
            self.record.tools[self.record.now[name]] += 1
            return "seen"

        tools: list[Any] = [FunctionTool(look, name="look", description="look")]
        behind = self._behind_tool(name, depth) if depth < 2 and self.rng.random() < 0.4 else None
        if behind is not None:
            tools.append(behind)

        def answers(messages: Any) -> CreateResult:
            if self.rng.random() < 0.4:
                return _result(self.rng.choice(WORDS))
            wanted = ["look"] * self.rng.randint(1, 3)
            asked = '{"task": "go"}'
            content = [FunctionCall(f"{name}-{next(calls)}", "{}", tool) for tool in wanted]
            if behind is not None and self.rng.random() < 0.7:
                self.record.tools[self.record.now[name]] += 1
                content.append(FunctionCall(f"{name}-{next(calls)}", asked, behind.name))
            return _result(content)

        agent = Assistant(
            name,
            model_client=Client(answers, self._wait),
            tools=tools,
            max_tool_iterations=self.rng.randint(1, 3),
        )
        agent.floor = floor
        return agent

    def _behind_tool(self, caller: str, depth: int) -> Any:
        around = CalledFloor(self.record, caller)
        if self.rng.random() < 0.5:
            return AgentTool(self._person(around, depth + 1))
        team = self._team(self.rng.choice(KINDS), depth + 1, around)
        return TeamTool(team, name=f"ask_{team.label}", description="ask")


KINDS = ("round_robin", "selector", "swarm", "flow", "magentic")
INNER = ("round_robin", "selector", "flow", "magentic")
"""Kinds inside other teams: a swarm refuses to start from other swarms' hand-offs."""


def seeds(count: int) -> Iterator[tuple[int, str]]:
    """Yield a seed and a kind for each of so many teams; each kind equally often."""
    return zip(range(count), itertools.cycle(KINDS), strict=False)
