"""Tasks that are nearly the same are together in one split, whatever else there is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.datasets import Job, export
from orchtrace_otel.datasets.tasks import clusters, likeness, signature, split_of
from tests.recorded import Call, Recorder, text, write
from tests.unit.datasets.lines import SAID

pytestmark = pytest.mark.usefixtures("lines_is_installed")


def test_nearly_the_same_task_is_never_in_two_splits(recorder: Recorder) -> None:
    """Whatever the seed; a task that has nothing in common may be."""
    told = "How high is the water in the old harbour at noon today, and when is it low again"
    runs = [
        recorder.run(1, [Call("scout", [text("user", told)], SAID)], task="b"),
        recorder.run(2, [Call("scout", [text("user", told + "?")], SAID)], task="a"),
        recorder.run(3, [Call("scout", [text("user", "Bake me bread")], SAID)], task="c"),
    ]
    folder = write(recorder.folder / "in", runs)
    seen = set()
    for seed in range(12):
        job = Job(format="lines", content=str(recorder.store), validation=0.5, seed=seed)
        out = recorder.folder / f"out-{seed}"
        report = export(job, [str(folder)], out)
        assert (report.tasks, report.clusters) == (3, 2)
        lineage = [json.loads(line) for line in (out / "lineage.jsonl").read_text().splitlines()]
        splits = {row["runs"][0][:32].lstrip("0"): row["split"] for row in lineage}
        assert splits["1"] == splits["2"]
        seen.add(splits["1"] == splits["3"])
    assert seen == {True, False}


@given(
    st.text(alphabet="abcdefgh ", min_size=20, max_size=80),
    st.text(alphabet="stuvwxyz ", min_size=20, max_size=80),
)
def test_likeness_knows_equal_texts_and_those_that_share_nothing(one: str, other: str) -> None:
    """1 of a text with itself, 0 of texts without a common word."""
    first, second = signature(one), signature(other)
    if first is not None and second is not None:
        assert likeness(first, first) == 1.0
        assert likeness(first, second) == 0.0


def test_likeness_estimates_the_share_of_common_runs_of_words() -> None:
    """Within a tenth, for texts that have half and nine tenths in common."""
    words = [f"word{number}" for number in range(300)]
    for share in (0.5, 0.9):
        kept = int(200 * share * 2 / (1 + share))
        one, other = words[:200], [*words[:kept], *words[-(200 - kept) :]]
        runs = [{tuple(text[i : i + 3]) for i in range(198)} for text in (one, other)]
        truth = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
        found = likeness(signature(" ".join(one)), signature(" ".join(other)))
        assert abs(found - truth) < 0.2


def of_one_template(number: int) -> list[tuple[str, str]]:
    """Tasks that have half of their runs of words in common, and for each one nearly the same."""
    template = " ".join(f"word{place}" for place in range(40))
    texts: list[tuple[str, str]] = []
    for task in range(number):
        own = " ".join(f"own{task}-{place}" for place in range(9))
        texts += [(f"{task:04}", f"{template} {own}"), (f"{task:04}-again", f"{template} {own}!")]
    return sorted(texts, key=lambda one: one[0][::-1])


def test_tasks_of_one_template_are_compared_with_few_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four times as many tasks take four times as many comparisons, not sixteen times."""
    compared: list[float] = []

    def counted(one: tuple[int, ...], other: tuple[int, ...]) -> float:
        compared.append(likeness(one, other))
        return compared[-1]

    monkeypatch.setattr("orchtrace_otel.datasets.tasks.likeness", counted)
    needed = []
    for number in (100, 400):
        compared.clear()
        list(clusters(of_one_template(number), 0.8))
        needed.append(len(compared))
    assert needed[1] < 6 * needed[0]


def test_tasks_that_are_nearly_the_same_are_found_among_many_of_their_template() -> None:
    """They meet in what they share beyond it."""
    texts = of_one_template(200)
    found = dict(clusters(texts, 0.8))
    pairs = [(found.get(task), found.get(f"{task}-again")) for task, _ in texts if len(task) == 4]
    assert len(pairs) == 200
    assert all(one is not None and one == other for one, other in pairs)


def test_likeness_is_transitive_in_clusters() -> None:
    """Tasks that are alike by way of others are together, named by the first."""
    words = [f"word{number}" for number in range(60)]
    texts = [(name, " ".join(words[start : start + 40])) for start, name in enumerate("cab")]
    found = dict(clusters(sorted(texts), 0.8))
    assert found == {"a": "a", "b": "a", "c": "a"}


@given(st.text(), st.integers(0, 9))
def test_a_split_follows_from_seed_and_cluster_alone(cluster: str, seed: int) -> None:
    """And a larger share only adds to the held-out tasks."""
    small, large = (split_of(cluster, seed, share) for share in (0.2, 0.6))
    assert small == split_of(cluster, seed, 0.2)
    assert not (small == "validation" and large == "train")
