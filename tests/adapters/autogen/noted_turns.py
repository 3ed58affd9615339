"""The record that participants of a team keep themselves.

A participant notes when it was asked and when it answered, a team when its stream
begins and ends: who triggered whom follows from that alone, by the rules of each kind of
team written down once more here. Nothing of the adapter is looked at.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple


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


class Nobody(Floor):
    """Where the outermost team stands: nobody triggers it."""

    def causes(self, turn: Turn) -> Turns:
        return frozenset()
