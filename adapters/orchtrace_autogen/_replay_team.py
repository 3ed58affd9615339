"""A fresh team that says again what was said before the change, and runs on from there.

The manager is real: it gets the recorded messages and decides by them. Participants
speak their recorded turns without being asked; an assistant's context gets what it
would have got.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from autogen_agentchat.agents import (
    AssistantAgent,
    BaseChatAgent,
    CodeExecutorAgent,
    UserProxyAgent,
)
from autogen_agentchat.base import Response
from autogen_agentchat.messages import (
    BaseChatMessage,
    HandoffMessage,
    TextMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
)
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage

from orchtrace_autogen._replay_record import BROADCAST
from orchtrace_autogen._replay_tools import hold_workbenches
from orchtrace_otel.errors import ReplayBlockedError
from orchtrace_otel.playback import playback
from orchtrace_otel.replay import Change, Part, Player, Slot

if TYPE_CHECKING:
    from orchtrace_autogen._replay_record import Record, Spoken

TURNS: Final = Part("capacity", "max_turns")
ARROW: Final = "<-"
"""Between reader and writer in the name of a dependency."""

KINDS: Final = (RoundRobinGroupChat, SelectorGroupChat, Swarm)
"""Teams in which one speaks at a time, so that what was said before is all that counts."""


class _Said(NamedTuple):
    """A message that was said in a replay.

    Attributes:
        slot: Its place; None for a hand-off.
        is_gone: Whether nobody reads it.
    """

    slot: Slot | None
    is_gone: bool


class Before(NamedTuple):
    """How much of a run is as it was.

    Attributes:
        turns: How many turns.
        choices: How many choices of who speaks: that of the turn in which a reader misses
            something follows from what is as it was, that after a changed message does not.
    """

    turns: int
    choices: int


class Replay:
    """One replay of a team.

    Args:
        team: A fresh one, which is this replay's own.
        record: The recorded run.
        change: What is otherwise.
        roles: Role of each participant that has one.
        before: How much is as it was.
        by_function: Turns, by number, whose speaker a function of the host's chose.

    Attributes:
        blocked: Why it cannot go on, once it cannot.
    """

    def __init__(  # noqa: PLR0913 - a run, and what is otherwise
        self,
        team: Any,
        record: Record,
        change: Change,
        roles: Mapping[str, str],
        before: Before,
        by_function: Collection[int] = (),
    ) -> None:
        self._team = team
        self._record = record
        self._change = change
        self._roles = roles
        self._until, self._chosen = before
        self._by_function = by_function
        self._manager: Any = None
        self._turn = 0
        self._counts: Counter[str] = Counter()
        self._said: dict[str, _Said] = {}
        self.blocked: str | None = None
        for agent in team._participants:  # noqa: SLF001 - AutoGen has no public name for it
            self._take(agent)
        most = change.edits.get(TURNS)
        if most is not None:
            team._max_turns = int(most)  # noqa: SLF001 - likewise
        if isinstance(team, SelectorGroupChat):
            self._select(team)

    def block(self, why: str) -> ReplayBlockedError:
        """Note why the replay cannot go on; a team turns what it raises into something else."""
        self.blocked = self.blocked or why
        return ReplayBlockedError(why)

    def _take(self, agent: Any) -> None:
        """Speak in the place of a participant."""
        if not isinstance(agent, BaseChatAgent):
            msg = f"{agent.name!r} must be an agent to be replayed, it is a team of its own"
            raise self.block(msg)
        hold_workbenches(agent)
        spoken = agent.on_messages_stream

        def on_messages_stream(
            messages: Sequence[BaseChatMessage], cancellation_token: Any
        ) -> AsyncGenerator[Any, None]:
            def work(read: Sequence[BaseChatMessage]) -> AsyncGenerator[Any, None]:
                return spoken(read, cancellation_token)

            return self._speak(agent, messages, work)

        cast("Any", agent).on_messages_stream = on_messages_stream

    def _select(self, team: Any) -> None:
        """Choose who was chosen, as long as all is as it was; after that the team does."""
        chooses = team._selector_func  # noqa: SLF001 - likewise
        makes = team._create_group_chat_manager_factory  # noqa: SLF001 - likewise

        def create(**given: Any) -> Callable[[], Any]:
            make = makes(**given)

            def made() -> Any:
                self._manager = make()
                return self._manager

            return made

        team._create_group_chat_manager_factory = create  # noqa: SLF001 - likewise

        async def selector(thread: Sequence[Any]) -> str | None:
            if self._turn < self._chosen:
                speaker = self._record.turns[self._turn].speaker
                if chooses is None or self._turn not in self._by_function:
                    # A manager remembers whom it chose itself: nobody speaks twice in a row.
                    self._manager._previous_speaker = speaker  # noqa: SLF001 - likewise
                return speaker
            chosen: Any = None if chooses is None else chooses(thread)
            told: str | None = await chosen if hasattr(chosen, "__await__") else chosen
            return told

        team._selector_func = selector  # noqa: SLF001 - likewise

    async def _speak(
        self,
        agent: BaseChatAgent,
        messages: Sequence[BaseChatMessage],
        work: Callable[[Sequence[BaseChatMessage]], AsyncGenerator[Any, None]],
    ) -> AsyncGenerator[Any, None]:
        turn, self._turn = self._turn, self._turn + 1
        change, parts = self._change, self._parts(agent.name)
        edit = next((change.edits[one] for one in parts & change.edits.keys()), None)
        if parts & change.without:
            yield self._nothing(agent.name, turn)
        elif edit is not None:
            words = _words(edit, self._read(agent.name, messages))
            yield self._heard(
                agent.name, Response(chat_message=self._says(agent.name, turn, words))
            )
        elif turn < self._until:
            async for item in self._again(agent, turn, messages):
                yield item
        else:
            self._refuse(agent)
            async for item in work(self._read(agent.name, messages)):
                self._stop_if_blocked()
                yield self._heard(agent.name, item) if isinstance(item, Response) else item

    def _parts(self, name: str) -> set[Player]:
        role = self._roles.get(name)
        parts: set[Player] = {Part("agent", name)}
        return parts if role is None else parts | {Part("role", role)}

    def _refuse(self, agent: BaseChatAgent) -> None:
        if isinstance(agent, UserProxyAgent):
            msg = f"a replay must not ask a person, it is the turn of {agent.name!r}"
            raise self.block(msg)
        if isinstance(agent, CodeExecutorAgent):
            msg = f"a replay must not execute code, it is the turn of {agent.name!r}"
            raise self.block(msg)

    def _stop_if_blocked(self) -> None:
        """Go no further once a tool is held back: an agent takes its error for an answer."""
        played = playback()
        if played is not None and played.blocked is not None:
            raise self.block(played.blocked)

    async def _again(
        self, agent: BaseChatAgent, turn: int, messages: Sequence[BaseChatMessage]
    ) -> AsyncGenerator[Any, None]:
        """Say what was said in a turn of the record."""
        spoken = self._record.turns[turn]
        if spoken.speaker != agent.name:
            msg = (
                f"turn {turn + 1} must be of {spoken.speaker!r} as in the record, the team asked "
                f"{agent.name!r}; build the team as it was"
            )
            raise self.block(msg)
        if isinstance(agent, AssistantAgent):
            await self._remember(agent, spoken, messages)
        elif type(agent).save_state is not BaseChatAgent.save_state and not isinstance(
            agent, UserProxyAgent | CodeExecutorAgent
        ):
            msg = (
                f"the state of {agent.name!r} must be known after its turns before the change: "
                f"what a {type(agent).__name__} keeps cannot be rebuilt"
            )
            raise self.block(msg)
        for event in spoken.inner:
            yield event
        yield self._heard(
            agent.name, Response(chat_message=spoken.message, inner_messages=[*spoken.inner])
        )

    async def _remember(
        self, agent: AssistantAgent, spoken: Spoken, messages: Sequence[BaseChatMessage]
    ) -> None:
        """Put into an assistant's context what a turn put there."""
        if getattr(agent, "_memory", None):
            msg = f"{agent.name!r} has a memory, what it gave in a turn is not known"
            raise self.block(msg)
        context = agent.model_context
        for message in messages:
            for held in message.context if isinstance(message, HandoffMessage) else ():
                await context.add_message(held)
            await context.add_message(message.to_model_message())
        for held in _own(agent.name, spoken):
            await context.add_message(held)

    def _read(self, name: str, messages: Sequence[BaseChatMessage]) -> list[BaseChatMessage]:
        """Return what a participant reads of what is new to it."""
        return [one for one in (self._as_read(name, m) for m in messages) if one is not None]

    def _as_read(self, name: str, message: BaseChatMessage) -> BaseChatMessage | None:
        said = self._said.get(message.id)
        if said is None:
            return message
        players: set[Player] = {Part("dependency", f"{name}{ARROW}{message.source}")}
        if said.slot is not None:
            players.add(Slot(said.slot.sender, name, said.slot.ordinal))
        if said.is_gone or players & self._change.without:
            return None
        for player in players & self._change.edits.keys():
            return _other(message, self._change.edits[player])
        return message

    def _heard(self, name: str, response: Response) -> Response:
        """Take in what a participant said, and hand on what the others get of it."""
        message = response.chat_message
        slot: Slot | None = None
        if not isinstance(message, HandoffMessage):
            self._counts[name] += 1
            slot = Slot(name, BROADCAST, self._counts[name])
        is_gone = slot in self._change.without
        self._said[message.id] = _Said(slot, is_gone)
        if is_gone:
            return Response(chat_message=_other(message, ""))
        if slot is not None and slot in self._change.edits:
            return Response(chat_message=_other(message, self._change.edits[slot]))
        return response

    def _nothing(self, name: str, turn: int) -> Response:
        """Return what a participant that is taken out says; a hand-off stays one."""
        said = self._says(name, turn, "")
        keeps_word = isinstance(self._team, Swarm) and isinstance(said, TextMessage)
        if keeps_word and not self._is_recorded(turn):
            # It would be asked again and again, since nobody else has the word.
            msg = f"{name!r} is taken out and must hand over to somebody, nobody says to whom"
            raise self.block(msg)
        self._said[said.id] = _Said(None, is_gone=True)
        return Response(chat_message=said)

    def _says(self, name: str, turn: int, words: str) -> BaseChatMessage:
        """Return a message in the place of a participant's own; in a swarm a hand-off stays one."""
        if isinstance(self._team, Swarm):
            turns = self._record.turns
            told = [turns[turn]] if self._is_recorded(turn) else turns
            own = [one.message for one in told if one.speaker == name]
            if own and isinstance(own[-1], HandoffMessage):
                return HandoffMessage(content=words, source=name, target=own[-1].target)
        return TextMessage(content=words, source=name)

    def _is_recorded(self, turn: int) -> bool:
        """Whether a turn is one of the record, by whoever it is."""
        return turn <= self._until and turn < len(self._record.turns)


