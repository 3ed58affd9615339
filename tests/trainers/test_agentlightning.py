"""Agent Lightning 1.0's own server and data classes take our rollouts and events.

`make test-trainers` makes its environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.exporting import exported, rows
from tests.nested import nested
from tests.recorded import Recorder, siblings
from tests.trainers.present import needs

pytestmark = [
    needs("agentlightning"),
    pytest.mark.filterwarnings("ignore"),  # its own, of its own dependencies
]


@pytest.fixture
def server() -> Iterator[Any]:
    """The server itself, in this process."""
    from agentlightning.server.app import create_app
    from fastapi.testclient import TestClient

    proxy = {"model_name": "m", "include_log_probs": True, "include_routed_experts": False}
    proxy |= {"train": {"temperature": 1}, "val": {"temperature": 0}}
    with TestClient(create_app({"key": "", "default_proxy": proxy})) as client:
        yield client


def sent(server: Any, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Send a row as docs/datasets.md says, and ask for what the trainer asks for."""
    rollout_id = row["rollout"]["rollout_id"]
    (made,) = server.post("/api/rollouts", json=[row["rollout"]]).raise_for_status().json()
    assert made["rollout_id"] == rollout_id
    for state in ("running", row["state"]):
        patch = {"status": {"state": state}}
        server.patch(f"/api/rollouts/{rollout_id}", json=patch).raise_for_status()
    for event in row["events"]:
        place = f"/api/rollouts/{rollout_id}/attempt/{row['attempt_id']}/events"
        server.post(place, json=event).raise_for_status()
    asked = f"/api/rollouts/{rollout_id}/events?format=triplet"
    return list(server.get(asked).raise_for_status().json())


def test_a_rollout_comes_back_as_triplets_and_its_reward(server: Any, tmp_path: Path) -> None:
    """Ids, log probabilities and version of each call, in order; the reward is the last event."""
    store, first = nested(tmp_path, reward=0.0)
    _, second = nested(tmp_path, reward=1.0)
    _, given = exported(tmp_path, store, [first, second], format="agent-lightning")
    lead = [row for row in given if row["rollout"]["metadata"]["agent"] == "lead"]
    one, two, reward = sent(server, lead[0])
    assert (one["data"]["prompt_token_ids"], one["data"]["response_token_ids"]) == (
        [1, 2, 3],
        [4, 5],
    )
    assert two["data"]["prompt_token_ids"] == [1, 2, 3, 4, 5, 6, 7]
    assert two["data"]["response_log_probs"] == [-0.12, -0.13]
    assert reward["data"]["value"] == lead[0]["events"][-1]["data"]["value"]


def test_no_sibling_is_lost_and_each_has_its_own_reward(server: Any, tmp_path: Path) -> None:
    """Of calls of one rollout that read the same the server keeps one; ours are apart."""
    recorder = Recorder(tmp_path)
    _, given = exported(tmp_path, recorder.store, [siblings(recorder)], format="agent-lightning")
    found = [sent(server, row) for row in given]
    assert [len(events) for events in found] == [2, 2, 2]
    assert [
        (events[0]["data"]["response_token_ids"], events[1]["data"]["value"]) for events in found
    ] == [([10, 11], 0.0), ([11, 12], 0.5), ([12, 13], 1.0)]


@pytest.mark.parametrize("name", ["by hand", "demo", "thousand"])
def test_every_run_is_accepted(sources, name: str, tmp_path: Path) -> None:
    """By the data classes that say what rollouts, requests and rewards are."""
    from agentlightning.schemas import EventCreate, ModelRequestData, RewardData, RolloutCreate

    if name not in sources:
        pytest.skip("ORCHTRACE_DEMO says where the demo's runs are; make test-trainers sets it")
    settings = {"tokens": "optional"}
    report = sources[name].export("agent-lightning", tmp_path / "out", settings=settings)
    given = rows(tmp_path / "out" / "train.jsonl")
    assert len(given) == report.check.records > 0
    kinds = {"model_request": ModelRequestData, "reward": RewardData}
    for row in given:
        RolloutCreate.model_validate(row["rollout"])
        for event in (EventCreate.model_validate(one) for one in row["events"]):
            kinds[event.event_type].model_validate(event.data)
