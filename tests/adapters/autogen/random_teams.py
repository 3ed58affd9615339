"""Random teams of every kind, and the record that their participants keep themselves.

A participant notes when it was asked and when it answered, a team when its stream
begins and ends: who triggered whom follows from that alone, by the rules of each kind of
team written down once more here. Nothing of the adapter is looked at.
"""

import asyncio
import itertools
import json
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import autogen_agentchat
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, SocietyOfMindAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import HandoffMessage, TextMessage
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import CreateResult, ModelFamily, RequestUsage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace

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


class Turn(NamedTuple):
    """The how-many-th turn of a participant or team it is."""

    name: str
    number: int


Turns = frozenset[Turn]


class Record:
    """What the participants of one run noted.

    Attributes:
        triggers: Whose answers, or whose call, led to each turn.
        informants: Whose messages a participant read in each turn.
        tools: How many tool calls were made in each turn.
        said: The turn in which each message was said, by its id.
        now: The turn that each participant is in, or was in last.
    """

    def __init__(self) -> None:
        self.triggers: dict[Turn, Turns] = {}
        self.informants: dict[Turn, Turns] = {}
        self.tools: Counter[Turn] = Counter()
        self.said: dict[str, Turn] = {}
        self.now: dict[str, Turn] = {}

    def begin(self, name: str) -> Turn:
        """Begin the next turn of `name`."""
        last = self.now.get(name)
        turn = self.now[name] = Turn(name, 1 if last is None else last.number + 1)
        return turn

    def read(self, turn: Turn, messages: Sequence[Any]) -> None:
        """Note what was read; what the user or an orchestrator said has no turn."""
        known = (self.said.get(message.id) for message in messages)
        self.informants[turn] = frozenset(said for said in known if said is not None)


class Floor:
    """Where the participants of one team speak, one after the other."""

    def __init__(self, record: Record, team: str) -> None:
        self.record = record
        self.team = team
        self.answered: list[tuple[Turn, str]] = []

    def causes(self, turn: Turn) -> Turns:
        """Return who triggers the turn that begins now: the latest answer, else the team."""
        return frozenset({self.answered[-1][0] if self.answered else self.record.now[self.team]})

    def restart(self) -> None:
        """Forget the answers: the team runs again."""
        self.answered.clear()

    def forget(self) -> None:
        """Begin anew: the team was reset."""
        self.answered.clear()

    def ask(self, name: str, messages: Sequence[Any] = ()) -> Turn:
        """Note that a participant was asked."""
        turn = self.record.begin(name)
        self.record.triggers[turn] = self.causes(turn)
        self.record.read(turn, messages)
        return turn

    def answer(self, turn: Turn, text: str, message_id: str | None = None) -> None:
        """Note that it answered."""
        self.answered.append((turn, text))
        if message_id is not None:
            self.record.said[message_id] = turn


class Link(NamedTuple):
    """An edge of a flow, as the test drew it."""

    source: str
    target: str
    word: str | None
    group: str
    is_any: bool


class FlowFloor(Floor):
    """Where the participants of a flow speak: the flow's rules say who releases whom."""

    def __init__(self, record: Record, team: str, links: Sequence[Link], start: str) -> None:
        super().__init__(record, team)
        self.links = links
        self.start = start
        self._seen = 0
        self._done: dict[str, set[tuple[str, str]]] = {}
        self.forget()

    def forget(self) -> None:
        """Begin anew: the flow is over, or was reset.

        Which groups of edges had released somebody is what AutoGen does not forget: who is
        asked next starts these anew, whatever came for them since.
        """
        self._take_in()
        self.answered.clear()
        self._seen = 0
        self._ready: deque[tuple[str, Turns]] = deque()
        self._active: list[str] = []
        self._got: dict[tuple[str, str], list[Turn]] = {}
        self._queued: set[tuple[str, str]] = set()
        self._released: dict[str, deque[Turns]] = {}
        self._before: set[Turn] = set()

    def restart(self) -> None:
        """Begin, or go on where a limit cut the flow off: what was ready is asked for now."""
        again = frozenset({self.record.now[self.team]})
        self._take_in()
        if not self._ready:
            self.forget()
            self._ready.append((self.start, again))
        else:
            self._ready = deque((name, turns | again) for name, turns in self._ready)
        self._before |= {turn for turn, _ in self.answered}
        self.answered.clear()
        self._seen = 0
        self._select()

    def causes(self, turn: Turn) -> Turns:
        if self._take_in() and not self._active:
            self._select()
        released = self._released[turn.name].popleft()
        # Those of an earlier call of the team led to what it does in this one.
        own = self.record.now[self.team]
        self.record.triggers[own] |= released & self._before
        return released

    def _take_in(self) -> int:
        """Let what was answered since the last time release others; return how many did."""
        new = self.answered[self._seen :]
        self._seen = len(self.answered)
        for answer in new:
            self._arrive(*answer)
        return len(new)

    def _arrive(self, turn: Turn, text: str) -> None:
        for link in self.links:
            if link.source != turn.name or (link.word is not None and link.word not in text):
                continue
            key = (link.target, link.group)
            if link.is_any:
                if key not in self._queued:
                    self._queued.add(key)
                    self._release(key, [turn])
                continue
            got = self._got.setdefault(key, [])
            got.append(turn)
            if len(got) == sum((other.target, other.group) == key for other in self.links):
                self._release(key, got)
        self._active.remove(turn.name)

    def _release(self, key: tuple[str, str], turns: Sequence[Turn]) -> None:
        self._done.setdefault(key[0], set()).add(key)
        self._ready.append((key[0], frozenset(turns)))

    def _select(self) -> None:
        while self._ready:
            name, turns = self._ready.popleft()
            self._active.append(name)
            self._released.setdefault(name, deque()).append(turns)
            for key in self._done.pop(name, ()):
                self._got.pop(key, None)
                self._queued.discard(key)


