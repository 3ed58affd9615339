"""The schema that is shipped says what the model says, in words that we read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchtrace_otel import model, schema

if TYPE_CHECKING:
    from collections.abc import Iterator


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every node of a JSON Schema."""
    yield node
    for key in ("properties", "$defs"):
        for inner in node.get(key, {}).values():
            yield from nodes(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key])


def test_the_schema_uses_only_keywords_that_we_read() -> None:
    """Faults are found by reading the schema ourselves, so it must not say more than we read."""
    said = {"$schema", "$id", "title", "description", "$defs", "$ref", "type", "enum", "minLength"}
    said |= {"minimum", "minItems", "items", "properties", "required", "additionalProperties"}
    assert {key for node in nodes(schema.trace_schema()) for key in node} <= said


def test_the_schema_and_the_model_have_the_same_words() -> None:
    """The types of events and edges and the topologies are written down twice, the same."""
    shipped = schema.trace_schema()
    kinds = {
        name: shipped["$defs"][name]["properties"]["type"]["enum"] for name in ("event", "edge")
    }
    assert tuple(kinds["event"]) == model.EVENT_TYPES
    assert tuple(kinds["edge"]) == model.EDGE_TYPES
    assert tuple(shipped["properties"]["topology"]["enum"]) == model.TOPOLOGIES
