"""Which trainers are installed here; each has an environment of its own."""

from __future__ import annotations

import importlib.util

import pytest


def needs(module: str) -> pytest.MarkDecorator:
    """Skip a file whose trainer is not in this environment."""
    is_here = importlib.util.find_spec(module) is not None
    reason = f"{module} is not in this environment; make test-trainers runs it, with one for it"
    return pytest.mark.skipif(not is_here, reason=reason)
