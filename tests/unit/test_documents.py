"""What the pages show is what happens."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md") if "```pycon" in page.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_as_it_says(page: str) -> None:
    """All blocks of Python sessions, one after another, in one namespace."""
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```pycon\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(examples, out=said.append)
    assert said == []
    assert runner.summarize(verbose=False).attempted > 0


def test_the_page_on_decorators_is_among_them() -> None:
    """A page that lost its blocks would pass unseen."""
    assert "decorators.md" in PAGES
