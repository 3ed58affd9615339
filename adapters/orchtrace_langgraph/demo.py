"""The LangGraph team of `orchtrace demo`: a research team on scripted models.

A supervisor sends four researchers out at once; each asks a tool for a figure and puts
it into words. An editor merges what they bring, a critic approves it, and the team
stops. The same words come out each time.
"""

from __future__ import annotations

import operator
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.tools import tool
from typing_extensions import TypedDict

from orchtrace_langgraph._framework import find

if TYPE_CHECKING:
    from langchain_core.outputs import ChatResult

StateGraph: Any = find("langgraph.graph:StateGraph")
Send: Any = find("langgraph.types:Send")
START: Final = "__start__"
END: Final = "__end__"

TITLE: Final = "LangGraph: a supervisor, four researchers at once, a critic"
TASK: Final = "Should the town build a second bridge?"

_FIGURES: Final = {
    "cost": "41 million euros, a quarter of it from the region",
    "traffic": "18,000 cars a day wait 9 minutes",
    "nature": "two hectares of reed are lost and planted anew",
    "ferries": "the ferry would stop, 30 jobs with it",
}


class Scripted(FakeMessagesListChatModel):
    """A chat model that gives the next of its answers, after a moment."""

    model_name: str = "scripted-chat"
    seconds: float = 0.01

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        time.sleep(self.seconds)
        return super()._generate(messages, *args, **kwargs)


def _says(text: str, *calls: ToolCall) -> AIMessage:
    read, written = 40 + len(text), len(text.split()) + 12 * len(calls)
    return AIMessage(
        text,
        tool_calls=list(calls),
        usage_metadata={
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
        },
        response_metadata={"finish_reason": "tool_calls" if calls else "stop"},
    )


def _model(*answers: AIMessage, seconds: float = 0.01) -> Scripted:
    return Scripted(responses=list(answers), seconds=seconds)


@tool
def look_up(topic: str) -> str:
    """Look a figure up in the town's records."""
    time.sleep(0.004 * len(topic))
    return _FIGURES[topic]


class Team(TypedDict, total=False):
    """What the team shares."""

    task: str
    topics: list[str]
    findings: Annotated[list[str], operator.add]
    draft: str
    verdict: str


class Errand(TypedDict):
    """What one researcher is sent out with."""

    topic: str


def supervisor(state: Team) -> Team:
    """Split the task into topics."""
    model = _model(_says(", ".join(_FIGURES)), seconds=0.02)
    plan = model.invoke([HumanMessage(state.get("task", TASK))])
    return {"topics": str(plan.content).split(", ")}


def send_out(state: Team) -> list[Any]:
    """Send one researcher out for each topic."""
    return [Send("researcher", Errand(topic=topic)) for topic in state.get("topics", [])]


def researcher(errand: Errand) -> Team:
    """Look one topic up and put it into words."""
    topic = errand["topic"]
    call = ToolCall(name="look_up", args={"topic": topic}, id=f"look-up-{topic}")
    model = _model(
        _says("", call), _says(f"On {topic}: {_FIGURES[topic]}."), seconds=0.004 * len(topic)
    )
    asked: list[BaseMessage] = [HumanMessage(topic)]
    wants = model.invoke(asked)
    found = look_up.invoke(wants.tool_calls[0])
    says = model.invoke([*asked, wants, found])
    return {"findings": [str(says.content)]}


def editor(state: Team) -> Team:
    """Merge the findings into a draft."""
    return {"draft": "\n".join(sorted(state.get("findings", [])))}


def critic(state: Team) -> Team:
    """Say whether the draft answers the task."""
    model = _model(_says("It weighs cost against use: approved."), seconds=0.03)
    verdict = model.invoke([HumanMessage(state.get("draft", ""))])
    return {"verdict": str(verdict.content)}


def judge(state: Team) -> str:
    """Stop once the critic approves."""
    return END if "approved" in state.get("verdict", "") else "supervisor"


def build_team() -> Any:
    """Return the compiled graph; it knows nothing of tracing."""
    team = StateGraph(Team)
    team.add_node("supervisor", supervisor)
    team.add_node("researcher", researcher)
    team.add_node("editor", editor)
    team.add_node("critic", critic)
    team.add_edge(START, "supervisor")
    team.add_conditional_edges("supervisor", send_out, ["researcher"])
    team.add_edge("researcher", "editor")
    team.add_edge("editor", "critic")
    team.add_conditional_edges("critic", judge, ["supervisor", END])
    return team.compile(name="research team")


def run() -> Any:
    """Run the team to its end and return the state it ends with."""
    return build_team().invoke({"task": TASK, "findings": []})
