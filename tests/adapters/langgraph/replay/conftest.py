"""What tests of replays of graphs share beside the recorder: nodes that count their calls."""

import pytest

from tests.adapters.langgraph.replay.teams import Calls


@pytest.fixture
def calls() -> Calls:
    return Calls()