def _words(edit: Any, messages: Sequence[BaseChatMessage]) -> str:
    return str(edit(messages)) if callable(edit) else str(edit)


def _other(message: BaseChatMessage, edit: Any) -> BaseChatMessage:
    """Return a message with another text, of the same id."""
    if isinstance(message, TextMessage | HandoffMessage | ToolCallSummaryMessage):
        return message.model_copy(update={"content": str(edit)})
    return TextMessage(content=str(edit), source=message.source, id=message.id)


def _own(name: str, spoken: Spoken) -> list[Any]:
    """Return what a turn of an assistant's put into its context by itself."""
    found: list[Any] = []
    thought: str | None = None
    for event in spoken.inner:
        if isinstance(event, ThoughtEvent):
            thought = event.content
        elif isinstance(event, ToolCallRequestEvent):
            found.append(AssistantMessage(content=event.content, source=name, thought=thought))
            thought = None
        elif isinstance(event, ToolCallExecutionEvent):
            found.append(FunctionExecutionResultMessage(content=event.content))
    if not isinstance(spoken.message, HandoffMessage | ToolCallSummaryMessage):
        words = spoken.message.to_model_text()
        found.append(AssistantMessage(content=words, source=name, thought=thought))
    return found


def as_it_was(record: Record, player: Player, roles: Mapping[str, str]) -> Before | None:
    """Return how much is as it was where a player is touched; None if the record has it not."""
    speakers = [turn.speaker for turn in record.turns]
    if player == TURNS:
        return Before(len(speakers), len(speakers))
    if isinstance(player, Slot):
        said = _said_at(record, player)
        if said is None or player.receiver == BROADCAST:
            return said
        read = _read_at(speakers, player.receiver, said.turns)
        never = Before(len(speakers), len(speakers)) if player.receiver in speakers else None
        return read or never
    if player.kind == "dependency":
        reader, _, writer = player.name.partition(ARROW)
        return _read_at(speakers, reader, speakers.index(writer)) if writer in speakers else None
    named = {"agent": dict(zip(speakers, speakers, strict=True)), "role": roles}
    names = named.get(player.kind, {})
    turns = enumerate(speakers, 1)
    return next((Before(at, at) for at, one in turns if names.get(one) == player.name), None)


def _said_at(record: Record, slot: Slot) -> Before | None:
    """Return how much is as it was where a message is another, its own turn included."""
    turns = enumerate((turn.slot for turn in record.turns), 1)
    wanted = (slot.sender, slot.ordinal)
    found = (at for at, one in turns if one is not None and (one.sender, one.ordinal) == wanted)
    return next((Before(at, at) for at in found), None)


def _read_at(speakers: Sequence[str], reader: str, since: int) -> Before | None:
    """Return how much is as it was where who speaks in a turn from `since` on misses something."""
    turns = enumerate(speakers)
    found = (at for at, one in turns if one == reader and at >= since)
    return next((Before(at, at + 1) for at in found), None)
