"""What only some versions of AutoGen have."""

import autogen_agentchat
import pytest

has_nested_teams = pytest.mark.skipif(
    autogen_agentchat.__version__.startswith("0.6"),
    reason="before 0.7 a team could not take part in a team",
)
