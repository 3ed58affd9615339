"""What a writer reads: groups of runs of one task, their calls, and what these said."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from orchtrace_otel.datasets.chat import chat, tool_schemas
from orchtrace_otel.datasets.labels import Label, run_label, turn_label
from orchtrace_otel.tables.joining import is_given, settle

if TYPE_CHECKING:
    from orchtrace_otel.content.tokens import Tokens
    from orchtrace_otel.content.turn import TurnContent
    from orchtrace_otel.datasets.contents import Contents
    from orchtrace_otel.datasets.job import Job
    from orchtrace_otel.tables.rows import Rows

Json: TypeAlias = dict[str, Any]


class Call:
    """One LLM call: its row of the turns table, and what it said.

    Attributes:
        row: The row; keys that are absent are unknown. docs/tables.md tells each.
        run: The run it belongs to.
        label: Its number, or why there is none.
    """

    __slots__ = ("_completion", "_content", "_contents", "_prompt", "label", "row", "run")

    def __init__(self, row: Json, run: Run, contents: Contents, job: Job) -> None:
        self.row = row
        self.run = run
        self.label: Label = turn_label(row, job.reward, run.structural, job.given)
        self._contents = contents
        self._content: TurnContent | None = None
        self._prompt: list[Json] | None = None
        self._completion: list[Json] | None = None

    def __repr__(self) -> str:
        return f"Call({self.id!r} of {self.agent!r})"

    @property
    def id(self) -> str:
        """Span id of the call."""
        return str(self.row.get("id", "unknown"))

    @property
    def agent(self) -> str:
        """Who called; empty where nobody said."""
        return str(self.row.get("agent", ""))

    @property
    def role(self) -> str | None:
        """The part that the agent plays."""
        return self.row.get("role")

    @property
    def has_content(self) -> bool:
        """Whether its content was captured, so that `content` may be there."""
        return "content_ref" in self.row

    @property
    def content(self) -> TurnContent:
        """All that it read and wrote; read once.

        Raises:
            ContentError: If the store lacks it or a part of it, or there is no store.
        """
        if self._content is None:
            self._content = self._contents.turn(self.row)
        return self._content

    @property
    def tokens(self) -> Tokens:
        """Its token ids and log probabilities; raises what `content` raises."""
        return self.content.tokens

    @property
    def prompt(self) -> list[Json]:
        """What it read, as chat messages; raises what `content` raises."""
        if self._prompt is None:
            self._prompt = chat(self.content.prompt)
        return self._prompt

    @property
    def completion(self) -> list[Json]:
        """What it wrote, its first choice, as chat messages; raises what `content` raises."""
        if self._completion is None:
            self._completion = chat(self.content.completion[:1])
        return self._completion

    @property
    def tools(self) -> list[Json]:
        """The tools on offer, as schemas; raises what `content` raises."""
        return tool_schemas(self.content.tools)

    @property
    def model(self) -> str | None:
        """The model that answered."""
        return self.row.get("model")

    @property
    def policy_version(self) -> str | None:
        """Version of the policy that wrote it, where somebody said it."""
        known = self.row.get("policy_version_max")
        if known is None and self.has_content:
            known = self.content.policy_version
        return known


class Run:
    """One run: its row of the runs table, and its rows of the others.

    Attributes:
        row: The row of the runs table.
        calls: Every LLM call, by start.
        chosen: Those of them that the filters and the format's needs let through.
        label: The team's number, or why there is none.
        structural: Components that are computed from the trace alone.
        stage: How many updates of any agent's policy there were before it began.
        rows: All rows; tables that the writer did not ask for are empty.
    """

    def __init__(self, rows: Rows, contents: Contents, job: Job) -> None:
        self.rows = rows
        self.row = rows.run
        self.structural = _structural(rows.rewards)
        self.calls = [Call(row, self, contents, job) for row in rows.turns]
        self.chosen = self.calls
        self.label: Label = self._label(job)
        self.stage = bisect_right(job.updates, self.row.get("start_unix_nano", 0))

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def id(self) -> str:
        """The run's id."""
        return str(self.row["run_id"])

    @property
    def weight(self) -> float:
        """How many runs it stands for."""
        return float(self.row.get("weight", 1.0))

    @property
    def has_task(self) -> bool:
        """Whether somebody said what its task is; else its task is the run's own id."""
        return bool(self.row["task_id"] != self.row["run_id"])

    def let_go(self) -> None:
        """Forget the calls, which name their run: else both wait for Python's collector."""
        self.calls = self.chosen = []

    def _label(self, job: Job) -> Label:
        settled = settle(row for row in self.rows.rewards if row.get("source") == "record")
        of_team = {key.component: value for key, value in settled.items() if key.unit == "team"}
        disagreeing = {name for name, value in of_team.items() if value is None}
        known = {**self.row.get("rewards", {}), **of_team}
        sound: dict[str, float] = {
            name: value for name, value in known.items() if value is not None
        }
        return run_label(sound, disagreeing, job.reward, self.structural, job.given)


def _structural(rewards: Iterable[Json]) -> frozenset[str]:
    """Return the components that nobody gave: computed from the trace, or only on its events."""
    computed: set[str] = set()
    given: set[str] = set()
    for row in rewards:
        counts = row.get("source") == "record" and is_given(row)
        (given if counts else computed).add(str(row.get("component")))
    return frozenset(computed - given)


@dataclass(slots=True)
class Group:
    """The runs of one task that are left after the filters.

    Attributes:
        task_id: What was asked.
        cluster: The tasks that are alike have one; none is in two splits.
        split: `train` or `validation`.
        runs: By id.
        job: What is asked for.
    """

    task_id: str
    cluster: str
    split: str
    job: Job
    runs: list[Run] = field(default_factory=list["Run"])

    @property
    def calls(self) -> Iterator[Call]:
        """The calls of all runs that filters and needs let through."""
        for run in self.runs:
            yield from run.chosen


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a data set.

    Attributes:
        data: What the format asks for, as JSON.
        runs: The runs it comes from.
        turns: The calls it comes from; empty where it is a whole run's.
        weight: How many of it there would be without sampling.
        missing: Why a label is missing, where one is; one of `REASONS`.
        label: The number it is labelled with, where there is one.
        group: Records that are compared with one another share it.
    """

    data: Mapping[str, Any]
    runs: Sequence[str]
    turns: Sequence[str] = ()
    weight: float = 1.0
    missing: str | None = None
    label: float | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is not in the data set, and why; `turn` is None for a whole run."""

    reason: str
    run: str
    turn: str | None = None


def of_call(call: Call, data: Mapping[str, Any]) -> Record:
    """Make a record that comes from one call, labelled as the call is."""
    return Record(
        data,
        (call.run.id,),
        (call.id,),
        call.run.weight,
        call.label.missing,
        call.label.value,
        str(call.row["task_id"]),
    )
