"""Every word has its meaning, and docs/schema.md says what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from orchtrace_otel import glossary, model, schema

GENERATOR = Path(__file__).resolve().parents[2] / "docs" / "generate_schema.py"


@pytest.mark.parametrize(
    ("words", "meanings"),
    [
        (model.VERBS, glossary.VERB_MEANINGS),
        (model.EDGE_TYPES, glossary.EDGE_MEANINGS),
        (model.STOP_REASONS, glossary.STOP_MEANINGS),
        (model.STATUSES, glossary.STATUS_MEANINGS),
        (model.FAMILIES, glossary.FAMILY_MEANINGS),
        (model.UNITS, glossary.UNIT_MEANINGS),
        (model.ESTIMATORS, glossary.ESTIMATOR_MEANINGS),
    ],
)
def test_every_word_of_the_model_has_one_meaning(words, meanings) -> None:
    """No word is without a meaning and no meaning without a word, in the same order."""
    assert list(words) == list(meanings)


def test_every_key_of_the_schema_is_described() -> None:
    """Closed objects have exactly the described keys, and events have at least the schema's."""
    shipped = schema.trace_schema()
    assert set(glossary.TRACE_KEYS) == set(shipped["properties"])
    assert set(glossary.EDGE_KEYS) == set(shipped["$defs"]["edge"]["properties"])
    assert set(glossary.EVENT_KEYS) > set(shipped["$defs"]["event"]["properties"])


def test_the_page_of_the_schema_is_what_the_code_says() -> None:
    """docs/schema.md was made anew after the last change; `make docs` does it."""
    spec = importlib.util.spec_from_file_location("generate_schema", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.PAGE.read_text(encoding="utf-8") == generator.render(), "run: make docs"
