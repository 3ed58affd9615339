"""What a writer of a data-set format is, and how one is found by its name.

A writer is a class with a name, what it needs, and `records`: from the runs of one task
to the records of the format. Filters, groups, splits, lineage, checks, files and the
data card are the same for all, and not its concern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from orchtrace_otel.datasets.check import Check, checked
from orchtrace_otel.datasets.runs import Dropped, Group, Record
from orchtrace_otel.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from orchtrace_otel.datasets.files import Sink
    from orchtrace_otel.datasets.job import Job

GROUP: Final = "orchtrace.dataset"

Outcome: TypeAlias = Record | Dropped


class Need(StrEnum):
    """What a call or a run must have for a format; what lacks it is dropped, with the reason."""

    CONTENT = "content"
    """Messages and a completion that is not empty."""
    TOKENS = "tokens"
    """Token ids of prompt and completion, exact unless the job takes retokenised ones."""
    LOGPROBS = "logprobs"
    """A log probability for each token of the completion."""
    LABEL = "label"
    """A number for the call."""
    RUN_LABEL = "run label"
    """A number for the run."""
    TASK = "task"
    """A task that somebody named."""
    SEVERAL = "several"
    """At least two runs of the task."""
    ON_POLICY = "on policy"
    """Written by the trainee, or with log probabilities that correct for that."""


class Writer(ABC):
    """A format.

    Attributes:
        name: As `--to` takes it.
        about: One line on who loads it, with its release.
        needs: What each call, run or group must have; the engine drops what lacks it.
        tables: Tables beside `runs` that it reads; fewer are faster.
        columns: Of those that it reads in part only, by name: their columns.
        loses: What the format has no place for, one sentence each; `check` tells them.
        settings: The format's own settings: name to what it means and its default.
        is_open: Whether records may have columns of ours beside the format's; then each
            has `run_id turn_id weight label_missing`. Always they are in `lineage.jsonl`.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    needs: ClassVar[frozenset[Need]] = frozenset({Need.CONTENT})
    tables: ClassVar[tuple[str, ...]] = ("turns", "rewards")
    columns: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    loses: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[Mapping[str, str]] = {}
    is_open: ClassVar[bool] = True

    @abstractmethod
    def records(self, group: Group) -> Iterator[Outcome]:
        """Return the records of one task's runs, and what is dropped.

        Everything that does not become part of a record is to be yielded as `Dropped`,
        except what the engine dropped before: `run.chosen` has what is left. The same
        group must give the same records in the same order.
        """

    def needs_of(self, group: Group) -> frozenset[Need]:
        """Return what this group's calls and runs must have; `needs`, unless settings decide."""
        del group
        return self.needs

    def sink(self, folder: Path, split: str) -> Sink:
        """Return what takes the records of one split; a file of JSON lines unless overridden."""
        from orchtrace_otel.datasets.files import JsonLines  # noqa: PLC0415 - only who writes

        return JsonLines(folder / f"{split}.jsonl")

    def check(self, outcomes: Iterable[Outcome]) -> Check:
        """Say what of some runs this format drops and loses, and what makes it refuse."""
        return checked(self.name, self.loses, outcomes)


@cache
def known_writers() -> Mapping[str, Any]:
    """Return the entry points of all installed formats by name.

    They are looked for once a process: that goes through everything that is installed.
    """
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def open_writer(name: str, job: Job | None = None) -> Writer:
    """Return the writer of a format.

    Raises:
        ConfigError: If no installed format has that name, or it has no such setting.
    """
    known = known_writers()
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        msg = f"a data set must have one of the formats {listed}, got {name!r}"
        raise ConfigError(msg)
    writer: Writer = known[name].load()()
    unknown = sorted(set(job.settings) - set(writer.settings)) if job is not None else []
    if unknown:
        listed = ", ".join(sorted(writer.settings))
        must = f"among {listed}" if listed else "left out, for it has none"
        msg = f"settings of {name} must be {must}, got {unknown[0]!r}"
        raise ConfigError(msg)
    return writer
