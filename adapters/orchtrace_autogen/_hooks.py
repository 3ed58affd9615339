"""Which of AutoGen's names are wrapped, and by what; importing this imports AutoGen."""

from __future__ import annotations

from orchtrace_autogen import _framework as f
from orchtrace_autogen import _tools
from orchtrace_autogen._labels import Label, Labels
from orchtrace_autogen._manager import ManagerHooks
from orchtrace_autogen._models import ModelHooks
from orchtrace_autogen._runs import RunHooks
from orchtrace_autogen._runtime import RuntimeHooks
from orchtrace_autogen._team import TeamRun
from orchtrace_autogen._telemetry import silence
from orchtrace_otel.adapter import Patches

_labels = Labels()


def label(target: object, name: str, role: str | None) -> bool:
    """Give a team or an agent its name in traces; say whether it is one."""
    if not isinstance(target, (f.BaseGroupChat, f.BaseChatAgent)):
        return False
    _labels.put(target, Label(name, role))
    return True


class Hooks:
    """The hooks while they are in."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._models = ModelHooks()
        self._teams: dict[str, TeamRun] = {}

    def install(self) -> None:
        """Put them in."""
        patches = self._patches
        silence(patches)
        self._wrap_entries(patches)
        self._wrap_messages(patches)
        patches.wrap(f.AssistantAgent, "_execute_tool_call", _tools.assistant_call)
        patches.wrap(f.BaseTool, "run_json", _tools.tool_run)
        patches.wrap(f.BaseStreamTool, "run_json_stream", _tools.tool_stream)
        self._models.instrument()

    def _wrap_entries(self, patches: Patches) -> None:
        runs = RunHooks(self._teams, _labels)
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

    def remove(self) -> None:
        """Take them out; runs that are open end, but what they do is not followed any more."""
        self._models.uninstrument()
        self._patches.undo()
        self._teams.clear()
