"""docs/credit.md says what the code does now: its small run is made again."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script beside the page."""
    spec = importlib.util.spec_from_file_location("generate_credit", DOCS / "generate_credit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page() -> str:
    """The page as it is kept."""
    return (DOCS / "credit.md").read_text()


def test_the_small_run_comes_out_as_the_page_has_it(generator: ModuleType, page: str) -> None:
    """To the fourth digit; where this fails, `make credit` makes the page anew."""
    assert "\n".join(generator.small()) in page


def test_the_page_says_all_that_the_script_says(generator: ModuleType, page: str) -> None:
    """The same assumptions, for the seeds and the counts that are in the script."""
    assert generator.HEAD.format(seeds=len(generator.SEEDS), count=generator.COUNT) in page
    assert len(generator.SEEDS) >= 5
    assert f"## Replay: {generator.REPLAYS} replays a message" in page


def test_every_method_and_every_prior_has_its_row(generator: ModuleType, page: str) -> None:
    """No row is left out where it does not look good."""
    found = generator.measured([3], 1, 4, 2)
    lines = generator.render(found, generator.REPLAYS, generator.RUNS)
    rows = [line.split("|")[1] for line in lines if line.startswith("| ")]
    kept = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    assert set(rows) <= set(kept)
    assert {f" `{method}` " for method in generator.METHODS} <= set(rows)


def test_a_target_that_is_not_reached_is_said_so(generator: ModuleType) -> None:
    """Both ways, by the interval and not by the mean."""
    found = {"flow": [0.5, 0.6, 0.55], "prior: a": [0.1, 0.2, 0.1], "prior: b": [0.5, 0.5, 0.6]}
    rows = generator.priors(found, "flow")
    assert rows[2].endswith("| reached |")
    assert rows[3].endswith("| **not reached** |")
