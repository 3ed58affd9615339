"""A model that is given, or a file of one, advises; what does not fit fails at once and says so."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from orchtrace_otel.advice.advisor import Advisor
from orchtrace_otel.errors import ConfigError, StoppingError
from tests.unit.advice.teams import model, points, run, writer


def test_a_model_that_needs_more_than_is_seen_gives_no_advice_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The features are recorded; once the host observes what is missing there is advice."""
    needs = model("step", "heat")
    advisor = orchtrace.advise(needs)

    @orchtrace.team
    def heated() -> None:
        writer()
        advisor.observe(heat=1)
        writer()

    with advisor:
        found = points(run(heated))
    assert ["advice" in event.keys for event in found] == [False, True, True]
    assert "features must hold 'heat' as well" in caplog.text


def test_an_advisor_takes_a_file(tmp_path: Path) -> None:
    """As `orchtrace stop fit` writes it."""
    path = tmp_path / "model.json"
    model().save(path)
    with orchtrace.advise(path) as advisor:
        assert isinstance(advisor, Advisor)
        assert advisor.model == model()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"model": 3}, ConfigError, "model must be a StopValue or the path of its file, got int"),
        ({"callback": 3}, ConfigError, "callback must be callable with a decision point, got 3"),
        ({"max_tokens": 0}, ConfigError, "max_tokens must be a number above 0, got 0"),
        ({"max_seconds": math.inf}, ConfigError, "max_seconds must be a number above 0, got inf"),
        ({"max_tokens": "9"}, ConfigError, "max_tokens must be a number above 0, got '9'"),
        (
            {"pollable": "search"},
            ConfigError,
            "pollable must be names of tools, got 'search'; write pollable=['search']",
        ),
        (
            {"pollable": [len]},
            ConfigError,
            "pollable must be names of tools, got [<built-in function len>]; "
            "write pollable=['search']",
        ),
        (
            {"model": "missing.json"},
            ConfigError,
            "model must be the path of a stopping model that can be read, got 'missing.json' "
            "(No such file or directory); `orchtrace stop fit` writes one",
        ),
    ],
)
def test_set_up_fails_loudly(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    """And nothing is watched then."""
    with pytest.raises(kind) as caught:
        orchtrace.advise(**options)
    assert str(caught.value) == message
    assert spans.watchers == []


def test_a_file_that_is_no_model_is_refused_at_once(tmp_path: Path) -> None:
    """Not in the middle of a run."""
    path = tmp_path / "model.json"
    path.write_text("{}")
    with pytest.raises(StoppingError, match="must be a stopping model"):
        orchtrace.advise(str(path))
    assert spans.watchers == []
