"""Messages between processes: the gRPC worker runtime carries the run along.

A request has room for W3C context, which AutoGen fills from what is current; a published
event gets it by the names that the CloudEvents extension for tracing has. Whoever
handles the message joins the run that it names. The close of what answered a request
comes back with the response.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context, attach, create_key, detach, get_current, set_value
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from orchtrace_autogen import _framework as f
from orchtrace_autogen._core import CoreRun, Message, Place, caller, tell
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Patches
from orchtrace_otel.flow import Flow, Mark
from orchtrace_otel.model import plain_text
from orchtrace_otel.spans import Activation, Block, Run, carrying, is_suppressed, join_run

MODULE: Final = "autogen_ext.runtimes.grpc._worker_runtime"
_METADATA: Final = "get_telemetry_grpc_metadata"
_SENDING: Final = create_key("orchtrace-autogen-sending")
_CARRIED: Final = create_key("orchtrace-autogen-carried")
_W3C: Final = TraceContextTextMapPropagator()
_MOST_RUNS: Final = 1_000
_NOBODY: Final = ("unknown", "unknown")
"""Who sent what no agent published, in the words of AutoGen's worker."""


class Sending:
    """A message that goes out.

    Attributes:
        context: What is current while it is sent: the event that it is.
        opened: The run that the call opened or that it is part of.
        is_hosts: Whether the call opened the run.
        flow: Where the answer goes.
        request: The id of the request, once it has one.
    """

    __slots__ = ("context", "flow", "is_hosts", "opened", "request")

    def __init__(self, event: SpanContext) -> None:
        span = NonRecordingSpan(event)
        self.context = set_value(_SENDING, self, trace.set_span_in_context(span))
        self.opened: CoreRun | None = None
        self.flow: Flow | None = None
        self.is_hosts = False
        self.request: str | None = None


class Carried:
    """A message that came in, while it is handled.

    Attributes:
        is_request: Whether somebody waits for an answer.
        answered: The close of the activation that handled it.
    """

    __slots__ = ("answered", "is_request")

    def __init__(self, *, is_request: bool) -> None:
        self.is_request = is_request
        self.answered: Mark | None = None


