"""What stands in the place of what a node wrote, in the shape in which it wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from orchtrace_langgraph._framework import is_a
from orchtrace_otel.errors import ReplayBlockedError

Messages: TypeAlias = dict[str, Any]
"""Messages by their ids, by which a state of messages knows them."""

_MESSAGE: Final = "langchain_core.messages:BaseMessage"
_REMOVES: Final = "langchain_core.messages:RemoveMessage"


def hides(_: str) -> list[Any]:
    """Return the updates of a channel by what is taken out: none."""
    return []


def instead_of(edit: Any) -> Callable[[Any], Any]:
    """Return what a node whose agent is edited is: a function of its input, or a fixed update."""
    return cast("Callable[[Any], Any]", edit) if callable(edit) else lambda _: edit


def edited(
    writes: Sequence[tuple[str, Any]], edit: Any, keeps: Mapping[str, bool]
) -> Callable[[str], list[Any] | None]:
    """Return, for a channel, the updates that a reader finds instead; None for those as they were.

    Args:
        writes: What was written.
        edit: An update of the state, or the new text of the one thing that was written.
        keeps: Channels of the state.

    Raises:
        ReplayBlockedError: If it does not say which of several things it is, or names none.
    """
    if isinstance(edit, Mapping):
        update = cast("Mapping[str, Any]", edit)
        if update.keys() - keeps.keys():
            msg = (
                "an edit of what was written must name channels of the state, "
                f"got {sorted(update.keys() - keeps.keys())}"
            )
            raise ReplayBlockedError(msg)
        return lambda channel: [update[channel]] if channel in update else None
    own = [(channel, value) for channel, value in writes if channel in keeps]
    if len(own) != 1:
        msg = (
            "an edit of what was written to several channels must be a mapping of channel to "
            f"update, got a {type(edit).__name__}; it wrote {[name for name, _ in own]}"
        )
        raise ReplayBlockedError(msg)
    ((name, value),) = own
    new = shaped(value, edit)
    return lambda channel: [new] if channel == name else None


def added(writes: Sequence[tuple[str, Any]], edit: Any) -> frozenset[str]:
    """Return the channels that an edit writes, and that were not written.

    Example:
        >>> added([("notes", ["old"])], {"draft": "new"})
        frozenset({'draft'})
    """
    if not isinstance(edit, Mapping):
        return frozenset()
    update = cast("Mapping[str, Any]", edit)
    return frozenset(update).difference(name for name, _ in writes)


def shaped(value: Any, edit: Any) -> Any:
    """Return an edit in the shape of what it replaces: a list of one stays a list of one.

    Example:
        >>> shaped(["old"], "new"), shaped("old", "new")
        (['new'], 'new')
    """
    old: Any = value
    if old.__class__ is list and edit.__class__ is not list:
        return [shaped(old[0], edit)] if len(old) == 1 else [edit]
    if isinstance(edit, str) and hasattr(old, "model_copy") and hasattr(old, "content"):
        return old.model_copy(update={"content": edit})
    return edit


def messages_in(values: Iterable[Any], known: Messages) -> Messages:
    """Return the messages in lists, by id, that are not `known` as they are."""
    return {
        one.id: one
        for value in values
        if value.__class__ is list
        for one in value
        if is_a(one, _MESSAGE) and one.id is not None and known.get(one.id) != one
    }


def without(value: Any, others: Messages) -> Any:
    """Return what was written without the messages of others that it only hands on, or removes.

    A graph that is a node, as prebuilt agents are, gives back all the messages that it was given.
    """
    if not others or value.__class__ is not list:
        return value
    return [one for one in value if not _is_of_others(one, others)]


def _is_of_others(one: Any, others: Messages) -> bool:
    if not is_a(one, _MESSAGE) or one.id not in others:
        return False
    return is_a(one, _REMOVES) or bool(one == others[one.id])
