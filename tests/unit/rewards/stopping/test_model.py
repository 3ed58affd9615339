"""A stopping value: what it says, what it refuses, and a file that is safe to load."""

from __future__ import annotations

import copy
import errno
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.rewards.stopping.heads import Curve, Linear, Trees
from orchtrace_otel.rewards.stopping.model import (
    GO_ON,
    GO_ON_NARROWLY,
    STOP,
    STOP_NARROWLY,
    StopValue,
)


def value(margin: float = 0.0) -> StopValue:
    """Success is a tenth a step; going on gains where the last verdict is low."""
    return StopValue(
        features=("step", "verdict"),
        cost=0.05,
        q=Linear(0.0, (0.1, 0.0), (1.0, 0.0), (8.0, 1.0)),
        calibration=Curve((0.0, 1.0), (0.0, 0.9)),
        gain=Trees(0.01, ((1, 0.5, (0, 4.0, 0.2, 0.05), -0.3),), 3),
        spread=Linear(0.1, (0.0, 0.0, 0.0), (0.0,) * 3, (1.0,) * 3),
        margin=margin,
        baselines={"step": 3, "q": 0.5, "unchanged": None},
        facts={"runs": 4, "q_learner": "linear", "value_left_out": 0.25},
    )


def test_advice_is_success_now_and_later_and_their_difference() -> None:
    """Both as attributes and as keys; names that the model does not know are ignored."""
    advice = value().advise({"step": 2, "verdict": 0.25, "other": 9})
    assert dict(advice) == {
        "q": pytest.approx(0.18),
        "g": pytest.approx(0.39),
        "v_stop": pytest.approx(0.21),
        "sd": pytest.approx(0.1),
        "reason": GO_ON,
        "model": value().version,
        "provisional": True,
    }
    assert advice.v_stop == advice["v_stop"]
    assert not advice.should_stop
    with pytest.raises(KeyError):
        advice["other"]


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ({"step": 2, "verdict": 0.25}, GO_ON),
        ({"step": 5, "verdict": 0.25}, GO_ON_NARROWLY),
        ({"step": 5, "verdict": 0.75}, STOP),
    ],
)
def test_the_reason_says_how_sure_it_is(features: dict[str, float], reason: str) -> None:
    """By more or by less than one standard deviation."""
    assert value().advise(features).reason == reason


def test_going_on_is_never_worth_more_than_success_a_step_from_here() -> None:
    """So whoever is nearly sure to succeed stops, whatever the gain was said to be."""
    sure = StopValue(
        ("step",),
        0.25,
        Linear(0.875, (0.0,), (0.0,), (1.0,)),
        Curve((0.0, 1.0), (0.0, 1.0)),
        Linear(9.0, (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)),
        Linear(0.0, (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)),
    )
    advice = sure.advise({"step": 1})
    assert (advice.q, advice.g, advice.v_stop) == (0.875, 0.75, -0.125)


def test_a_margin_is_part_of_v_stop_alone() -> None:
    """It makes stopping later; what success is worth stays as it was estimated."""
    plain, later = (value(margin).advise({"step": 5, "verdict": 0.75}) for margin in (0, 0.25))
    assert (plain.q, plain.g) == (later.q, later.g)
    assert later.v_stop == pytest.approx(plain.v_stop + 0.25)
    assert later.reason == STOP_NARROWLY


def test_why_names_what_moved_it_most() -> None:
    """Shares of features, the largest first; they add up to what the branches moved."""
    why = value().why({"step": 2, "verdict": 0.25})
    assert [name for name, _ in why] == ["verdict", "step", "q"]
    moved = value().advise({"step": 2, "verdict": 0.25}).v_stop - 0.01
    # Beside the mean of the tree's leaves.
    assert sum(share for _, share in why) == pytest.approx(moved - (0.2 + 0.05 - 0.3) / 3)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"step": 1}, "features must hold 'verdict' as well, got ['step']"),
        ({"step": 1, "verdict": math.nan}, "feature 'verdict' must be a finite number, got 'nan'"),
        ({"step": 1, "verdict": math.inf}, "feature 'verdict' must be a finite number, got 'inf'"),
        ({"step": "1", "verdict": 1}, "feature 'step' must be a finite number, got '1'"),
        (
            {"step": 10**400, "verdict": 0.5},
            f"feature 'step' must be a finite number, got '{str(10**400)[:80]}'",
        ),
        ({"step": None, "verdict": 1}, "feature 'step' must be a finite number, got 'None'"),
        (None, "features must be a mapping of names to numbers, got NoneType"),
    ],
)
def test_features_that_are_none_are_refused(features: Any, message: str) -> None:
    """With what is missing, or which one is no finite number."""
    with pytest.raises(StoppingError) as caught:
        value().advise(features)
    assert str(caught.value) == message


def test_a_yes_counts_as_one() -> None:
    """Hosts write booleans."""
    assert value().advise({"step": True, "verdict": False}) == value().advise(
        {"step": 1, "verdict": 0}
    )


