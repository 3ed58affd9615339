"""Which argument of a call is the object whose method it is: that one is not what was asked.

A function that is decorated in the body of a class is called with its object, or its class,
in front. Nobody says so to a decorator, so it is told by what is known: by the parameter's
name, by the class in whose body the function stands, and by what a class holds it as.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any, Final, cast

from orchtrace_otel.calls import MARK

_NAMES: Final = frozenset(("self", "cls"))
_HELD_AS: Final = frozenset((FunctionType, classmethod, staticmethod))


class Method:
    """How to tell the object from the arguments of a function.

    Args:
        name: Name of the parameter that takes the object, where that is sure: what comes
            first is the object then, whatever it is.
        home: Module and qualified name of the class in whose body the function stands.
    """

    __slots__ = ("_home", "_name")

    def __init__(self, name: str | None, home: tuple[str, str] | None = None) -> None:
        self._name = name
        self._home = home

    def arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the arguments of a call without its object."""
        if not args:
            return args, {name: held for name, held in kwargs.items() if name != self._name}
        return (args[1:] if self._name is not None or self._is_of(args[0]) else args), kwargs

    def _is_of(self, first: Any) -> bool:
        """Whether the function is a method of what it is called with."""
        is_home = False
        for kind in _classes_of(first):
            for held in list(vars(kind).values()):
                if type(held) in _HELD_AS and self._is_in(held):
                    return type(held) is not staticmethod
            is_home = is_home or (kind.__module__, kind.__qualname__) == self._home
        return is_home

    def _is_in(self, held: Any) -> bool:
        function: Any = held if type(held) is FunctionType else held.__func__
        plan: Any = function.__dict__.get(MARK) if type(function) is FunctionType else None
        return plan is not None and plan.method is self


ALWAYS: Final = Method("self")
"""The object is in front, and known to be."""


def _classes_of(first: Any) -> tuple[type[Any], ...]:
    """Return the classes that may hold a method of an object, or of a class."""
    kind = cast("type[object]", type(first))
    above: tuple[type[Any], ...] = kind.__mro__
    return (*first.__mro__, *above) if type in above else above


def method_of(target: Any) -> Method | None:
    """Return how to tell the object from the arguments of what is decorated.

    Returns:
        None where nothing but arguments comes: for functions outside of classes, static
        methods, methods that are bound already.
    """
    kind = cast("Any", type(target))
    if issubclass(kind, classmethod):
        return ALWAYS
    is_function = inspect.isroutine(target) or issubclass(kind, functools.partial)
    if issubclass(kind, staticmethod) or not is_function:
        return None
    first = _first_of(target)
    if first is not None and first.name in _NAMES:
        return Method(first.name)
    if not isinstance(target, FunctionType):
        return None
    home = target.__qualname__.rpartition(".")[0]
    is_in_class = bool(home) and not home.endswith("<locals>")
    is_open = first is not None and first.kind is inspect.Parameter.VAR_POSITIONAL
    if not is_in_class and not is_open:
        return None
    return Method(None, (target.__module__, home) if is_in_class else None)


def _first_of(target: Any) -> inspect.Parameter | None:
    try:
        return next(iter(inspect.signature(target).parameters.values()), None)
    except (TypeError, ValueError):  # some written in C have none
        return None