class CalledFloor(Floor):
    """Where something speaks that an agent's turn calls: the call triggers it."""

    def causes(self, turn: Turn) -> Turns:
        return frozenset({self.record.now[self.team]})


class Actor(BaseChatAgent):
    """An agent without a model that takes its time, and may hand over."""

    def __init__(self, name: str, floor: Floor, act: Callable[[], Any]) -> None:
        super().__init__(name, f"agent {name}")
        self.floor = floor
        self.act = act

    @property
    def produced_message_types(self):
        return (TextMessage, HandoffMessage)

    async def on_messages(self, messages, cancellation_token: CancellationToken) -> Response:
        turn = self.floor.ask(self.name, messages)
        said = await self.act()
        if isinstance(said, str):
            said = TextMessage(content=said, source=self.name)
        self.floor.answer(turn, said.content, said.id)
        return Response(chat_message=said)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Nothing is kept."""


def _noting(kind: type[Any]) -> type[Any]:
    """Return a kind of AutoGen's agents that notes its turns."""

    class Noting(kind):
        floor: Floor

        async def on_messages_stream(self, messages, cancellation_token):
            turn = self.floor.ask(self.name, messages)
            said = None
            async for item in super().on_messages_stream(messages, cancellation_token):
                if isinstance(item, Response):
                    said = item.chat_message
                yield item
            text = getattr(said, "content", None)
            self.floor.answer(turn, text if isinstance(text, str) else "", said.id)

    return Noting


Assistant = _noting(AssistantAgent)
Society = _noting(SocietyOfMindAgent)


class Noted:
    """Mixed into a team that is called by an agent or takes part in a team."""

    around: Floor
    own: Floor
    label: str

    async def run_stream(self, **kwargs: Any):
        turn = self.around.record.begin(self.label)
        self.around.record.triggers[turn] = self.around.causes(turn)
        self.own.restart()
        if not isinstance(self.around, CalledFloor | Nobody):
            # What an agent hands to a team of its own is a task, not a message.
            self.around.record.read(turn, kwargs["task"])
        async for item in super().run_stream(**kwargs):
            yield item
        self.around.answer(turn, "")

    async def reset(self) -> None:
        await super().reset()
        self.own.forget()


class NotedRoundRobin(Noted, RoundRobinGroupChat):
    """A round-robin team that notes its turns."""


class NotedSelector(Noted, SelectorGroupChat):
    """A selector's team that notes its turns."""


class NotedSwarm(Noted, Swarm):
    """A swarm that notes its turns."""


class NotedFlow(Noted, GraphFlow):
    """A flow that notes its turns."""


class NotedMagentic(Noted, MagenticOneGroupChat):
    """Magentic-One's team that notes its turns."""


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


class Nobody(Floor):
    """Where the outermost team stands: nobody triggers it."""

    def causes(self, turn: Turn) -> Turns:
        return frozenset()


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


class Read:
    """What a trace's JSON says about causes, by the definition of triggers alone.

    The triggers of an activation are the owners of the sources of all edges other than
    temporal, message and return into events that it owns, its own descendants aside,
    followed back (there through return too) through instants that an orchestrator around
    it owns.
    """

    def __init__(self, trace: Mapping[str, Any]) -> None:
        self.events = {event["id"]: event for event in trace["events"]}
        self.parents: dict[str, str | None] = {}
        self.names: dict[str, Turn] = {}
        counted: Counter[str] = Counter()
        opened = [e for e in trace["events"] if e["id"] == f"{e.get('activation')}.open"]
        for event in opened:
            counted[event["to"]] += 1
            self.names[event["activation"]] = Turn(event["to"], counted[event["to"]])
            self.parents[event["activation"]] = event.get("parent")
        self.into: dict[str, list[tuple[str, str]]] = {}
        self.owned: dict[str, list[str]] = {}
        for edge in trace["edges"]:
            self.into.setdefault(edge["dst"], []).append((edge["type"], edge["src"]))
        for event in trace["events"]:
            self.owned.setdefault(event["activation"], []).append(event["id"])

    def _around(self, activation: str) -> list[str]:
        found = []
        parent = self.parents[activation]
        while parent is not None:
            found.append(parent)
            parent = self.parents[parent]
        return found

    def triggers(self) -> dict[Turn, Turns]:
        """Return whose work each activation follows from."""
        return {turn: self._triggers(own) for own, turn in self.names.items()}

    def _triggers(self, own: str) -> Turns:
        found: set[str] = set()
        around = self._around(own)
        open_ends = [
            source
            for event in self.owned[own]
            for kind, source in self.into.get(event, ())
            if kind not in {"temporal", "message", "return"}
        ]
        seen: set[str] = set()
        while open_ends:
            source = open_ends.pop()
            owner = self.events[source]["activation"]
            if source in seen or owner == own or own in self._around(owner):
                continue
            seen.add(source)
            if "." not in source and owner in around:
                more = self.into.get(source, ())
                open_ends += [cause for kind, cause in more if kind not in {"temporal", "message"}]
            else:
                found.add(owner)
        return frozenset(self.names[owner] for owner in found)

    def informants(self) -> dict[Turn, Turns]:
        """Return whose messages each activation read."""
        return {
            turn: frozenset(
                self.names[self.events[source]["activation"]]
                for kind, source in self.into.get(f"{own}.open", ())
                if kind == "message"
            )
            for own, turn in self.names.items()
        }

    def tools(self) -> Counter[Turn]:
        """Return how many tools each activation called."""
        calls = (e["activation"] for e in self.events.values() if e["verb"] == "tool_call")
        return Counter(self.names[own] for own in calls)
