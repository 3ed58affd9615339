"""LangGraph for orchtrace: graphs, nodes, joins, routers, tools and LLM calls.

Importing this package imports no LangGraph; `LangGraphAdapter.instrument` does.
"""

from __future__ import annotations

from orchtrace_langgraph._adapter import LangGraphAdapter
from orchtrace_langgraph._replay_record import Recorded

__all__ = ["LangGraphAdapter", "Recorded"]
