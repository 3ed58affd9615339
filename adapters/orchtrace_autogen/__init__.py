"""AutoGen agentchat as orchestration traces: teams, speaker choices, turns, tools, stops."""

from __future__ import annotations

from orchtrace_autogen._adapter import AutoGenAdapter
from orchtrace_autogen._replay_target import Recorded

__all__ = ["AutoGenAdapter", "Recorded"]
