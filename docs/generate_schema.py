# ruff: noqa: INP001, E501 - a script beside the page that it writes, with text of that page
"""Write docs/schema.md from the code: `python docs/generate_schema.py`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from orchtrace_otel import attributes, glossary, model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PAGE = Path(__file__).with_name("schema.md")

HEAD = """\
# The trace, key by key

<!-- Made from the code by docs/generate_schema.py; run it after a change and edit nothing here. -->

A run of a team is one JSON document, one line of a `.jsonl` file. It follows the published schema of orchestration
traces; `orchtrace_otel/trace_schema.json` is our own wording of it and accepts the same documents. A trace and an edge
have the keys below and no others. An event may have any further key: readers ignore and keep what they do not know.

**Unknown is absent**, never `null` and never 0. Numbers are finite. Times and durations are seconds, costs at least 0.

`orchtrace_otel.schema.check` says all that is wrong with a document, each fault with its path and with who refuses it:

| rule | asks that |
|---|---|
| `schema` | the keys that must be there are, and every value has its type (a `true` is no number) |
| `artifact` | ids of events are unique, edges lead from and to events, no cost is negative |
| `orchtrace` | edges other than `temporal` form no cycle, no cause is later than its effect (of a point event that took time its `t` counts), there is at most one stop and it is last |

Reading asks for `schema` alone.
"""


def table(header: str, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table of Markdown."""
    columns = header.split("|")
    yield ""
    yield f"| {' | '.join(column.strip() for column in columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def keys(described: Mapping[str, glossary.Key]) -> Iterator[str]:
    """The table of the keys of one kind of object."""
    rows = ((f"`{name}`", key.type, key.when, key.meaning) for name, key in described.items())
    return table("key | type | when | meaning", rows)


def words(known: Iterable[str], meanings: Mapping[str, str]) -> Iterator[str]:
    """The table of one vocabulary; a word without a meaning is an error."""
    return table("word | meaning", ((f"`{word}`", meanings[word]) for word in known))


def verbs() -> Iterator[str]:
    """The table of verbs: what each is in the published schema, and which decision it is."""
    rows = (
        (f"`{verb}`", f"`{kind}`", decision or "", glossary.VERB_MEANINGS[verb])
        for verb, (kind, decision) in model.VERBS.items()
    )
    return table("verb | written as type | decision | meaning", rows)


def record(kind: type[model.Turn | model.Reward]) -> Iterator[str]:
    """The table of a record's fields, from its docstring."""
    # cleandoc: since Python 3.13 a docstring comes without its indentation.
    text = inspect.cleandoc(kind.__doc__ or "")
    said = dict(re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", text, re.MULTILINE))
    rows: list[tuple[str, str, str, str]] = []
    for field in dataclasses.fields(kind):
        python = str(field.type).removesuffix(" | None")
        json = {"str": "string", "int": "number", "float": "number", "bool": "boolean"}[python]
        when = "where known" if field.default is None else "always"
        rows.append((f"`{field.name}`", json, when, re.sub(r"\s+", " ", said[field.name])))
    return table("key | type | when | meaning", rows)


def attribute_keys() -> Iterator[str]:
    """The tables of span attributes, one for each comment that opens a group in the file."""
    source = Path(attributes.__file__).read_text(encoding="utf-8")
    heads = {n: line[2:] for n, line in enumerate(source.splitlines(), 1) if line.startswith("# ")}
    body = ast.parse(source).body
    groups: dict[str, list[tuple[str, str]]] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        above = [line for line in heads if line < node.lineno]
        match node:
            case ast.AnnAssign(value=ast.Constant(value=str(key))) if above:
                groups.setdefault(heads[above[-1]], []).append((f"`{key}`", docstring(after)))
            case _:
                pass
    for head, rows in groups.items():
        yield f"\n{head}"
        if any(meaning for _, meaning in rows):
            yield from table("key | meaning", rows)
        else:  # the conventions say what they mean
            yield from table("key", ((key,) for key, _ in rows))


def docstring(node: ast.stmt | None) -> str:
    """The text of a string that stands alone, as behind a constant that it explains."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(said))):
            return re.sub(r"\s+", " ", said)
        case _:
            return ""


def render() -> str:
    """The page."""
    sections = {
        "A trace": keys(glossary.TRACE_KEYS),
        "Topologies": table("word", ((f"`{word}`",) for word in model.TOPOLOGIES)),
        "An edge": keys(glossary.EDGE_KEYS),
        "Types of edges": words(model.EDGE_TYPES, glossary.EDGE_MEANINGS),
        "An event": keys(glossary.EVENT_KEYS),
        "Verbs": verbs(),
        "Stop reasons": words(model.STOP_REASONS, glossary.STOP_MEANINGS),
        "Statuses": words(model.STATUSES, glossary.STATUS_MEANINGS),
        "A turn, in `turn_records`": record(model.Turn),
        "A reward, in `reward_records`": record(model.Reward),
        "Families of rewards": words(model.FAMILIES, glossary.FAMILY_MEANINGS),
        "Units of rewards": words(model.UNITS, glossary.UNIT_MEANINGS),
        "Estimators of rewards": words(model.ESTIMATORS, glossary.ESTIMATOR_MEANINGS),
        "Attributes of spans": attribute_keys(),
    }
    lines = [HEAD]
    for title, body in sections.items():
        lines += [f"## {title}", *body]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
