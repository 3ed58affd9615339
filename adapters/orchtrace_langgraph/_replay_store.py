"""A store that a replay may write to: what it puts there is its own, the user's is only read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orchtrace_langgraph._framework import find


def overlay(store: Any) -> Any:
    """Return a store over the user's; None for none.

    Reads see what the replay has put, and below it what the user's store holds now.
    """
    if store is None:
        return None
    base = find("langgraph.store.base")
    own = find("langgraph.store.memory:InMemoryStore")()
    gone: set[tuple[Any, str]] = set()

    class Overlay(base.BaseStore):  # type: ignore[misc, name-defined] # looked up
        """Puts go to memory; gets and searches to both."""

        def batch(self, ops: Iterable[Any]) -> list[Any]:
            listed = list(ops)
            below = store.batch([op for op in listed if not _puts(op)])
            return _merge(listed, own.batch(listed), below, gone)

        async def abatch(self, ops: Iterable[Any]) -> list[Any]:
            listed = list(ops)
            below = await store.abatch([op for op in listed if not _puts(op)])
            return _merge(listed, own.batch(listed), below, gone)

    return Overlay()


def _puts(op: Any) -> bool:
    return type(op).__name__ == "PutOp"


def _merge(
    ops: list[Any], own: list[Any], below: list[Any], gone: set[tuple[Any, str]]
) -> list[Any]:
    left = iter(below)
    found: list[Any] = []
    for op, ours in zip(ops, own, strict=True):
        if _puts(op):
            key = (tuple(op.namespace), op.key)
            (gone.add if op.value is None else gone.discard)(key)
            found.append(None)
        else:
            found.append(_read(ours, next(left), gone, op))
    return found


def _read(ours: Any, theirs: Any, gone: set[tuple[Any, str]], op: Any) -> Any:
    """Return what one reading operation finds in both."""
    kind = type(op).__name__
    if kind == "GetOp":
        is_gone = (tuple(op.namespace), op.key) in gone
        return ours if ours is not None or is_gone else theirs
    if kind != "SearchOp":
        return list(dict.fromkeys([*ours, *theirs]))
    known = {_key(one) for one in ours} | gone
    return [*ours, *(one for one in theirs if _key(one) not in known)][: op.limit]


def _key(item: Any) -> tuple[Any, str]:
    return tuple(item.namespace), item.key
