"""Everything of AutoGen that the hooks touch, private names included.

The names are those of 0.6.4 to 0.7.5; where the two differ, the difference ends here.
"""

# pyright: reportPrivateUsage=false
# AutoGen has no public name for most of what a trace needs; this is the file that may know it.

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import autogen_agentchat.teams._group_chat._events as events
import autogen_agentchat.teams._group_chat._magentic_one._magentic_one_orchestrator as magentic
import autogen_core._single_threaded_agent_runtime as runtime
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, UserProxyAgent
from autogen_agentchat.base import Response, TaskResult, Team, TerminatedException
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage
from autogen_agentchat.teams import BaseGroupChat
from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._chat_agent_container import ChatAgentContainer
from autogen_agentchat.teams._group_chat._graph._digraph_group_chat import GraphFlowManager
from autogen_agentchat.teams._group_chat._selector_group_chat import SelectorGroupChatManager
from autogen_core import (
    AgentId,
    AgentRuntime,
    BaseAgent,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
)
from autogen_core.code_executor import CodeExecutor, CodeResult
from autogen_core.memory import Memory
from autogen_core.models import ChatCompletionClient, CreateResult, FunctionExecutionResult
from autogen_core.tool_agent import ToolException
from autogen_core.tools import BaseStreamTool, BaseTool, ToolResult, Workbench

from orchtrace_otel.model import plain_text

__all__ = [
    "AgentId",
    "AgentRuntime",
    "AssistantAgent",
    "BaseAgent",
    "BaseChatAgent",
    "BaseGroupChat",
    "BaseGroupChatManager",
    "BaseStreamTool",
    "BaseTool",
    "ChatAgentContainer",
    "ChatCompletionClient",
    "CodeExecutor",
    "CodeResult",
    "CreateResult",
    "FunctionExecutionResult",
    "GraphFlowManager",
    "HandoffMessage",
    "MagenticOneOrchestrator",
    "Memory",
    "MessageContext",
    "RoutedAgent",
    "SelectorGroupChatManager",
    "SingleThreadedAgentRuntime",
    "TaskResult",
    "Team",
    "ToolResult",
    "TopicId",
    "UserProxyAgent",
    "Workbench",
    "magentic",
    "runtime",
]

MagenticOneOrchestrator = magentic.MagenticOneOrchestrator
AgentResponse: Final = events.GroupChatAgentResponse
ChatError: Final = events.GroupChatError
Request: Final = events.GroupChatRequestPublish
Start: Final = events.GroupChatStart
# 0.6.4 knows no team among the participants of a team.
TeamResponse: Final[type[Any] | None] = getattr(events, "GroupChatTeamResponse", None)

ERRORS: Final[tuple[type[BaseException], ...]] = (ToolException, TerminatedException)
"""Errors that AutoGen derives from `BaseException`, as if the process were to end."""

STAMPED: Final[frozenset[type[Any]]] = frozenset(
    kind for kind in (AgentResponse, ChatError, Request, Start, TeamResponse) if kind is not None
)
"""Messages that cause something; all others are copies for the caller's stream."""

GROUP_CHAT: Final[frozenset[type[Any]]] = frozenset(
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and kind.__module__ == events.__name__
)
"""All messages by which a team runs; what else goes through a runtime is the host's own."""


def is_one(message: object, kinds: Collection[type[Any]]) -> bool:
    """Whether a message is of one of AutoGen's own classes; a class of the host's may have no hash.

    Classes are compared by identity alone.
    """
    of = type(message)
    return any(of is kind for kind in kinds)


def team_id(team: BaseGroupChat) -> str:
    """Return what is the key of every agent of a team's runtime."""
    return team._team_id  # noqa: SLF001 - see the top


def may_drop(runtime: SingleThreadedAgentRuntime) -> bool:
    """Return whether a runtime asks handlers of the host's before it hands a message out."""
    return runtime._intervention_handlers is not None  # noqa: SLF001 - see the top


def is_embedded(team: BaseGroupChat) -> bool:
    """Return whether a team has a runtime of its own, which ends with its run."""
    return team._embedded_runtime  # noqa: SLF001 - see the top


def team_name(team: BaseGroupChat) -> str:
    """Return the team's name; before 0.7 teams had none but their class's."""
    return plain_text(getattr(team, "name", None) or type(team).__name__)


def participant(container: ChatAgentContainer) -> Any:
    """Return the agent or the team that a container speaks for."""
    return container._agent  # noqa: SLF001 - see the top


def buffered(container: ChatAgentContainer) -> Sequence[BaseChatMessage]:
    """Return the messages that a participant reads in the turn that comes."""
    return container._message_buffer  # noqa: SLF001 - see the top


def topics(manager: BaseGroupChatManager) -> Mapping[str, str]:
    """Return the topic of each participant, by name."""
    return manager._participant_name_to_topic_type  # noqa: SLF001 - see the top


def manager_name(manager: BaseGroupChatManager) -> str:
    """Return the name that a manager signs its own messages with."""
    return manager._name  # noqa: SLF001 - see the top


def condition(manager: BaseGroupChatManager) -> Any:
    """Return the termination condition of a manager, if it has one."""
    return manager._termination_condition  # noqa: SLF001 - see the top


def response_of(message: Any) -> Response:
    """Return the response in a participant's answer; its field was renamed in 0.7."""
    response: Response = getattr(message, "response", None) or message.agent_response
    return response


def chose_the_only_one(manager: SelectorGroupChatManager, name: str) -> bool | None:
    """Whether nobody but a speaker could be chosen, where its model was not asked.

    A function that selects may choose any, and so may a manager of the host's own; where a function
    may have chosen whoever spoke last, or have left it to the only one, nobody can tell: then None.
    """
    if type(manager) is not SelectorGroupChatManager:
        return False
    if manager._selector_func is None:  # noqa: SLF001 - see the top
        return True
    return None if manager._previous_speaker == name else False  # noqa: SLF001 - see the top


def graph_tables(manager: GraphFlowManager) -> tuple[Any, Any, Any, Any, Any]:
    """Return a flow's edges, kinds of group, and what groups await at first, and still await."""
    return (
        manager._edges,  # noqa: SLF001 - see the top
        manager._activation,  # noqa: SLF001 - see the top
        manager._origin_remaining,  # noqa: SLF001 - see the top
        manager._remaining,  # noqa: SLF001 - see the top
        manager._enqueued_any,  # noqa: SLF001 - see the top
    )