def test_a_loaded_model_is_the_saved_one(tmp_path: Path) -> None:
    """Every number, and the version that follows from them."""
    value(0.125).save(tmp_path / "model.json")
    loaded = StopValue.load(tmp_path / "model.json")
    assert loaded == value(0.125)
    assert loaded.version == value(0.125).version != value().version
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_who_loads_a_model_while_it_is_written_anew_has_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is after a kill or on a full disk; nothing else is left in the folder."""
    path, link = tmp_path / "model.json", tmp_path / "current.json"
    value().save(path)
    path.chmod(0o640)
    link.symlink_to(path)
    write = Path.write_text

    def half(draft: Path, text: str, **more: Any) -> int:
        write(draft, text[: len(text) // 2], **more)
        assert StopValue.load(path) == value()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", half)
        with pytest.raises(OSError, match="No space left"):
            value(0.125).save(link)
    assert StopValue.load(path) == value()
    value(0.125).save(link)
    assert StopValue.load(path) == value(0.125)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, path]


def damaged(*path: Any, to: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(value().to_dict()))
    held: Any = document
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = to
    return document


DAMAGES = [
    (damaged("format", to="pickle"), "format must be 'orchtrace-stop-value', got 'pickle'"),
    (
        damaged("format_version", to=2),
        "format_version must be 1, got '2'; fit the model anew",
    ),
    (damaged("features", to=["a", "a"]), "features must be a list of different names"),
    (damaged("features", to="ab"), "features must be a list of different names"),
    (damaged("cost", to="cheap"), "cost must be a finite number, got 'cheap'"),
    (damaged("cost", to=True), "cost must be a finite number, got 'True'"),
    (damaged("q", to=[]), "q must be an object, got 'list'"),
    (damaged("q", "kind", to="python"), "q.kind must be 'linear' or 'trees', got 'python'"),
    (damaged("q", "weights", to=[1.0]), "q.weights, .low and .high must have 2 numbers each"),
    (damaged("calibration", "x", to=[1.0, 0.0]), "calibration must rise"),
    (damaged("calibration", "y", to=[]), "calibration must have as many x as y"),
    (damaged("calibration", "y", to=[0.0, 1.5]), "calibration.y must be from 0 to 1"),
    (damaged("calibration", "y", to=[-0.5, 1.0]), "calibration.y must be from 0 to 1"),
    (damaged("gain", "bias", to=1e300), "gain must give values at most 1e+100 from 0"),
    (damaged("gain", "trees", to={}), "gain.trees must be a list of at most 1000 trees"),
    (damaged("gain", "trees", to=[0.0] * 1001), "gain.trees must be a list of at most 1000"),
    (
        damaged("gain", "trees", to=[[3, 0.5, 0.0, 0.0]]),
        "gain.trees[0] must split on one of 3 features, counted from 0, got '3'",
    ),
    (
        damaged("gain", "trees", to=[[-1, 0.5, 0.0, 0.0]]),
        "gain.trees[0] must split on one of 3 features",
    ),
    (
        damaged("gain", "trees", to=[[0, 0.5, 0.0]]),
        "gain.trees[0] must be [feature, threshold, low, high]",
    ),
    (damaged("gain", "trees", to=["__import__('os')"]), "gain.trees[0] must be a finite number"),
    (damaged("gain", "bias", to=10**400), "gain.bias must be a finite number"),
    (damaged("cost", to=-0.5), "cost must be at least 0, got -0.5"),
    (damaged("margin", to=None), "margin must be a finite number, got 'None'"),
    (damaged("facts", to=[]), "facts must be an object, got list"),
    (damaged("baselines", "step", to=[]), "baselines.step must be a finite number"),
    (damaged("baselines", "step", to=10**400), "baselines.step must be a finite number"),
]


@pytest.mark.parametrize(("document", "message"), DAMAGES)
def test_a_file_that_is_no_model_says_what_is_wrong(
    document: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """Each part is checked before it is used; the error names the file and the part."""
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    with pytest.raises(StoppingError) as caught:
        StopValue.load(path)
    assert str(caught.value).startswith(f"{path} must be a stopping model: {message}")


def nested(depth: int) -> Any:
    tree: Any = 0.0
    for _ in range(depth):
        tree = [0, 0.5, tree, 0.0]
    return tree


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"\x80\x04\x95",  # a pickle
        b'{"format": NaN}',
        b"\xff\xfe",
        json.dumps(damaged("gain", "trees", to=[nested(13)])).encode(),
        b'{"q": ' + b"[" * 100_000,
    ],
)
def test_any_other_file_is_refused(text: bytes, tmp_path: Path) -> None:
    """A pickle, an empty file, numbers that are none, and trees that never end."""
    path = tmp_path / "model.json"
    path.write_bytes(text)
    with pytest.raises(StoppingError, match="must be a stopping model: "):
        StopValue.load(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: Any) -> None:
    """It could not be one."""
    monkeypatch.setattr("orchtrace_otel.rewards.stopping.model.LARGEST", 100)
    value().save(tmp_path / "model.json")
    with pytest.raises(StoppingError, match="of at most 100 bytes, got more"):
        StopValue.load(tmp_path / "model.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(part=st.sampled_from(sorted(value().to_dict())), junk=JSON)
def test_junk_in_any_part_is_a_model_or_an_error_of_ours(part: str, junk: Any) -> None:
    """Nothing else is raised, and what is loaded advises or refuses."""
    document = copy.deepcopy(json.loads(json.dumps(value().to_dict())))
    document[part] = junk
    try:
        loaded = StopValue.from_dict(document)
        advice = loaded.advise({"step": 1, "verdict": 0.5})
    except StoppingError:
        return
    assert isinstance(advice.v_stop, float)
