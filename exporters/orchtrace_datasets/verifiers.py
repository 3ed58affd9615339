"""`verifiers`: whole runs as `Episode` lines, an agent's trace each, for verifiers and prime-rl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from orchtrace_datasets import groups
from orchtrace_datasets.links import COLUMNS, TABLES, Link, Links
from orchtrace_datasets.provenance import SETTINGS, sampled, spared, version_span
from orchtrace_datasets.stretches import Stretch, stretches
from orchtrace_datasets.verifiers_nodes import Nodes, is_typed, messages
from orchtrace_otel.datasets import Call, Dropped, Group, Need, Outcome, Record, Run, Writer
from orchtrace_otel.tables.turns import CUT

Json: TypeAlias = dict[str, Any]

_TRACES: Final = ("instance", "run")
_ADVANTAGES: Final = ("given", "group")
_FINISHED: Final = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    **dict.fromkeys(CUT, "length"),
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "function_calls": "tool_calls",
    "tool_use": "tool_calls",
}


class Verifiers(Writer):
    """One row a run: an `Episode` of verifiers 0.4 with a `Trace` for each instance of an agent.

    A trace has one reward, so that an instance whose calls earned different things has a
    trace for each stretch of them. With `-s traces=run` all agents are branches of one
    trace, and links between them are semantic parents of its nodes.
    """

    name: ClassVar[str] = "verifiers"
    about: ClassVar[str] = "verifiers (0.4) and prime-rl: WireEpisode"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT, Need.TOKENS})
    tables: ClassVar[tuple[str, ...]] = TABLES
    columns: ClassVar[Mapping[str, tuple[str, ...]]] = COLUMNS
    is_open: ClassVar[bool] = False
    settings: ClassVar[Any] = {
        "traces": "`instance`: a trace for each instance of an agent; `run`: one for all, with the "
        "team's reward, and the calls' own in its `info`; default `instance`",
        "trainable": "`agent,...`: whose tokens train; default: all, or the trainee's where one is "
        "named",
        "advantages": "`given`: rewards of that name; `group`: computed within groups as in "
        "`trl-rollout`; default `given`",
        **SETTINGS,
        **groups.SETTINGS,
    }
    loses: ClassVar[tuple[str, ...]] = (
        "names of messages",
        "which tokens of a prompt belong to which message: all stand on the answer's node",
        "links between agents, with `-s traces=instance`: they are in `info`, by trace and node",
    )

    def needs_of(self, group: Group) -> frozenset[Need]:
        """Tokens unless they are optional; labels where advantages are computed."""
        job = group.job
        of_group = job.choice("advantages", _ADVANTAGES) == "group"
        of_labels = frozenset({Need.LABEL, Need.TASK} if of_group else ())
        return (self.needs - spared(job)) | of_labels

    def records(self, group: Group) -> Iterator[Outcome]:
        """Return an episode for each run."""
        whole = group.job.choice("traces", _TRACES) == "run"
        advantages = dict(_advantages(group))
        for run in group.runs:
            yield from _unwritable(run)
            if run.chosen:
                yield _episode(run, group, _Traces(run, group, advantages, whole=whole).made())


def _advantages(group: Group) -> Iterator[tuple[Call, float]]:
    if group.job.choice("advantages", _ADVANTAGES) == "group":
        for one in groups.advantages(group):
            if not isinstance(one, Dropped):
                yield one.call, one.value
        return
    for call in group.calls:
        given = call.row.get("advantage")
        if given is not None:
            yield call, float(given)


def _unwritable(run: Run) -> Iterator[Dropped]:
    """Leave out calls whose messages verifiers has no type for."""
    kept: list[Call] = []
    for call in run.chosen:
        if _is_writable(call):
            kept.append(call)
        else:
            yield Dropped("unwritable", run.id, call.id)
    run.chosen = kept


def _is_writable(call: Call) -> bool:
    answer = call.completion
    is_answer = bool(answer) and answer[0]["role"] == "assistant"
    return is_answer and is_typed(answer) and is_typed(call.prompt)


def _episode(run: Run, group: Group, traces: list[Json]) -> Record:
    row = run.row
    data: Json = {
        "id": run.id,
        "env": {"id": f"orchtrace-{row.get('system', 'python')}", "name": row.get("topology")},
        "task": _task(run),
        "ok": row.get("status") == "ok",
        "is_timeout": row.get("stop_reason") == "time_budget",
        "traces": traces,
    }
    if run.has_task:
        data["group"] = {"id": str(row["task_id"])}
    span = version_span(run.chosen)
    if span is not None:
        start, end = span
        kind = "train" if group.split == "train" else "eval"
        work = {"type": kind, "step": start, "policy": {"start": start, "end": end}}
        data["run"] = {"type": "train", "id": "orchtrace", "work": work}
    turns = [call.id for call in run.chosen]
    label = run.label
    return Record(
        data, (run.id,), turns, run.weight, label.missing, label.value, str(row["task_id"])
    )


def _task(run: Run) -> Json:
    asked = (said["content"] for said in run.chosen[0].prompt if said["role"] == "user")
    key = str(run.row["task_id"])
    return {"type": "Task", "data": {"id": key, "prompt": next(asked, None)}, "key": key}


class _Traces:
    """Makes the traces of one run."""

    def __init__(
        self, run: Run, group: Group, advantages: dict[Call, float], *, whole: bool
    ) -> None:
        self._run = run
        self._group = group
        self._advantages = advantages
        self._whole = whole
        self._began = (run.row.get("start_unix_nano") or 0) / 1e9
        self._trainable = set(filter(None, group.job.setting("trainable", "").split(",")))
        self._task = _task(run)
        self._nodes: list[tuple[Stretch, Nodes, list[Json]]] = []

    def made(self) -> list[Json]:
        """Return the traces, their nodes linked."""
        found = [Stretch(self._run.id, self._run.chosen)] if self._whole else stretches(self._run)
        for stretch in found:
            nodes = Nodes()
            calls = [self._add(nodes, call) for call in stretch.calls]
            self._nodes.append((stretch, nodes, calls))
        placed = {
            turn: (place, node)
            for place, (_, nodes, _) in enumerate(self._nodes)
            for turn, node in nodes.of_call.items()
        }
        outside: list[list[Json]] = [[] for _ in self._nodes]
        links = Links(self._run)
        for call in self._run.chosen:
            for link in links.to(call):
                if link.source.id in placed:
                    self._link(placed[link.source.id], placed[call.id], link, outside)
        pairs = zip(self._nodes, outside, strict=True)
        return [self._trace(*made, parents) for made, parents in pairs]

    def _add(self, nodes: Nodes, call: Call) -> Json:
        """Add what a call read and wrote; return what is said of the call itself."""
        tokens = sampled(call, self._group.job)
        answer = messages(call.completion)[0]
        time = self._time(call)
        place = nodes.add(call, messages(call.prompt), answer, tokens, time["end"])
        advantage = self._advantages.get(call)
        if advantage is not None:
            node = nodes.rows[place]
            node["advantages"] = [advantage] * sum(node["mask"])
        return _told(call, place, time)

    def _link(
        self,
        source: tuple[int, int],
        target: tuple[int, int],
        link: Link,
        outside: list[list[Json]],
    ) -> None:
        (from_trace, from_node), (to_trace, to_node) = source, target
        if from_trace != to_trace:
            trace = self._nodes[from_trace][0].id
            parent = {"trace": trace, "node": from_node, "type": link.type}
            outside[to_trace].append({"of": to_node, **parent})
            return
        nodes = self._nodes[to_trace][1]
        if from_node not in nodes.above(to_node):
            parents = nodes.rows[to_node]["semantic_parents"]
            parents.append({"node": from_node, "type": link.type})

    def _trace(self, stretch: Stretch, nodes: Nodes, told: list[Json], parents: list[Json]) -> Json:
        calls = stretch.calls
        label = self._run.label if self._whole else stretch.label
        rewards = {}
        if label.value is not None and label.component is not None:
            rewards[label.component] = {"score": label.value, "weight": 1.0}
        return {
            "version": 1,
            "id": stretch.id,
            "task": self._task,
            "agent": {
                "config": {} if calls[0].model is None else {"model": calls[0].model},
                "name": stretch.agent or "agent",
                "trainable": self._is_trainable(calls),
            },
            "tools": list(nodes.tools.values()),
            "nodes": nodes.rows,
            "calls": told,
            "rewards": rewards,
            "metrics": _metrics(calls[0], None if self._whole else label.component),
            "info": {"orchtrace": self._info(stretch, parents)},
            "is_completed": True,
            "ok": all(call.row.get("status", "ok") == "ok" for call in calls),
            "stop_condition": self._run.row.get("stop_reason"),
            "timing": {"start": self._began, "agent": _span(told)},
        }

    def _info(self, stretch: Stretch, parents: list[Json]) -> Json:
        info = {**stretch.about(), "tokens": [call.tokens.provenance for call in stretch.calls]}
        if self._whole:
            info["labels"] = [call.label.value for call in stretch.calls]
            info["agents"] = [call.agent for call in stretch.calls]
        return {**info, "semantic_parents": parents}

    def _is_trainable(self, calls: Iterable[Call]) -> bool:
        trainee = self._group.job.trainee
        return all(
            (not self._trainable or call.agent in self._trainable)
            and (trainee is None or call.model == trainee)
            for call in calls
        )

    def _time(self, call: Call) -> dict[str, float]:
        start = self._began + float(call.row.get("t") or 0.0)
        return {"start": start, "end": start + float(call.row.get("duration_s") or 0.0)}


def _told(call: Call, node: int, time: Json) -> Json:
    row = call.row
    made: Json = {
        "node": node,
        "model": call.model,
        "sampling": _sampling(call),
        "finish_reason": _FINISHED.get(str(row.get("finish_reason"))),
        "time": time,
    }
    read, written = row.get("input_tokens"), row.get("output_tokens")
    if read is not None and written is not None:
        made["usage"] = {"prompt_tokens": read, "completion_tokens": written}
    return made


def _span(calls: list[Json]) -> dict[str, float]:
    times = [call["time"] for call in calls]
    return {"start": min(t["start"] for t in times), "end": max(t["end"] for t in times)}


def _metrics(call: Call, taken: str | None) -> dict[str, float]:
    """Return what else is known of how well it went; what is the reward already is not among it."""
    found: dict[str, float] = {}
    for unit, place in (("team", "run_rewards"), ("agent", "agent_rewards"), ("turn", "rewards")):
        held: dict[str, float] = call.row.get(place) or {}
        for name, value in held.items():
            if name != taken or unit == "team":
                found[f"{unit}/{name}"] = value
    return found


def _sampling(call: Call) -> dict[str, float | int]:
    told = call.content.parameters
    kinds: tuple[tuple[str, type], ...] = (
        ("temperature", float),
        ("top_p", float),
        ("max_tokens", int),
    )
    return {
        name: kind(told[name])
        for name, kind in kinds
        if isinstance(told.get(name), (int, float)) and not isinstance(told[name], bool)
    }
