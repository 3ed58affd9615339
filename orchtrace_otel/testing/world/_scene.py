"""Playing a team: what an activation does becomes spans and, at once, a node of the mechanism."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.replay.players import Slot
from orchtrace_otel.testing.world._chance import chance
from orchtrace_otel.testing.world._mechanism import Link, Mechanism, Node
from orchtrace_otel.testing.world._stage import SECOND, Act, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence


class Member(NamedTuple):
    """One agent of a team, the same in all of its runs.

    Attributes:
        name: Its name, which may tell nothing.
        role: Its role where the team gives roles.
        skill: How likely it is right by itself.
        is_broken: Whether it is the planted fault: always wrong, and misleading.
    """

    name: str
    role: str | None
    skill: float
    is_broken: bool


class Letter(NamedTuple):
    """A message that was sent, and what is planted in it.

    Attributes:
        slot: Its place: sender, receiver, ordinal.
        event: Id of its event in the trace.
        kind: `useful`, `filler`, or `misleading` where a broken agent sent what would
            have been useful.
    """

    slot: Slot
    event: str
    kind: str


class Posted(NamedTuple):
    """A letter on its way to whoever reads it."""

    letter: Letter
    sender: str
    gain: float
    harm: float
    sent: int


USEFUL: Final = 0.6
"""Share of messages that say something the receiver can use."""


@dataclass(slots=True)
class Tells:
    """Whom an activation may write to, and how often it does.

    Attributes:
        to: Names of agents.
        most: The most letters it sends; each of them with probability `often`.
        often: See `most`.
        all_of_them: Whether it writes to each of `to`, as in a debate.
    """

    to: Sequence[str]
    most: int = 2
    often: float = 0.6
    all_of_them: bool = False


class Scene:
    """One run of one team while it is played."""

    def __init__(
        self, name: str, task_id: str, members: Sequence[Member], *identity: object
    ) -> None:
        self.stage: Final = Stage(name, task_id, *identity)
        self.root: Final = self.stage.root
        self.members: Final = list(members)
        self.dice: Final = chance("scene", *identity)
        self.mechanism: Final = Mechanism(identity)
        self.letters: Final[list[Letter]] = []
        self.broken: Final[list[str]] = []
        self._mail: Final[defaultdict[str, list[Posted]]] = defaultdict(list)
        self._sent: Final[Counter[tuple[str, str]]] = Counter()
        self._nodes: Final[dict[str, Node]] = {}

    def act(  # noqa: PLR0913 - an activation has that many sides
        self,
        parent: Act,
        member: Member,
        *,
        after: Sequence[Act] = (),
        causes: Sequence[tuple[str, str]] | None = None,
        by: str | None = None,
        tells: Tells | None = None,
        tool: str | None = None,
        mail: Sequence[Posted] | None = None,
    ) -> Act:
        """Play one activation from its opening to its close.

        Args:
            parent: The activation around it, which stands still meanwhile.
            member: Who works.
            after: Activations whose results are handed to it.
            causes: Edges into its opening, unless the flow of `parent` has them.
            by: Who caused its opening, where that is not `parent`'s agent.
            tells: Whom it may write to.
            tool: Event of a tool call that it runs inside of.
            mail: Letters it reads; those waiting for it unless given.
        """
        act = self.begin(parent, member, after=after, causes=causes, by=by, tool=tool, mail=mail)
        self.go_on(act, member)
        self.end(act, member, tells=tells)
        return act

    def begin(  # noqa: PLR0913 - see `act`
        self,
        parent: Act,
        member: Member,
        *,
        after: Sequence[Act] = (),
        causes: Sequence[tuple[str, str]] | None = None,
        by: str | None = None,
        tool: str | None = None,
        mail: Sequence[Posted] | None = None,
    ) -> Act:
        """Open an activation, with what it reads; see `act`."""
        read = self.take_mail(member.name) if mail is None else mail
        act = self.stage.open(
            parent,
            member.name,
            role=member.role,
            causes=causes,
            by=by,
            reads=[posted.letter.event for posted in read],
            tool=tool,
        )
        node = Node(act.span, member.name, member.role, member.skill, is_broken=member.is_broken)
        node.links = [self.hand_on(source) for source in after]
        node.links += [_link(posted) for posted in read]
        self._nodes[act.span] = node
        if member.is_broken:
            self.broken.append(act.span)
        return act

    def go_on(self, act: Act, member: Member) -> None:
        """Let an agent think, and use tools now and then; a broken one's fails at times."""
        dice = self.dice
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            self.stage.work(act, dice.uniform(0.3, 2.0), dice.randrange(40, 300))
            shows = dice.random() < (SHOWN if member.is_broken else SLIPS)
            self.stage.use_tool(act, "search", dice.uniform(0.2, 2.0), is_error=shows)
        self.stage.work(act, dice.uniform(0.5, 4.0), dice.randrange(80, 600))

    def end(self, act: Act, member: Member, *, tells: Tells | None = None) -> None:
        """Send what is to be sent, and close an activation."""
        if tells is not None:
            self._tell(act, member, tells)
        self.stage.close(act)
        self.mechanism.nodes.append(self._nodes[act.span])

    def hand_on(self, source: Act) -> Link:
        """Return the link by which an activation's result reaches another."""
        gain, harm = self._strength(is_broken=self._nodes[source.span].is_broken)
        return Link(source.span, gain * 0.6, harm * 0.6)

    def take_result(self, act: Act, sources: Sequence[Act]) -> None:
        """Let what came back to an open activation count for what it does."""
        self._nodes[act.span].links += [self.hand_on(source) for source in sources]

    def read(self, act: Act, member: Member) -> None:
        """Let an open activation read the letters that came meanwhile."""
        waiting = self.take_mail(member.name)
        mail = [posted for posted in waiting if posted.sent <= act.now]
        self._mail[member.name] = [posted for posted in waiting if posted.sent > act.now]
        act.returned += [("message", posted.letter.event) for posted in mail]
        self._nodes[act.span].links += [_link(posted) for posted in mail]

    def take_mail(self, name: str) -> list[Posted]:
        """Return the letters that wait for an agent, and forget them."""
        return self._mail.pop(name, [])

    def _tell(self, act: Act, member: Member, tells: Tells) -> None:
        others = [name for name in tells.to if name != member.name]
        if tells.all_of_them:
            for receiver in others:
                self._send(act, member, receiver)
            return
        for _ in range(tells.most):
            if others and self.dice.random() < tells.often:
                self._send(act, member, self.dice.choice(others))

    def _send(self, act: Act, member: Member, receiver: str) -> None:
        event = self.stage.tell(act, "message", 0.0, **{a.TO: receiver})
        self._sent[member.name, receiver] += 1
        slot = Slot(member.name, receiver, self._sent[member.name, receiver])
        is_useful = self.dice.random() < USEFUL
        gain, harm = self._strength(is_broken=member.is_broken) if is_useful else (0.0, 0.0)
        kind = "filler" if not is_useful else "misleading" if member.is_broken else "useful"
        letter = Letter(slot, event, kind)
        self.letters.append(letter)
        self._mail[receiver].append(Posted(letter, act.span, gain, harm, act.now))

    def _strength(self, *, is_broken: bool) -> tuple[float, float]:
        gain = self.dice.uniform(0.1, 0.5)
        harm = self.dice.uniform(0.3, 0.6) if is_broken else gain * self.dice.uniform(0.0, 0.5)
        return gain, harm

    def answer(self, sources: Sequence[Act], *, merges: bool = True) -> None:
        """Let the root make the answer out of results and of letters to it, and stop."""
        mail = self.take_mail(self.root.agent)
        seconds, tokens = self.dice.uniform(0.5, 2.0), self.dice.randrange(80, 400)
        self.root.returned += [("message", posted.letter.event) for posted in mail]
        if merges:
            self.stage.merge(self.root, sources, seconds, tokens)
        elif mail:
            turn = self.stage.work(self.root, seconds, tokens)
            self.stage.tell(
                self.root, "decide", 0.0, **{a.DECISION_NAME: "answer", a.TURNS: (turn,)}
            )
        links = [self.hand_on(source) for source in dict.fromkeys(sources)]
        links += [_link(posted) for posted in mail]
        self._append_answer(links)
        self.stage.stop("information_complete")

    def _append_answer(self, links: list[Link]) -> None:
        """The answer is of quality 1 where all that reached it was right."""
        whole = sum(link.gain for link in links) or 1.0
        base = 0.1 if links else 1.0
        for link in links:
            link.gain *= (1.0 - base) / whole
        self.mechanism.nodes.append(Node("answer", self.root.agent, None, base, links))


SHOWN: Final = 0.3
"""How often a tool call of a broken agent fails for all to see."""

SLIPS: Final = 0.1
"""How often one of any other agent does, which means nothing."""


def _link(posted: Posted) -> Link:
    return Link(posted.sender, posted.gain, posted.harm, posted.letter.slot)


def seconds(act: Act) -> float:
    """How long an activation took."""
    return (act.now - act.start) / SECOND
