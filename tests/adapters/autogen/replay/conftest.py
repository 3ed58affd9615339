"""What tests of replays of teams share beside the recorder: models that count their calls."""

import pytest

from tests.adapters.autogen.replay.teams import Cast


@pytest.fixture
def cast() -> Cast:
    return Cast()
