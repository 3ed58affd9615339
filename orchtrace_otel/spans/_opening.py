"""The kinds of spans that a run has below its root, each opened with its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from orchtrace_otel import attributes as a
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.model import plain_text
from orchtrace_otel.spans._activation import Activation
from orchtrace_otel.spans._interval import Interval, Scope, lies_below
from orchtrace_otel.spans._tracing import Attributes, Value

if TYPE_CHECKING:
    from opentelemetry.context import Context


def open_activation(  # noqa: PLR0913 - one keyword a fact of the opening
    parent: Activation,
    agent: str,
    *,
    opens: str = "spawn",
    instance: str | None = None,
    role: str | None = None,
    by: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Activation:
    """Open a stretch of work by `agent` below `parent`.

    Args:
        parent: The activation that contains it.
        agent: Name of the agent.
        opens: `spawn` when it begins the instance's life, `delegate` when the
            instance is used again, `begin` when an instant recorded either already.
        instance: The instance, from `Run.instance`; a new one unless given.
        role: The agent's role.
        by: Agent that caused it, where it is not the parent's.
        edges: Causes of the opening.
        attributes: Further attributes.
        context: OTel context of its span where that is not right below `parent`.
    """
    run = parent.run
    if type(agent) is not str:
        agent = plain_text(agent)
    if instance is None:
        instance = run.instance(agent)
    facts: dict[str, Value] = {
        a.OPERATION: a.INVOKE_AGENT,
        a.AGENT_NAME: agent,
        a.OPENS: opens,
        a.INSTANCE: instance,
    }
    if role is not None:
        facts[a.ROLE] = role = plain_text(role)
    if by is not None:
        facts[a.BY] = by
    if attributes:
        facts.update(attributes)
    if not lies_below(parent.span, context):
        facts[a.ACTIVATION] = parent.span_id  # its OTel parent is another span, such as a user's
    return Activation(
        run,
        parent,
        f"{a.INVOKE_AGENT} {agent}",
        facts,
        edges,
        context,
        agent,
        instance,
        role,
    )


def open_tool(  # noqa: PLR0913 - one keyword a fact of the call
    parent: Activation,
    tool: str,
    *,
    call_id: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Scope:
    """Open a call of `tool` by the agent of `parent`.

    Args:
        parent: The activation that calls it.
        tool: Name of the tool.
        call_id: The model's own id of the call.
        edges: Causes of the call.
        attributes: Further attributes.
        context: OTel context of its span where that is not right below `parent`.
    """
    tool = plain_text(tool)
    facts: dict[str, Value] = {
        a.OPERATION: a.EXECUTE_TOOL,
        a.TOOL_NAME: tool,
        a.AGENT_NAME: parent.agent,
        a.VERB: a.TOOL_CALL,
    }
    if call_id is not None:
        facts[a.TOOL_CALL_ID] = call_id
    if attributes:
        facts.update(attributes)
    if not lies_below(parent.span, context):
        facts[a.ACTIVATION] = parent.span_id  # its OTel parent is another span, such as a user's
    opened = Scope(parent.run, parent, f"{a.EXECUTE_TOOL} {tool}", facts, edges, context)
    opened.source = opened.inside = None
    parent.hold(opened)
    return opened


def open_turn(
    parent: Activation,
    model: str | None,
    *,
    provider: str | None = None,
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Interval:
    """Open an LLM call by the agent of `parent`; its usage is set when it closes.

    Args:
        parent: The activation that calls it.
        model: The model that is asked, if it is known.
        provider: Who serves it, in the words of the GenAI conventions.
        attributes: Further attributes.
        context: OTel context of its span where that is not right below `parent`.
    """
    facts: dict[str, Value] = {a.OPERATION: a.CHAT, a.VERB: a.TURN}
    if model is not None:
        facts[a.REQUEST_MODEL] = model
    if provider is not None:
        facts[a.PROVIDER] = provider
    if attributes:
        facts.update(attributes)
    if not lies_below(parent.span, context):
        facts[a.ACTIVATION] = parent.span_id  # its OTel parent is another span, such as a user's
    name = a.CHAT if model is None else f"{a.CHAT} {model}"
    return Interval(parent.run, parent, name, facts, (), context)


def open_interval(  # noqa: PLR0913 - one keyword a fact of the event
    parent: Activation,
    verb: str,
    *,
    name: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Interval:
    """Open an event that takes time: an aggregate, a decision, a human's intervention.

    Args:
        parent: The activation whose event it is.
        verb: One of `model.VERBS`.
        name: What stands behind the verb in the span's name; the agent unless given.
        edges: Causes of the event.
        attributes: Further attributes.
        context: OTel context of its span where that is not right below `parent`.
    """
    facts: dict[str, Value] = dict(attributes) if attributes else {}
    if not lies_below(parent.span, context):
        facts[a.ACTIVATION] = parent.span_id  # its OTel parent is another span, such as a user's
    return open_point(parent, verb, f"{verb} {name or parent.agent}", edges, facts, context)


def instant(
    parent: Activation,
    verb: str,
    *,
    to: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
) -> Mark:
    """Record an event without length by the agent of `parent`, and return its mark.

    Args:
        parent: The activation whose event it is.
        verb: One of `model.VERBS`.
        to: Agent that it goes to.
        edges: Causes of the event.
        attributes: Further attributes.
    """
    facts: dict[str, Value] = dict(attributes) if attributes else {}
    if to is not None:
        facts[a.TO] = to = plain_text(to)
    name = f"{_SPAN_VERB.get(verb, verb)} {to or parent.agent}"
    point = open_point(parent, verb, name, edges, facts)
    point.end_at(point.began)
    return point.opened


_SPAN_VERB: Final = {"message": "send"}


def open_point(  # noqa: PLR0913 - what every event of one id has
    parent: Activation,
    verb: str,
    name: str,
    edges: Sequence[Edge],
    facts: dict[str, Value],
    context: Context | None = None,
) -> Interval:
    """Open the span of an event that is one event, named by its verb."""
    facts[a.VERB] = verb
    facts.setdefault(a.AGENT_NAME, parent.agent)
    return Interval(parent.run, parent, name, facts, edges, context)
