"""AutoGen agentchat as orchestration traces: teams, speaker choices, turns, tools, stops."""

from __future__ import annotations

from orchtrace_autogen._adapter import AutoGenAdapter

__all__ = ["AutoGenAdapter"]
