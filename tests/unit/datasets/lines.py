"""A format of the tests, a line a call, and exports into it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from orchtrace_otel.datasets import Group, Job, Need, Record, Report, Writer, export
from tests.recorded import Call, Recorder, text

if TYPE_CHECKING:
    from pathlib import Path

    from orchtrace_otel.model import Trace

ASKED = [text("user", "How high is the tide?")]
SAID = [text("assistant", "three metres")]


class Lines(Writer):
    """A format of the test: the completion, and what it is labelled."""

    name = "lines"
    about = "a test"
    needs = frozenset({Need.CONTENT})

    def records(self, group: Group) -> Any:
        """A record a call."""
        for call in group.calls:
            data = {"said": call.completion[0]["content"]}
            yield Record(
                data,
                (call.run.id,),
                (call.id,),
                call.run.weight,
                call.label.missing,
                call.label.value,
            )


class Entry:
    """An entry point of the test."""

    def load(self) -> type[Writer]:
        """The format."""
        return Lines


def run(recorder: Recorder, number: int = 1, said: str = "three metres", **more: Any) -> Trace:
    """A run of one call."""
    call = Call("scout", ASKED, [text("assistant", said)], role="executor")
    return recorder.run(number, [call], **{"task": "tide", **more})


def exported(recorder: Recorder, folder: Path | str, **choices: Any) -> Report:
    """Export into `out`, everything into one split."""
    job = Job(**{"format": "lines", "content": str(recorder.store), "validation": 0.0, **choices})
    return export(job, [str(folder)], recorder.folder / "out")


def rows(recorder: Recorder, name: str = "train.jsonl") -> list[dict[str, Any]]:
    """Rows that were written."""
    lines = (recorder.folder / "out" / name).read_text().splitlines()
    return [json.loads(line) for line in lines]
