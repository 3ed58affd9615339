"""Tasks of a step are taken in the order in which LangGraph applies their writes."""

from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st
from langgraph.pregel._algo import task_path_str

from orchtrace_langgraph._causes import PULL, PUSH, in_order

NODES = st.tuples(st.just(PULL), st.text(max_size=3))
PACKETS = st.tuples(st.just(PUSH), st.integers(0, 10**9), st.just(False))
PLAIN = NODES | PACKETS
CALLS = st.tuples(st.just(PUSH), PLAIN, st.integers(0, 20), st.just(True))
HANDLERS = PLAIN.map(lambda path: (*path[:3], "node_error_handler", False))


@given(st.lists(PLAIN, unique=True) | st.lists(PLAIN | CALLS | HANDLERS, unique=True))
@example([(PUSH, 10, False), (PUSH, 9, False), (PULL, "b"), (PULL, "a")])
@example([(PULL, "a!b"), (PULL, "a", "node_error_handler", False)])
def test_tasks_come_in_the_order_of_langgraph_itself(paths: list[tuple[object, ...]]) -> None:
    """Nodes, packets, calls of functions and error handlers are sorted as the loop sorts them."""
    tasks = [SimpleNamespace(path=path) for path in paths]
    expected = sorted(tasks, key=lambda task: task_path_str(task.path[:3]))
    assert in_order(tasks) == expected
