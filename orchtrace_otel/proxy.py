"""An object whose entry methods are traced, for objects that no adapter knows."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any

import wrapt

from orchtrace_otel.calls import Plan
from orchtrace_otel.wrapping import SELF, trace_function

# wrapt's proxies are generic for type checkers alone until wrapt 2.
if TYPE_CHECKING:
    _ObjectProxy = wrapt.ObjectProxy[Any]
else:
    _ObjectProxy = wrapt.ObjectProxy


class TracedObject(_ObjectProxy):
    """Stands for an object; everything but its entry methods is the object's own.

    Args:
        wrapped: The object.
        traced: Its entry methods, traced, by name.
        plan: What it was decorated as.
    """

    def __init__(self, wrapped: Any, traced: Mapping[str, Callable[..., Any]], plan: Plan) -> None:
        super().__init__(wrapped)
        self._self_traced = traced
        self._self_plan = plan

    @property
    def __orchtrace__(self) -> object:
        """What it was decorated as, for adapters that find it in their framework."""
        return self._self_plan

    def __copy__(self) -> Any:
        """Copy the object; the copy is traced as this one is."""
        return stand_in(copy.copy(self.__wrapped__), self._self_traced, self._self_plan)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy the object and what it holds; the copy is traced as this one is."""
        inner = copy.deepcopy(self.__wrapped__, memo)
        return stand_in(inner, self._self_traced, self._self_plan)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle the object, and how it is traced."""
        return stand_in, (self.__wrapped__, tuple(self._self_traced), self._self_plan)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            traced = super().__getattribute__("_self_traced").get(name)
            if traced is not None:
                return traced
        return super().__getattribute__(name)


class TracedCallable(TracedObject):
    """The same for an object that can be called: one that cannot must not look as if."""

    @property
    def __call__(self) -> Callable[..., Any]:
        """The object's own call, traced: frameworks look at whether it is a coroutine's."""
        return self._self_traced["__call__"]


def stand_in(wrapped: Any, methods: Iterable[str], plan: Plan) -> TracedObject:
    """Return a proxy of an object, decorated as `plan`, whose entry `methods` are traced."""
    traced = {name: _trace_method(wrapped, getattr(wrapped, name), plan) for name in methods}
    return (TracedCallable if "__call__" in traced else TracedObject)(wrapped, traced, plan)


def _trace_method(wrapped: Any, method: Any, plan: Plan) -> Callable[..., Any]:
    """Return an entry method, traced, and a method still: pickled it is found by its object."""
    if inspect.ismethod(method) and method.__self__ is wrapped:
        return MethodType(trace_function(plan, method.__func__, SELF), wrapped)
    return trace_function(plan, method, wrapped)
