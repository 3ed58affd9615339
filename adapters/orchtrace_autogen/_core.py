"""Agents of the core without agentchat: what they publish, send and handle.

A run opens where the host calls into a runtime from outside any run. It is the
orchestrator's, and ends when the call is back and every message that it led to has been
handled. What is published goes to activations beside each other below the orchestrator;
what is sent is answered, so that its handler works inside the one that asks.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from contextvars import ContextVar, Token
from types import BuiltinFunctionType
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context, attach, create_key, get_current, set_value

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, follow
from orchtrace_autogen._stops import STOPPED, Stop
from orchtrace_autogen._work import Work, work_of
from orchtrace_otel import attributes as a
from orchtrace_otel import content
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import NOBODY, Edge, Flow, Mark, unit
from orchtrace_otel.model import plain_text
from orchtrace_otel.spans import (
    Activation,
    Run,
    Scope,
    Value,
    error_type,
    instant,
    is_suppressed,
    join_run,
    open_activation,
    outcome,
    scope_of,
    start_run,
)

ORCHESTRATOR: Final = "orchestrator"

_PLACE: Final = create_key("orchtrace-autogen-place")
_TAKEN: Final[ContextVar[list[str] | None]] = ContextVar("orchtrace-autogen-taken", default=None)
_MOST_LEAVES: Final = 100

IDLE: Final = Stop("information_complete", "idle")
"""A run of the core is over when there is nothing more to handle."""


class CoreRun:
    """A run that a call of the host's into a runtime opened.

    Attributes:
        run: The run.
        stop: Why it ends, should it end now.
        error: What the host's own call ended with.
        leaves: Closes of handlers that sent nothing on; they lead to the stop.
    """

    __slots__ = ("__weakref__", "_held", "error", "leaves", "run", "stop")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.stop = IDLE
        self.error: BaseException | None = None
        self.leaves: list[Mark] = []
        self._held = 0

    def called(self, error: BaseException | None) -> None:
        """Note that the host's call is over, and what it ended with.

        What waits for a message that nobody handles must not keep the runtime: a task that
        failed holds its error, and that the frames which know the runtime.
        """
        if not self.run.is_closed:  # given up meanwhile
            self.run.root.flow.owner = NOBODY
        self.error = error
        self.release()
        if self.error is not None:
            self.error = _without_frames(self.error)

    def hold(self) -> None:
        """Keep it open: a message is on its way, a handler at work, the host waits."""
        self._held += 1

    def release(self) -> None:
        """Let go of it; the last one who does ends it."""
        self._held -= 1
        if self._held:
            return
        status, reason = outcome(self.error)
        stop = self.stop if self.error is None else Stop(reason, error_type(self.error))
        self.run.close(
            stop_reason=stop.reason,
            stop_detail=stop.detail,
            status="error" if stop.reason == "error" else status,
            error=self.error if status == "error" else None,
            edges=[("causal", mark) for mark in self.leaves],
        )
        self.error = None


class Place(NamedTuple):
    """Where the handlers of what is published work: below which activation, in which run."""

    below: Activation
    opened: CoreRun | None


class Sent:
    """Something on its way through a runtime.

    Attributes:
        opened: The run of the core that it is part of, if any.
        is_hosts: Whether the call that sent it opened the run.
        flow: Where the answer goes, for what is sent.
        closed: The close of the activation that answered.
        is_begun: Whether the runtime has begun to handle it.
    """

    __slots__ = ("closed", "flow", "is_begun", "is_hosts", "opened")

    def __init__(self, opened: CoreRun | None = None) -> None:
        self.opened = opened
        self.is_hosts = False
        self.flow: Flow | None = None
        self.closed: Mark | None = None
        self.is_begun = False


class Unseen(Sent):
    """What was sent where instrumentation is suppressed: what handles it is, too.

    Attributes:
        context: What was current where it was sent.
    """

    __slots__ = ("context",)

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context


class Message(Sent):
    """A message of the core on its way, with its cause.

    Attributes:
        below: Which activation its handlers work inside of.
        place: Where the handlers of what those publish work.
        sender: The agent that sent it.
        edges: Causes of the activation that handles it.
        opens: What the activation's opening is, where an event of its own came before.
        carried: What waits for the close of its handler, where it came from elsewhere.
    """

    __slots__ = ("below", "carried", "edges", "opens", "place", "sender")

    def __init__(
        self, below: Activation, place: Place, sender: Activation, edges: list[Edge]
    ) -> None:
        super().__init__(place.opened)
        self.below = below
        self.place = place
        self.sender = sender.agent
        self.is_hosts = place.opened is not None and sender is place.opened.run.root
        self.edges = edges
        self.opens: str | None = None
        self.carried: Any = None


class Handler(Call):
    """An agent that handles a message."""

    __slots__ = ("_message", "_place", "_work")

    def __init__(self, message: Message, work: Work) -> None:
        place = message.place
        super().__init__(set_value(_PLACE, place, work.context))
        self._message = message
        self._work = work
        if place.opened is not None:
            place.opened.hold()

    def attach(self) -> Token[Context]:
        self._work.activation.flow.owner = unit()
        return attach(self.context)

    @guarded
    def close(self, _result: Any, error: BaseException | None, /) -> None:
        """End the activation; the run may end with it."""
        status, _ = outcome(error)
        activation, message = self._work.activation, self._message
        has_sent = activation.flow.last.event_id != activation.opened.event_id
        activation.owner = None
        activation.close(
            status=status, error=error if status == "error" else None, edges=self._work.rest()
        )
        activation.let_go()  # see CoreRun.called
        opened = message.place.opened
        carried = message.carried
        if carried is not None:
            carried.answered = activation.closed
        if message.flow is not None:
            message.closed = activation.closed
        elif opened is not None and not (carried is not None and carried.is_request):
            # Nobody waits for it, to make of an error what it likes.
            if status == "error" and error is not None and opened.stop is IDLE:
                opened.stop = Stop("error", error_type(error))
            if not has_sent and len(opened.leaves) < _MOST_LEAVES:
                opened.leaves.append(activation.closed)
        if opened is not None:
            opened.release()


class Unrecorded(Call):
    """An agent that handles a message of a run that a sampler dropped: it begins none."""

    __slots__ = ("_opened",)

    def __init__(self, message: Message) -> None:
        super().__init__(set_value(_PLACE, message.place, message.below.context))
        self._opened = message.place.opened
        if self._opened is not None:
            self._opened.hold()

    @guarded
    def close(self, _result: Any, _error: BaseException | None, /) -> None:
        """Let go of the run."""
        if self._opened is not None:
            self._opened.release()


class CoreHooks:
    """Wrappers of a runtime's sending, of its queue and of its agents' handling.

    Messages on their way are known by id, in a table for each runtime: one that is gone
    takes its table along.

    Args:
        elsewhere: Tells the message from another process that is handled now, by sender.
    """

    def __init__(self, elsewhere: Callable[[Any], Message | None]) -> None:
        self._elsewhere = elsewhere
        self._sent: MutableMapping[Any, dict[str, Sent]] = weakref.WeakKeyDictionary()

    async def publish(self, wrapped: Any, runtime: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Follow a message that is published to a topic."""
        message = self._publish(runtime, args, kwargs)
        if message is None:
            return await wrapped(*args, **kwargs)
        error: BaseException | None = None
        try:
            return await wrapped(*args, **kwargs)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._called(runtime, kwargs["message_id"], message, error, is_back=error is not None)
            del error, message  # the error holds this frame for as long as the host keeps it

    async def send(self, wrapped: Any, runtime: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Follow a message that is sent to an agent, and its answer."""
        message = self._send(runtime, args, kwargs)
        if message is None:
            return await wrapped(*args, **kwargs)
        error: BaseException | None = None
        try:
            return await wrapped(*args, **kwargs)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._called(runtime, kwargs["message_id"], message, error, is_back=True)
            del error, message  # see publish

    @guarded
    def _publish(self, runtime: Any, args: Any, kwargs: dict[str, Any]) -> Sent | None:
        topic = _second(args, kwargs, "topic_id")
        found = caller(topic, _first(args, kwargs))
        if found is None:
            return self._unseen(runtime, kwargs)
        place, scope, context = found
        mark = tell("message", topic, scope, context)
        edges: list[Edge] = [("causal", mark), ("message", mark)]
        message = Message(place.below, place, scope.activation, edges)
        self._note(runtime, kwargs, message)
        return message

    @guarded
    def _send(self, runtime: Any, args: Any, kwargs: dict[str, Any]) -> Sent | None:
        recipient = _second(args, kwargs, "recipient")
        found = caller(recipient, _first(args, kwargs))
        if found is None:
            return self._unseen(runtime, kwargs)
        place, scope, context = found
        edges, _ = causes(scope, context)
        message = Message(scope.activation, place, scope.activation, edges)
        message.flow = scope.flow.here()
        self._note(runtime, kwargs, message)
        return message

    def _unseen(self, runtime: Any, kwargs: dict[str, Any]) -> Sent | None:
        """Have what handles a message be suppressed where who sends it is."""
        context = get_current()
        if not is_suppressed(context):
            return None
        message = Unseen(context)
        self._note(runtime, kwargs, message)
        return message

    def _note(self, runtime: Any, kwargs: dict[str, Any], message: Sent) -> None:
        message_id = kwargs.get("message_id")
        if message_id is None:
            # The runtime would mint one just like it.
            message_id = kwargs["message_id"] = str(uuid.uuid4())
        sent = self._sent.get(runtime)
        if sent is None:
            sent = self._sent[runtime] = {}
            weakref.finalize(runtime, _abandon, sent).atexit = False
        if message_id in sent:
            self._forget(runtime, message_id)  # the host's own id, of a message on its way
        sent[message_id] = message
        opened = message.opened
        if opened is not None:
            opened.hold()  # for the message
            opened.hold()  # for the call

    @guarded
    def _called(
        self,
        runtime: Any,
        message_id: str,
        message: Sent,
        error: BaseException | None,
        *,
        is_back: bool,
    ) -> None:
        """Note that a call into the runtime is over; one that failed left no message behind.

        One that was given up did: the runtime hands it out all the same.
        """
        is_given_up = error is not None and not isinstance(error, Exception)
        if is_back and not is_given_up and not message.is_begun:
            self._forget(runtime, message_id)
        if message.flow is not None and message.closed is not None:
            message.flow.returned(message.closed)
        opened = message.opened
        if opened is None:
            return
        if message.is_hosts:
            opened.called(error)
        else:
            opened.release()

    def process(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Follow what the runtime's queue hands out, until all handlers are done with it."""
        table = self._table(runtime)
        if not table or not args or args[0].message_id not in table:
            return wrapped(*args, **kwargs)
        return self._process(wrapped(*args, **kwargs), runtime, args[0].message_id)

    @guarded
    def _table(self, runtime: Any) -> dict[str, Sent] | None:
        return self._sent.get(runtime) if self._sent else None

    async def _process(self, work: Any, runtime: Any, message_id: str) -> Any:
        message = (self._table(runtime) or {}).get(message_id)
        if message is None:
            return await work  # who sent it gave it up after the queue handed it out
        message.is_begun = True
        del message  # an error holds this frame for as long as the host keeps it
        try:
            return await work
        finally:
            self._forget(runtime, message_id)

    @guarded
    def _forget(self, runtime: Any, message_id: str, stop: Stop | None = None) -> None:
        message = self._sent[runtime].pop(message_id, None)
        if message is not None:
            _let_go(message, stop)

    def stop(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Let go of what a runtime that stops drops from its queue.

        One that waits until it is idle drops it too where a handler's error, or whoever gave
        the waiting up, ends it first.
        """
        return self._stop(wrapped(*args, **kwargs), runtime)

    async def _stop(self, work: Any, runtime: Any) -> Any:
        try:
            return await work
        finally:
            self._drop(runtime)

    def take(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Let go of a message that an intervention handler of the host's drops."""
        work = wrapped(*args, **kwargs)
        return self._take(work, runtime) if f.may_drop(runtime) else work

    async def _take(self, work: Any, runtime: Any) -> Any:
        taken: list[str] = []
        token = _TAKEN.set(taken)
        try:
            result = await work
        finally:
            with suppress(ValueError):  # a loop that is thrown away is closed elsewhere
                _TAKEN.reset(token)
        self._taken(runtime, taken)
        return result

    @guarded
    def _taken(self, runtime: Any, taken: list[str]) -> None:
        """Let go of a message that was taken and is in nobody's hands: it would be by now."""
        for message_id in taken:
            message = (self._table(runtime) or {}).get(message_id)
            if message is not None and not message.is_begun:
                self._forget(runtime, message_id)

    @staticmethod
    def offered(wrapped: Any, _module: Any, args: Any, kwargs: Any) -> Any:
        """Note which message a step of a runtime takes, as it offers it to the first handler."""
        made = wrapped(*args, **kwargs)
        taken = _TAKEN.get()
        if taken is not None and not taken:
            taken.append(made.message_id)
        return made

    def step(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Let go of the rest where a step that the host takes by hand raises a handler's error."""
        return self._step(wrapped(*args, **kwargs), runtime)

    async def _step(self, work: Any, runtime: Any) -> Any:
        try:
            return await work
        except Exception:
            self._drop(runtime)
            raise

    def _drop(self, runtime: Any) -> None:
        for message_id, message in list((self._table(runtime) or {}).items()):
            if not message.is_begun:
                self._forget(runtime, message_id, STOPPED)

    def handle(self, wrapped: Any, agent: Any, args: Any, kwargs: Any) -> Any:
        """Trace what an agent of the core does with a message; those of a team's are none."""
        is_teams = args and f.is_one(args[0], f.GROUP_CHAT)
        message = None if is_teams else self._message(agent, args, kwargs)
        if message is None:
            return wrapped(*args, **kwargs)
        return follow(lambda: _begin(agent, message), wrapped(*args, **kwargs))

    @guarded
    def _message(self, agent: Any, args: Any, kwargs: Any) -> Sent | None:
        context = handled(args, kwargs)
        if not isinstance(context, f.MessageContext):
            return None  # a test of the host's calls its agent as no runtime does
        table = self._table(agent.runtime)
        found = None if table is None else table.get(context.message_id)
        return found or self._elsewhere(context.sender)


def _without_frames(error: BaseException) -> BaseException:
    """Return an error that says what `error` does, and holds nobody's variables.

    Of the host's class, but made by Python's own: the host's may want more than its words.
    Errors that it was made of, as groups are, hold frames too.
    """
    kind = type(error)
    makers = (vars(base).get("__new__") for base in kind.__mro__)
    make: Any = next(one for one in makers if isinstance(one, BuiltinFunctionType))
    made: BaseException = make(kind, *map(_bare, error.args))
    return made


def _bare(given: Any) -> Any:
    if isinstance(given, BaseException):
        return _without_frames(given)
    return type(given)(map(_bare, given)) if type(given) in (list, tuple) else given


def _let_go(message: Sent, stop: Stop | None) -> None:
    """Let go of the run that a message is of; `stop` is why it ends, if it has no reason yet."""
    opened = message.opened
    if opened is None:
        return
    if stop is not None and opened.stop is IDLE:
        opened.stop = stop
    opened.release()


@guarded
def _abandon(sent: dict[str, Sent]) -> None:
    """Let go of the messages of a runtime that is gone: nobody hands them out any more."""
    while sent:
        _let_go(sent.popitem()[1], STOPPED)


def handled(args: Any, kwargs: Any) -> Any:
    """Return the context with which an agent is asked to handle a message; None without one."""
    return kwargs["ctx"] if "ctx" in kwargs else next(iter(args[1:]), None)


@guarded
def _begin(agent: Any, message: Sent) -> Call | None:
    if isinstance(message, Unseen):
        return Call(message.context)
    return _open(agent, message) if isinstance(message, Message) else None


def _open(agent: Any, message: Message) -> Call:
    below = message.below
    if not below.run.is_recording:
        return Unrecorded(message)
    name = plain_text(agent.id.type)
    instance, is_new = below.of_object(name, agent)
    edges = message.edges
    opens = message.opens
    if opens is None:
        opens = "spawn" if is_new else "delegate"
    if opens == "spawn":
        edges = [("spawn" if kind == "causal" else kind, mark) for kind, mark in edges]
    activation = open_activation(
        below,
        name,
        opens=opens,
        instance=instance,
        by=message.sender if message.sender != below.agent else None,
        edges=edges,
    )
    activation.owner = agent
    return Handler(message, Work(activation))


def _second(args: Any, kwargs: dict[str, Any], name: str) -> Any:
    return args[1] if len(args) > 1 else kwargs.get(name)


def _first(args: Any, kwargs: dict[str, Any]) -> object:
    return args[0] if args else kwargs.get("message")


def caller(receiver: Any, message: object) -> tuple[Place, Scope, Context] | None:
    """Return who calls into a runtime, and where what it leads to is recorded."""
    context = get_current()
    if is_suppressed(context) or not isinstance(getattr(receiver, "type", None), str):
        return None  # AutoGen refuses it
    scope = scope_of(context)
    if scope is None or (scope.run.is_closed and not scope.run.is_remote):
        scope = join_run()
    if scope is None:
        run = start_run(
            plain_text(receiver.type),
            agent=ORCHESTRATOR,
            system="autogen",
            task_id=content.task_id((message,), {}),
        )
        if run is None:
            return None
        return Place(run.root, CoreRun(run)), run.root, run.root.context
    place = context.get(_PLACE)
    if isinstance(place, Place) and place.below.run is scope.run:
        return place, scope, context
    return Place(scope.activation, None), scope, context


def tell(verb: str, receiver: Any, scope: Scope, context: Context) -> Mark:
    """Record that something is sent; of a run that a sampler dropped nothing is."""
    if not scope.run.is_recording:
        return scope.activation.opened
    edges, facts = causes(scope, context)
    if verb == "message":
        facts[a.CHANNEL] = plain_text(receiver.type)
    mark = instant(scope.activation, verb, to=receiver.type, edges=edges, attributes=facts)
    scope.flow.here().last = mark
    return mark


def causes(scope: Scope, context: Context) -> tuple[list[Edge], dict[str, Value]]:
    """Return the causes of what is sent now, and the LLM calls that it came of."""
    work = work_of(scope, context)
    flow = scope.flow.here()
    if work is None or flow is not scope.flow:
        return flow.take(), {}
    edges, turns = work.produce()
    return edges, {a.TURNS: turns} if turns else {}
