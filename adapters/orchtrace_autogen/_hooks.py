"""Which of AutoGen's names are wrapped, and by what; importing this imports AutoGen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchtrace_autogen import _framework as f
from orchtrace_autogen import _tools
from orchtrace_autogen._core import CoreHooks
from orchtrace_autogen._families import Family
from orchtrace_autogen._human import PauseHooks, user_input
from orchtrace_autogen._labels import Label, Labels
from orchtrace_autogen._ledger import LedgerHooks
from orchtrace_autogen._manager import ManagerHooks
from orchtrace_autogen._models import CLIENTS
from orchtrace_autogen._remote import RemoteHooks
from orchtrace_autogen._resume import Resumed
from orchtrace_autogen._runs import RunHooks
from orchtrace_autogen._runtime import RuntimeHooks
from orchtrace_autogen._sampling import SamplingHooks
from orchtrace_autogen._team import TeamRun
from orchtrace_autogen._telemetry import Telemetry
from orchtrace_otel.adapter import Patches
from orchtrace_otel.spans import outcomes

if TYPE_CHECKING:
    from opentelemetry.context import Context

_labels = Labels()


def label(target: object, name: str, role: str | None) -> bool:
    """Give a team or an agent its name in traces; say whether it is one."""
    if not isinstance(target, (f.BaseGroupChat, f.BaseChatAgent)):
        return False
    _labels.put(target, Label(name, role))
    return True


class Hooks:
    """The hooks while they are in.

    Args:
        telemetry: What becomes of AutoGen's own spans: `reuse`, `quiet` or `replace`.
        links_state: Whether saved states name the run that they come from.
    """

    def __init__(self, telemetry: str, *, links_state: bool) -> None:
        self._patches = Patches()
        self._telemetry = Telemetry(telemetry)
        self._remote = RemoteHooks()
        self._sampling = SamplingHooks()
        self._families = [
            Family(f.ChatCompletionClient, CLIENTS),
            Family(f.Workbench, _tools.WORKBENCHES, self._adopt_workbench),
            Family(f.Memory, _tools.MEMORIES),
            Family(f.CodeExecutor, _tools.EXECUTORS),
            Family(f.AgentRuntime, {}, self._remote.adopt),
        ]
        self._teams: dict[str, TeamRun] = {}
        self._dropped: dict[str, Context] = {}
        self._resumed = Resumed(self._teams, writes_key=links_state)

    def install(self) -> None:
        """Put them in."""
        outcomes.update(dict.fromkeys(f.ERRORS, outcomes[Exception]))
        patches = self._patches
        self._remote.install(patches)
        self._telemetry.install(patches)
        self._sampling.install(patches)
        self._wrap_entries(patches)
        self._wrap_messages(patches)
        patches.wrap(f.AssistantAgent, "_execute_tool_call", _tools.assistant_call)
        patches.wrap(f.BaseTool, "run_json", _tools.tool_run)
        patches.wrap(f.BaseStreamTool, "run_json_stream", _tools.tool_stream)
        for family in self._families:
            family.instrument()

    def _adopt_workbench(self, kind: type[Any]) -> None:
        self._telemetry.adopt(kind)
        self._sampling.adopt(kind)

    def _wrap_entries(self, patches: Patches) -> None:
        runs = RunHooks(self._teams, self._dropped, _labels, self._resumed)
        patches.wrap(f.BaseGroupChat, "run_stream", runs.team_stream)
        patches.wrap(f.BaseChatAgent, "run", runs.agent_run)
        patches.wrap(f.BaseChatAgent, "run_stream", runs.agent_stream)
        patches.wrap(f.BaseGroupChat, "reset", self._resumed.reset)
        patches.wrap(f.BaseGroupChat, "save_state", self._resumed.save)
        patches.wrap(f.BaseGroupChat, "load_state", self._resumed.load)
        pauses = PauseHooks(self._teams)
        patches.wrap(f.BaseGroupChat, "pause", pauses.pause)
        patches.wrap(f.BaseGroupChat, "resume", pauses.resume)
        patches.wrap(f.UserProxyAgent, "_get_input", user_input)

    def _wrap_messages(self, patches: Patches) -> None:
        core = CoreHooks(self._remote.message)
        runtime = RuntimeHooks(self._teams, self._dropped, core)
        patches.wrap(f.SingleThreadedAgentRuntime, "publish_message", runtime.publish)
        patches.wrap(f.SingleThreadedAgentRuntime, "send_message", runtime.send)
        patches.wrap(f.SingleThreadedAgentRuntime, "_process_publish", core.process)
        patches.wrap(f.SingleThreadedAgentRuntime, "_process_send", core.process)
        patches.wrap(f.SingleThreadedAgentRuntime, "process_next", core.step)
        patches.wrap(f.SingleThreadedAgentRuntime, "_process_next", core.take)
        patches.wrap(f.runtime, "MessageContext", core.offered)
        patches.wrap(f.SingleThreadedAgentRuntime, "stop", runtime.stop)
        patches.wrap(f.SingleThreadedAgentRuntime, "stop_when", core.stop)
        patches.wrap(f.SingleThreadedAgentRuntime, "stop_when_idle", core.stop)
        patches.wrap(f.BaseAgent, "on_message", core.handle)
        # Below the lock that makes a group chat's agents handle one message at a time.
        patches.wrap(f.RoutedAgent, "on_message_impl", runtime.handle)
        manager = ManagerHooks(self._teams)
        patches.wrap(f.BaseGroupChatManager, "_log_speaker_selection", manager.chosen)
        patches.wrap(f.BaseGroupChatManager, "_signal_termination", manager.stops)
        patches.wrap(f.BaseGroupChatManager, "_signal_termination_with_error", manager.fails)
        patches.wrap(f.SelectorGroupChatManager, "_select_speaker", manager.selecting)
        patches.wrap(f.GraphFlowManager, "update_message_thread", manager.arrived)
        patches.wrap(f.GraphFlowManager, "_reset_execution_state", manager.anew)
        patches.wrap(f.GraphFlowManager, "load_state", manager.anew)
        ledger = LedgerHooks(self._teams)
        patches.wrap(f.MagenticOneOrchestrator, "_orchestrate_step", ledger.step)
        patches.wrap(f.MagenticOneOrchestrator, "_update_task_ledger", ledger.replan)
        patches.wrap(f.MagenticOneOrchestrator, "_prepare_final_answer", ledger.answer)
        patches.wrap(f.magentic, "extract_json_from_str", ledger.parse)

    def remove(self) -> None:
        """Take them out; runs that are open end, but what they do is not followed any more."""
        for family in reversed(self._families):
            family.uninstrument()
        self._patches.undo()
        self._teams.clear()
        self._dropped.clear()
