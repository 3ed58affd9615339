"""The adapter: which of AutoGen's names are wrapped, and by what."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, MutableMapping
from typing import Any, ClassVar

from orchtrace_autogen import _framework as f
from orchtrace_autogen import _tools
from orchtrace_autogen._manager import ManagerHooks
from orchtrace_autogen._models import ModelHooks
from orchtrace_autogen._runs import Label, RunHooks
from orchtrace_autogen._runtime import RuntimeHooks
from orchtrace_autogen._team import TeamRun
from orchtrace_autogen._telemetry import silence
from orchtrace_otel.adapter import Adapter, Patches


class AutoGenAdapter(Adapter):
    """Traces AutoGen agentchat.

    A participant's turn is an activation of the agent, the team's manager is the
    orchestrator. Edges of a flow decide what caused a turn of GraphFlow; elsewhere
    every answer that the manager waited for did.
    """

    name: ClassVar[str] = "autogen"
    extra: ClassVar[str] = "autogen"
    module: ClassVar[str] = "autogen_agentchat"
    requires: ClassVar[Mapping[str, str]] = {
        "autogen-agentchat": ">=0.6.4,<0.8",
        "autogen-core": ">=0.6.4,<0.8",
    }

    def __init__(self) -> None:
        self._patches: Patches | None = None
        self._models = ModelHooks()
        self._teams: dict[str, TeamRun] = {}
        self._labels: MutableMapping[Any, Label] = weakref.WeakKeyDictionary()

    def instrument(self) -> None:
        """Put the hooks in."""
        patches = self._patches = Patches()
        silence(patches)
        self._wrap_entries(patches)
        self._wrap_messages(patches)
        patches.wrap(f.AssistantAgent, "_execute_tool_call", _tools.assistant_call)
        patches.wrap(f.BaseTool, "run_json", _tools.tool_run)
        patches.wrap(f.BaseStreamTool, "run_json_stream", _tools.tool_stream)
        self._models.instrument()

    def _wrap_entries(self, patches: Patches) -> None:
        runs = RunHooks(self._teams, self._labels)
        patches.wrap(f.BaseGroupChat, "run_stream", runs.team_stream)
        patches.wrap(f.BaseChatAgent, "run", runs.agent_run)
        patches.wrap(f.BaseChatAgent, "run_stream", runs.agent_stream)

    def _wrap_messages(self, patches: Patches) -> None:
        runtime = RuntimeHooks(self._teams)
        patches.wrap(f.SingleThreadedAgentRuntime, "publish_message", runtime.publish)
        patches.wrap(f.SingleThreadedAgentRuntime, "send_message", runtime.send)
        # Below the lock that makes a group chat's agents handle one message at a time.
        patches.wrap(f.RoutedAgent, "on_message_impl", runtime.handle)
        manager = ManagerHooks(self._teams)
        patches.wrap(f.BaseGroupChatManager, "_log_speaker_selection", manager.chosen)
        patches.wrap(f.BaseGroupChatManager, "_signal_termination", manager.stops)
        patches.wrap(f.BaseGroupChatManager, "_signal_termination_with_error", manager.fails)
        patches.wrap(f.SelectorGroupChatManager, "_select_speaker", manager.selecting)
        patches.wrap(f.GraphFlowManager, "update_message_thread", manager.arrived)

    def uninstrument(self) -> None:
        """Take the hooks out."""
        self._models.uninstrument()
        if self._patches is not None:
            self._patches.undo()
            self._patches = None
        self._teams.clear()

    def wrap(self, target: Any, name: str, role: str | None) -> Any:
        """Give a team or an agent its name in traces; it stays the object that it is."""
        if not isinstance(target, (f.BaseGroupChat, f.BaseChatAgent)):
            return None
        self._labels[target] = Label(name, role)
        return target

    def demo(self) -> Any:
        """Run a round-robin team with a tool, offline."""
        from orchtrace_autogen import demo  # noqa: PLC0415 - only the CLI needs it

        return demo.run()
