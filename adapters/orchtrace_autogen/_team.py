"""One run of a team: its decisions, turns and messages, and what caused each.

Causes travel with messages. What is published gets a message id here, under which
stands the event that the message carries on; whoever handles the message looks its
id up. What is current where a handler runs says nothing: a runtime's queue inherits
whatever was current when it was started.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from orchtrace_autogen import _framework as f
from orchtrace_autogen._content import message_facts
from orchtrace_autogen._labels import Labels
from orchtrace_autogen._stops import Stop
from orchtrace_autogen._work import Work
from orchtrace_otel import attributes as a
from orchtrace_otel.content import gate
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.model import plain_text
from orchtrace_otel.spans import Activation, Run, Value, instant, open_activation

if TYPE_CHECKING:
    from orchtrace_autogen._ledger import Ledger

V = TypeVar("V")

_MOST_REMEMBERED: Final = 10_000
"""Messages of one team, and chat messages of one run, whose causes are remembered."""

PROGRESS_LEDGER: Final = "progress_ledger"
GROUP: Final = "group"
BROADCAST: Final = "broadcast"


class Handoff(NamedTuple):
    """An agent's own delegation to another one."""

    mark: Mark
    source: str
    target: str


class Cause(NamedTuple):
    """What a message carries on: the event that led to it, and a hand-off, if it was one."""

    mark: Mark
    handoff: Handoff | None = None


