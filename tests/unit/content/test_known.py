"""What is remembered is bounded, never wrong, and waits for nobody."""

from __future__ import annotations

import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.content.known import Known
from orchtrace_otel.content.memory import Copies
from orchtrace_otel.content.redaction import Redactor
from orchtrace_otel.content.values import Copy
from tests.unit.content.objects import MOST

if TYPE_CHECKING:
    from collections.abc import Callable


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 400)), max_size=60))
def test_what_is_known_is_bounded_and_never_wrong(steps: list[tuple[int, int]]) -> None:
    """Two generations, each within its bytes; what was put last is there if it fits."""
    known: Known[int, int] = Known(2_000)
    for key, size in steps:
        assert known.get(key) in (None, key)
        known.put(key, key, size)
        assert known.get(key) == key
        assert len(known) * 300 <= 2 * 2_000


def test_what_each_call_needs_stays_known() -> None:
    """However much else comes by, what is asked for again and again is not forgotten."""
    known: Known[str, str] = Known(3_000)
    known.put("history", "kept", 100)
    for number in range(100):
        known.put(f"once {number}", "", 100)
        assert known.get("history") == "kept"
    assert known.get("once 0") is None
    known.put("too much", "", 5_000)
    assert known.get("too much") is None


def test_what_is_remembered_takes_up_what_it_may() -> None:
    """Short texts and such as need more than a byte a character too, and many small values."""
    most, redactor = 200_000, Redactor()
    makers: list[Callable[[int], Any]] = [
        lambda number: {"n": number},
        lambda number: {f"k{one}": f"{number}-{one}" for one in range(25)},
        lambda number: {"content": f"{number}" + "\U0001f600" * 300},
    ]
    for make in makers:
        copies = Copies(most)
        tracemalloc.start()
        try:
            for number in range(1_500):
                Copy(redactor, MOST, copies).of(make(number))
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert size < 2 * 2 * most


def test_what_is_known_can_be_added_to_in_the_middle_of_it() -> None:
    """The collector runs where it likes, and what it ends may be captured: nobody waits."""
    known: Known[Any, int] = Known(10_000)

    class Key:
        def __hash__(self) -> int:
            if (1, 2) not in inner:
                inner.append((1, 2))
                known.put((1, 2), 2, 10)
            return 1

    inner: list[Any] = []
    added = threading.Thread(target=lambda: known.put(Key(), 1, 10), daemon=True)
    added.start()
    added.join(10)
    assert not added.is_alive()
    assert known.get((1, 2)) == 2