class RemoteHooks:
    """Wrappers of the gRPC worker runtime."""

    def __init__(self) -> None:
        self._patches: Patches | None = None
        self._open: MutableMapping[str, CoreRun] = weakref.WeakValueDictionary()
        self._roots: MutableMapping[str, Activation] = weakref.WeakValueDictionary()
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._waiting: MutableMapping[Any, dict[str, Sending]] = weakref.WeakKeyDictionary()

    def install(self, patches: Patches) -> None:
        """Wrap the runtime's class when it is there, with `patches`."""
        self._patches = patches

    @guarded
    def adopt(self, kind: type[Any]) -> None:
        """Wrap a class of runtimes if it is AutoGen's gRPC worker."""
        if self._patches is None or kind.__module__ != MODULE:
            return
        wrap = self._patches.wrap
        wrap(kind, "publish_message", self.publish)
        wrap(kind, "send_message", self.send)
        wrap(kind, "_send_message", _put_on)
        wrap(kind, "_get_new_request_id", self.numbered)
        wrap(kind, "_process_request", _requested)
        wrap(kind, "_process_event", _told)
        wrap(kind, "_process_response", self.answered)
        wrap(sys.modules[MODULE], _METADATA, _metadata)

    async def publish(self, wrapped: Any, _runtime: Any, args: Any, kwargs: Any) -> Any:
        """Follow a message that is published to a topic."""
        return await self._follow(
            self._begin("message", "topic_id", args, kwargs), wrapped, args, kwargs
        )

    async def send(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Follow a message that is sent to an agent, and its answer."""
        sending = self._begin("delegate", "recipient", args, kwargs)
        try:
            return await self._follow(sending, wrapped, args, kwargs)
        finally:
            if sending is not None and sending.request is not None:
                self._waiting.get(runtime, {}).pop(sending.request, None)
            del sending  # an error holds this frame for as long as the host keeps it

    @guarded
    def _begin(self, verb: str, receiver: str, args: Any, kwargs: Any) -> Sending | None:
        given = args[1] if len(args) > 1 else kwargs.get(receiver)
        message = args[0] if args else kwargs.get("message")
        if f.is_one(message, f.GROUP_CHAT):
            return None
        found = caller(given, message)
        if found is None:
            return Sending(_unseen()) if is_suppressed(get_current()) else None
        place, scope, context = found
        sending = Sending(tell(verb, given, scope, context).link.context)
        sending.flow = scope.flow.here()
        sending.opened = opened = place.opened
        sending.is_hosts = opened is not None and scope.activation is opened.run.root
        run = scope.run
        if not run.is_remote:
            self._roots[run.id] = run.root
        if opened is not None:
            opened.hold()
            self._open[run.id] = opened
        return sending

    @staticmethod
    async def _follow(sending: Sending | None, wrapped: Any, args: Any, kwargs: Any) -> Any:
        if sending is None:
            return await wrapped(*args, **kwargs)
        block = Block(sending.context)
        try:
            result = await wrapped(*args, **kwargs)
        except BaseException as error:
            block.leave()
            _over(sending, error)
            del block, sending  # see send
            raise
        block.leave()
        _over(sending, None)
        return result

    async def numbered(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Note the id of a request that goes out."""
        request = await wrapped(*args, **kwargs)
        sending = get_current().get(_SENDING)
        if isinstance(sending, Sending):
            sending.request = str(request)
            self._waiting.setdefault(runtime, {})[sending.request] = sending
        return request

    def answered(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Take the cause that a response brings, before the one who waits goes on."""
        self._answer(runtime, args)
        return wrapped(*args, **kwargs)

    @guarded
    def _answer(self, runtime: Any, args: Any) -> None:
        sending = self._waiting.get(runtime, {}).pop(str(args[0].request_id), None)
        remote = _remote(args[0].metadata)
        if sending is not None and sending.flow is not None and remote is not None:
            sending.flow.returned(Mark(f"{remote.span_id:016x}.close", Link(remote)))

    @guarded
    def message(self, sender: Any) -> Message | None:
        """Return the message from another process that is handled now, if there is one."""
        context = get_current()
        carried = context.get(_CARRIED)
        asking = join_run() if isinstance(carried, Carried) else None
        if asking is None or not isinstance(carried, Carried):
            return None
        cause = asking.opened
        root = self._roots.get(asking.run.id)
        if root is not None and not root.run.is_closed:
            # The run is at home here: an answer to another process, or to ourselves.
            asking.run = root.run
        else:
            root = _root_of(asking)
            if asking.run.is_recording:
                root.run = self._run(root.run)
            asking.run = root.run
        opened = self._open.get(asking.run.id)
        if opened is not None and opened.run.is_closed:
            opened = None  # it was over before this came, and takes nothing more
        below = asking if carried.is_request else root
        edges = [("causal", cause)]
        if not carried.is_request:
            edges.append(("message", cause))
        message = Message(below, Place(root, opened), below, edges)
        if sender is None or (sender.type, sender.key) == _NOBODY:
            message.sender = below.agent
        else:
            message.sender = plain_text(sender.type)
        message.opens = "begin" if carried.is_request else None
        message.carried = carried
        return message

    def _run(self, run: Run) -> Run:
        """Return the run as it was joined first: its agents' lives go on."""
        known = self._runs.setdefault(run.id, run)
        self._runs.move_to_end(run.id)
        if len(self._runs) > _MOST_RUNS:
            self._runs.popitem(last=False)
        return known


def _unseen() -> SpanContext:
    """Return a run that nobody records, for what is sent where instrumentation is suppressed.

    Whoever handles it would else begin runs of its own, or be told of the caller's.
    """
    ids = RandomIdGenerator()
    span_id = ids.generate_span_id()
    span = SpanContext(ids.generate_trace_id(), span_id, is_remote=False)
    return carrying(span, f"{span_id:016x}")


@guarded
def _over(sending: Sending, error: BaseException | None) -> None:
    if sending.opened is None:
        return
    if sending.is_hosts:
        sending.opened.called(error)
    else:
        sending.opened.release()


def _root_of(asking: Activation) -> Activation:
    """Return the root of the run that a message comes from: publishers do not wait."""
    state = asking.span.get_span_context().trace_state
    root = SpanContext(
        int(asking.run.trace_id, 16),
        int(asking.run.id.rpartition("-")[2], 16),
        is_remote=True,
        trace_flags=asking.span.get_span_context().trace_flags,
        trace_state=state,
    )
    token = attach(trace.set_span_in_context(NonRecordingSpan(root)))
    try:
        return join_run() or asking
    finally:
        detach(token)


def _remote(carrier: Mapping[str, str]) -> SpanContext | None:
    context = _W3C.extract(dict(carrier), Context())
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None


def _put_on(wrapped: Any, _runtime: Any, args: Any, kwargs: Any) -> Any:
    """Give a published event the context that AutoGen drops on its way."""
    _put(args)
    return wrapped(*args, **kwargs)


@guarded
def _put(args: Any) -> None:
    message = args[0]
    if not isinstance(get_current().get(_SENDING), Sending) or not message.HasField("cloudEvent"):
        return
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    for key, value in carrier.items():
        message.cloudEvent.attributes[key].ce_string = value


async def _requested(wrapped: Any, _runtime: Any, args: Any, kwargs: Any) -> Any:
    request = args[0]
    return await _handle(dict(request.metadata), wrapped, args, kwargs, is_request=True)


async def _told(wrapped: Any, _runtime: Any, args: Any, kwargs: Any) -> Any:
    attributes = args[0].attributes
    carrier = {
        key: attributes[key].ce_string for key in ("traceparent", "tracestate") if key in attributes
    }
    return await _handle(carrier, wrapped, args, kwargs, is_request=False)


async def _handle(
    carrier: Mapping[str, str], wrapped: Any, args: Any, kwargs: Any, *, is_request: bool
) -> Any:
    """Let a message be handled under the context that it brings, not the queue's."""
    remote = _remote(carrier)
    if remote is None or remote.trace_state.get(a.TRACESTATE_KEY) is None:
        return await wrapped(*args, **kwargs)
    context = trace.set_span_in_context(NonRecordingSpan(remote), Context())
    block = Block(set_value(_CARRIED, Carried(is_request=is_request), context))
    try:
        return await wrapped(*args, **kwargs)
    finally:
        block.leave()


def _metadata(wrapped: Any, _module: Any, args: Any, kwargs: Any) -> Any:
    """Let a response bring back the close of what answered it."""
    return _answer_metadata() or wrapped(*args, **kwargs)


@guarded
def _answer_metadata() -> dict[str, str] | None:
    context = get_current()
    carried = context.get(_CARRIED)
    if not isinstance(carried, Carried) or carried.answered is None:
        return None
    metadata: dict[str, str] = {}
    span = NonRecordingSpan(carried.answered.link.context)
    _W3C.inject(metadata, context=trace.set_span_in_context(span, Context()))
    return metadata
