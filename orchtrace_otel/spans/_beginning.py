"""How a run begins: with a root of its own here, below one in another process, or in a fork."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.model import plain_text
from orchtrace_otel.sampling import weight_of
from orchtrace_otel.spans._activation import Activation, Elsewhere
from orchtrace_otel.spans._carrying import carrying
from orchtrace_otel.spans._interval import Interval, end_span, scope_of
from orchtrace_otel.spans._run import Run
from orchtrace_otel.spans._tracing import (
    Attributes,
    Tracing,
    Value,
    is_suppressed,
    tracing,
    watchers,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context

_SPAN_ID: Final = re.compile("(?!0{16})[0-9a-f]{16}")


@guarded
def start_run(  # noqa: PLR0913 - one keyword a fact of the run
    name: str,
    *,
    agent: str | None = None,
    system: str = "python",
    task_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    links: Sequence[str] = (),
    attributes: Attributes | None = None,
) -> Run | None:
    """Open a run below whatever span is current; None while nobody listens.

    Args:
        name: Name of the team; low in cardinality.
        agent: Name of the orchestrator's agent; the team's name unless given.
        system: `langgraph`, `autogen` or `python`.
        task_id: What was asked, if the user has a name for it.
        tags: The user's own keys and values.
        links: Causes in other runs, each `<run id>:<event id>`.
        attributes: Further attributes of the root.
    """
    where = tracing()
    context = otel_context.get_current()
    if where is None or is_suppressed(context):
        return None
    name = plain_text(name)
    agent = plain_text(agent or name)
    run = Run(where, name)
    facts: dict[str, Value] = {
        a.OPERATION: a.INVOKE_WORKFLOW,
        a.WORKFLOW_NAME: name,
        a.AGENT_NAME: agent,
        a.OPENS: "begin",
        a.INSTANCE: run.instance(agent),
        a.SYSTEM: system,
    }
    if task_id is not None:
        facts[a.TASK_ID] = plain_text(task_id)
    if tags:
        facts.update(
            {a.TAG_PREFIX + plain_text(key): plain_text(value) for key, value in tags.items()}
        )
    if links:
        facts[a.RUN_LINKS] = list(links)
    if attributes:
        facts.update(attributes)
    root = Activation(
        run,
        None,
        f"{a.INVOKE_WORKFLOW} {name}",
        facts,
        (),
        context,
        agent,
        str(facts[a.INSTANCE]),
        None,
    )
    span_context = root.span.get_span_context()
    above = trace.get_current_span(context).get_span_context()
    if span_context.span_id == above.span_id:
        return None  # a tracer that is off gives back what is current, which is the host's
    run.root = root
    try:
        _begin(run, where, above, links)
    except BaseException:  # an interrupt
        _leave_off(run)
        raise
    return run


def _begin(run: Run, where: Tracing, above: SpanContext, links: Sequence[str]) -> None:
    root = run.root
    span_context = root.span.get_span_context()
    run.trace_id = format(span_context.trace_id, "032x")
    run.id = f"{run.trace_id}-{root.span_id}"
    run.is_recording = root.span.is_recording()
    link_runs(root, links)
    _carry(root)
    if run.is_recording:
        weight = weight_of(getattr(where.tracer, "sampler", None), above, span_context)
        root.set({a.RUN_ID: run.id} if weight is None else {a.RUN_ID: run.id, a.WEIGHT: weight})
        _follow(run, where)


def _leave_off(run: Run) -> None:
    """End a run of which nobody gets to know."""
    if run.followed is None:
        end_span(run.root.span, run.now())
    else:
        run.close(stop_reason="cancelled", status="cancelled")


def _follow(run: Run, where: Tracing) -> None:
    root = run.root
    # The SDK's spans begin with the attributes that a sampler returns, and no others.
    run.is_bare = a.OPENS not in (getattr(root.span, "attributes", root.written) or ())
    if run.is_bare:
        root.set(root.written)
    if where.observer is not None:
        run.followed = where.observer.opened(run)
    if watchers:
        run.watcher = watchers[-1](run)


_LINKED: Final = re.compile("([0-9a-f]{32})-[0-9a-f]{16}:([0-9a-f]{16})")


def link_runs(interval: Interval, links: Sequence[str]) -> None:
    """Point OTel links at causes in other runs, each `<run id>:<event id>`."""
    for item in links:
        found = _LINKED.match(item)
        if found is not None:
            trace_id, span_id = int(found[1], 16), int(found[2], 16)
            interval.span.add_link(SpanContext(trace_id, span_id, is_remote=True))


def _carry(root: Activation) -> None:
    """Put the run into the tracestate of its root.

    Samplers hand a parent's tracestate on to its children, so everything below,
    the host's own HTTP spans included, takes the run along to another process. The
    root's id is known only when its span has started.
    """
    root.become(carrying(root.span.get_span_context(), root.span_id))


@guarded
def join_run() -> Activation | None:
    """Return the activation elsewhere that the current context comes from, if any.

    With the run id in tracestate, what is called here belongs to the caller's run:
    it gets no root, and its first cause is the span that called. It is one activation for all
    that happens under that span. That run is in another
    process, or in this one, where the host handed on a span and not the context. A task
    of this process that outlived its run comes from nowhere else: what begins in it is not
    that run's.
    """
    context = otel_context.get_current()
    span = trace.get_current_span(context)
    remote = span.get_span_context()
    if not remote.is_valid:
        return None
    root_id = remote.trace_state.get(a.TRACESTATE_KEY)
    where = tracing() if root_id is not None and _SPAN_ID.fullmatch(root_id) else None
    if where is None or is_suppressed(context):
        return None
    run_id = f"{remote.trace_id:032x}-{root_id}"
    scope = scope_of(context)
    if scope is not None and scope.run.id == run_id and not scope.run.is_remote:
        return None
    known = _joined_under(span)
    if known is not None and known.run.id == run_id and _goes_on(known.run, where):
        return known
    joined = _join(where, span, context, run_id)
    with suppress(TypeError):  # a span of another make, which has no room
        vars(span)[_JOINED] = joined
    return joined


_JOINED: Final = "_orchtrace_joined"
"""Where a span, such as a server's, keeps what stands for the caller: what is called under it one
after another would else be strangers that know nothing of each other."""


def _goes_on(run: Run, where: Tracing) -> bool:
    return run.tracing is where and not run.is_closed


def _joined_under(span: Span) -> Elsewhere | None:
    known = getattr(span, _JOINED, None)
    return known if isinstance(known, Elsewhere) else None


def _join(where: Tracing, span: Span, context: Context, run_id: str) -> Elsewhere:
    run = None if where.observer is None else where.observer.find(run_id)
    if run is not None:
        return Elsewhere(run, span, context)
    if watchers:
        warn_once(
            "advise:remote",
            "orchtrace gives no advice in runs whose root is in another process, since only a "
            "part of them is seen here; call advise() where the run begins",
        )
    remote = span.get_span_context()
    run = Run(where, "")
    run.is_remote = True
    run.trace_id = format(remote.trace_id, "032x")
    run.id = run_id
    run.settle_apart()
    run.root = joined = Elsewhere(run, span, context)
    run.is_recording = remote.trace_flags.sampled
    return joined


class _Child:
    """A forked process that goes on in the run in which it was forked.

    It has copies of the agents there, which live on in its parent and in other children.
    """

    def start_afresh(self) -> None:
        """Have what is called from now on be lives of their own.

        What is open around the fork is the parent's to end: a child that leaves by an
        exit or an error, or returns, comes out of the same calls.
        """
        context = otel_context.get_current()
        scope = scope_of(context) or _joined_under(trace.get_current_span(context))
        around = None if scope is None else scope.activation
        while scope is not None:
            scope.is_closed = True
            scope = scope.outside
        if around is not None:
            around.run.settle_apart()
        while around is not None:
            around.idle = None
            around = around.parent


_CHILD: Final = _Child()
afresh_in_children(_CHILD)