class Remembered(OrderedDict[str, V]):
    """The latest so many causes, by id; a run that forgets one says so."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = weakref.ref(run)

    def note(self, key: str, cause: V) -> None:
        """Remember `cause` under `key`."""
        self[key] = cause
        if len(self) > _MOST_REMEMBERED:
            self.popitem(last=False)
            run = self._run()
            if run is not None:
                run.flag("causes_forgotten")


class FlowState:
    """What a flow waits for, from one call of its team to the next of the same run.

    Attributes:
        run: Id of the run.
        joins: Answers that came for a group of edges that is not complete.
        fired: Answers that completed a group, for each time its target is to be asked.
    """

    __slots__ = ("fired", "joins", "run")

    def __init__(self, run: str) -> None:
        self.run = run
        self.joins: dict[tuple[str, str], list[Cause]] = {}
        self.fired: dict[str, deque[list[Cause]]] = {}


class TeamRun:
    """A team while it runs.

    Attributes:
        activation: The orchestrator's, which contains the turns.
        work: What its manager asks models and decides.
        messages: The events that stand for chat messages, by the messages' ids; shared
            by the teams of a run.
        turns: Turns that are open, by the type of the container that handles them.
        candidates: Who the manager chooses from, where it said so itself.
        flow: What its flow waits for, where it is one.
        ledger: What Magentic-One's orchestrator decides by in this round.
        stopped: Why the manager ended it, once it did.
        paused: The pause that it is in, if it is in one.
        is_embedded: Whether its runtime ends with its run.
        on_stop: Called when the manager ends it, where its caller left it behind.
        runtime: What its messages go through, once one did.
        host: The team itself, where its caller left it behind.
    """

    def __init__(self, activation: Activation, messages: Remembered[Mark], labels: Labels) -> None:
        self.activation = activation
        self._labels = labels
        self.work = Work(activation, self)
        self.messages = messages
        self.turns: dict[str, Work] = {}
        self.candidates: list[str] | None = None
        self.ledger: Ledger | None = None
        self.stopped: Stop | None = None
        self.paused: Mark | None = None
        self.is_embedded = True
        self.on_stop: Callable[[], None] | None = None
        self.runtime: weakref.ref[Any] | None = None
        self.host: weakref.ref[Any] | None = None
        self._sent: Remembered[Cause] = Remembered(activation.run)
        self._waiting: list[Cause] = []
        self._decided: Cause | None = None
        self._requested: dict[str, deque[Cause]] = {}
        self.flow: FlowState | None = None

    def cause_of(self, message_id: str) -> Cause | None:
        """Return what the message that is handled carries on; None for one of another run."""
        return self._sent.get(message_id)

    def send(self, message: Any, message_id: str, sender: Any, receiver: str) -> None:
        """Remember what a message carries on, and record the event that it is."""
        kind = cast("type[object]", type(message))
        cause: Cause | None
        if kind is f.Request:
            cause = self._request(receiver)
        elif kind is f.Start:
            cause = Cause(self.activation.opened)
            if sender is None:
                for chat_message in message.messages or ():
                    if chat_message.id not in self.messages:
                        self.messages.note(chat_message.id, self.activation.opened)
        else:
            cause = self._answer(message, kind, sender)
        if cause is not None:
            self._sent.note(message_id, cause)

    def _request(self, topic: str) -> Cause | None:
        waiting = self._requested.get(topic)
        if not waiting:
            # A manager that does not log its choice, such as Magentic-One's.
            name = topic.rpartition("_")[0]
            self.decide([name], {name: topic}, None)
            waiting = self._requested.get(topic)
        return waiting.popleft() if waiting else None

    def _answer(self, message: Any, kind: Any, sender: Any) -> Cause | None:
        work = self.turns.get(sender.type) if sender is not None else None
        if kind is not f.AgentResponse:
            return None if work is None else Cause(work.activation.closed)
        chat_message = f.response_of(message).chat_message
        speaker = self.work if work is None else work
        if work is None:
            self._follow_ledger()
        handoff = self._say(speaker, chat_message)
        return None if work is None else Cause(work.activation.closed, handoff)

    def _say(self, work: Work, message: Any) -> Handoff | None:
        """Record a chat message: a hand-off is its agent's delegation, others are messages."""
        edges, turns = work.produce()
        if work is self.work:
            causes = _distinct(self._waiting or ([self._decided] if self._decided else []))
            edges = [("causal", cause.mark) for cause in causes] or edges
        facts: dict[str, Value] = {a.CHANNEL: GROUP}
        if gate.recorder is not None:
            facts.update(message_facts(work.activation.run, message) or {})
        if turns:
            facts[a.TURNS] = turns
        agent = work.activation.agent
        if isinstance(message, f.HandoffMessage):
            target = message.target
            mark = instant(work.activation, "delegate", to=target, edges=edges, attributes=facts)
            handoff = Handoff(mark, agent, target)
        else:
            mark = instant(work.activation, "message", to=BROADCAST, edges=edges, attributes=facts)
            handoff = None
        if work is not self.work:
            work.activation.flow.last = mark
        self.messages.note(message.id, mark)
        return handoff

    def _follow_ledger(self) -> None:
        """Record the speaker whom a ledger chose, before the instruction that follows."""
        ledger, speaker = self.ledger, None if self.ledger is None else self.ledger.next_speaker
        if ledger is None or speaker is None:
            return
        self.ledger = None
        facts = {a.DECISION_NAME: PROGRESS_LEDGER, a.FEATURES: ledger.features}
        self.decide([speaker], ledger.topics, list(ledger.topics), facts)

    def conclude(self, chosen: str, features: list[str]) -> None:
        """Record a decision of the manager's that asks no speaker; what follows is its own."""
        waiting = _distinct(self._waiting)
        facts: dict[str, Value] = {
            a.DECISION_NAME: PROGRESS_LEDGER,
            a.CHOSEN: chosen,
            a.FEATURES: features,
        }
        turns = self.work.produce()[1]
        if turns:
            facts[a.TURNS] = turns
        mark = instant(self.activation, "decide", edges=self._merge(waiting), attributes=facts)
        self._waiting = [Cause(mark)]

    def handle(self, cause: Cause) -> None:
        """Note what the manager handles now; it leads to the next decision or the stop."""
        self._waiting.append(cause)

    def arrive(self, target: str, group: str, *, is_first: bool, is_complete: bool) -> None:
        """Note that the answer being handled counts for a group of a flow's edges.

        Args:
            target: Whom the group leads to.
            group: The group.
            is_first: Whether nothing counts before it: AutoGen may have begun the group anew.
            is_complete: Whether the target is asked for it.
        """
        flow = self.flow
        if flow is None or not self._waiting:
            return
        if is_first:
            flow.joins.pop((target, group), None)
        arrived = flow.joins.setdefault((target, group), [])
        arrived.append(self._waiting[-1])
        if is_complete:
            flow.fired.setdefault(target, deque()).append(flow.joins.pop((target, group)))

    def go_on(self, flow: FlowState) -> None:
        """Go on with a flow that a limit cut off: what was ready then is asked for now."""
        self.flow = flow
        for ready in flow.fired.values():
            for causes in ready:
                causes.append(Cause(self.activation.opened))

    def decide(
        self,
        chosen: Sequence[str],
        topics: Mapping[str, str],
        candidates: Iterable[str] | None,
        more: Mapping[str, Value] | None = None,
    ) -> None:
        """Record who speaks next and why; speakers of different causes are decisions apart.

        Args:
            chosen: Names of the speakers.
            topics: The topic by which each participant is asked, by name.
            candidates: Who could have been chosen, where that is known.
            more: Further facts of the decision.
        """
        waiting, self._waiting = self._waiting, []
        back = self.activation.flow.drain()
        turns = self.work.produce()[1]
        groups: dict[tuple[str, ...], tuple[list[Cause], list[str]]] = {}
        for name in chosen:
            causes = self._causes(name, waiting)
            key = tuple(cause.mark.event_id for cause in causes)
            groups.setdefault(key, (causes, []))[1].append(name)
        for causes, names in groups.values():
            picked = list(map(plain_text, names))
            facts: dict[str, Value] = {
                a.DECISION_NAME: "select_speaker",
                a.CHOSEN: picked[0] if len(picked) == 1 else picked,
            }
            if candidates is not None:
                facts[a.CANDIDATES] = list(map(plain_text, candidates))
            if turns:
                facts[a.TURNS] = turns
            if more:
                facts.update(more)
            edges = [*self._merge(causes), *back]
            mark = instant(self.activation, "decide", edges=edges, attributes=facts)
            self._decided = Cause(mark)
            for name in names:
                handoff = next((c.handoff for c in causes if _hands_to(c, name)), None)
                request = self._requested.setdefault(topics[name], deque())
                request.append(Cause(mark, handoff))
            back, turns = [], []

    def _causes(self, name: str, waiting: list[Cause]) -> list[Cause]:
        fired = self.flow.fired.get(name) if self.flow is not None else None
        return _distinct(fired.popleft() if fired else waiting)

    def _merge(self, causes: list[Cause]) -> list[Edge]:
        """Return the edges into what follows from `causes`; several are merged first."""
        if len(causes) <= 1:
            return [("causal", cause.mark) for cause in causes]
        edges: list[Edge] = [("aggregate", cause.mark) for cause in causes]
        return [("causal", instant(self.activation, "aggregate", edges=edges))]

    def open_turn(self, container: f.ChatAgentContainer, request: Cause) -> Work:
        """Open the turn that a participant was asked for."""
        agent = f.participant(container)
        name = plain_text(agent.name)
        instance, is_new = self.activation.of_object(name, agent)
        handoff = request.handoff
        edges: list[Edge] = []
        if handoff is not None:
            opens, by = "begin", handoff.source
            edges.append(("causal", handoff.mark))
        else:
            opens, by = ("spawn" if is_new else "delegate"), None
        edges.append(("spawn" if opens == "spawn" else "causal", request.mark))
        edges += self._read(container)
        run = self.activation.run
        if run.inbox:
            edges += run.collect(name)
        # In a team an agent goes by the name that its peers know it by.
        label = self._labels.of(agent)
        activation = open_activation(
            self.activation,
            name,
            opens=opens,
            instance=instance,
            role=None if label is None else label.role,
            by=by,
            edges=edges,
        )
        activation.owner = agent
        work = self.turns[container.id.type] = Work(activation, self)
        return work

    def _read(self, container: f.ChatAgentContainer) -> list[Edge]:
        marks: dict[str, Mark] = {}
        for message in f.buffered(container):
            mark = self.messages.get(message.id)
            if mark is not None:
                marks[mark.event_id] = mark
        return [("message", mark) for mark in marks.values()]

    def ending(self, edge_type: str) -> list[Edge]:
        """Return the causes of the team's end: what was handled last, then its decision."""
        return [(edge_type, cause.mark) for cause in _distinct(self._waiting)]


def _hands_to(cause: Cause, name: str) -> bool:
    return cause.handoff is not None and cause.handoff.target == name


def _distinct(causes: Iterable[Cause]) -> list[Cause]:
    return list({cause.mark.event_id: cause for cause in causes}.values())
