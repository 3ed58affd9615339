"""Where LangGraph and LangChain are looked up: by name, untyped, absent in some versions."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Final

COMMAND: Final = "langgraph.types:Command"
"""What nodes, tools and callers say with where to go."""


def find(path: str) -> Any:
    """Return what `module:name` names, or the module that `module` names.

    Raises:
        ImportError: If there is no such module.
        AttributeError: If the module has no such name.
    """
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


_found = functools.cache(find)


def is_a(value: object, path: str) -> bool:
    """Whether a value is of the class that `module:name` names, or of one derived from it.

    A class of the host's may have the same name as one of LangGraph's. Neither the value nor
    its class's own class is asked, which could run the host's code.
    """
    return type.__subclasscheck__(_found(path), type(value))
