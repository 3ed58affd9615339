"""Where LangGraph and LangChain are looked up: by name, untyped, absent in some versions."""

from __future__ import annotations

import importlib
from typing import Any


def find(path: str) -> Any:
    """Return what `module:name` names, or the module that `module` names.

    Raises:
        ImportError: If there is no such module.
        AttributeError: If the module has no such name.
    """
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found
