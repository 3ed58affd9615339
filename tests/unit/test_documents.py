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


LINKING = [*DOCS.glob("*.md"), *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md"))]


def anchors(page: Path) -> set[str]:
    """Return what a link may name of a page: its headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    """Within the repository; addresses elsewhere are not asked for."""
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        place, _, heading = link.partition("#")
        if ":" in place:
            continue
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link
