"""A crash costs the replays under way, and no other."""

import json

import numpy as np
import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.errors import ConfigError, ReplayBlockedError
from orchtrace_otel.model import Trace


class Crash(BaseException):
    """Ends the process, as a kill would."""


def test_a_crashed_question_goes_on_where_it_was(trace, team, sheet_game, tmp_path) -> None:
    """What was written down is not run again, and the numbers are the same."""
    path = tmp_path / "deep" / "journal.jsonl"
    ran = []

    def counted(change, seed):
        ran.append(seed)
        return sheet_game(change, seed)

    def crash(now):
        if now.done == 7:
            raise Crash

    with pytest.raises(Crash):
        orchtrace.counterfactual(
            trace, counted, team, replays=10, journal=path, workers=1, progress=crash
        )
    assert len(path.read_text().splitlines()) == 1 + 7
    ran.clear()
    found = orchtrace.counterfactual(trace, counted, team, replays=10, journal=path)
    assert len(ran) == 30 - 7
    assert found.replays == 30
    assert {e.player.name: e.value for e in found.effects} == pytest.approx(
        {"A": 0.7, "B": 0.8, "C": 0.1}
    )
    ran.clear()
    again = orchtrace.counterfactual(trace, counted, team, replays=10, journal=path)
    assert (ran, again.effects) == ([], found.effects)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_line_that_was_cut_off_is_run_again(trace, team, sheet_game, tmp_path, cut) -> None:
    """Whatever a crash left of the last line, the file stays one that can be read."""
    path = tmp_path / "journal"
    orchtrace.counterfactual(trace, sheet_game, team, replays=4, journal=path)
    path.write_text(path.read_text()[:-cut])
    found = orchtrace.counterfactual(trace, sheet_game, team, replays=4, journal=path)
    assert found.replays == 12
    whole = orchtrace.counterfactual(trace, sheet_game, team, replays=4, journal=path)
    assert whole.effects == found.effects
    rows = [line for line in path.read_text().splitlines() if line.endswith("}")]
    assert len({(row["change"], row["seed"]) for row in map(json.loads, rows[1:])}) == 12


def test_a_file_that_holds_only_half_a_head_is_begun_anew(
    trace, team, sheet_game, tmp_path
) -> None:
    """The very first write may be the one that was cut off."""
    path = tmp_path / "journal"
    path.write_text('{"orchtrace_jour')
    orchtrace.counterfactual(trace, sheet_game, team, replays=2, journal=path)
    assert len(path.read_text().splitlines()) == 1 + 6


@pytest.mark.parametrize(
    "text",
    ["shopping list\n", "shopping list", '{"trace_id": "run"}\n', '{"trace_id": "run"}', "[]\n"],
)
def test_another_file_is_not_written_to(trace, team, sheet_game, tmp_path, text) -> None:
    """A journal says what it is."""
    path = tmp_path / "journal"
    path.write_text(text)
    with pytest.raises(ConfigError, match="must be one of trace 'run'"):
        orchtrace.counterfactual(trace, sheet_game, team, journal=path)
    assert path.read_text() == text


def test_a_journal_that_cannot_be_written_is_refused(trace, team, sheet_game, tmp_path) -> None:
    """Before a replay is run, in words that say what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="journal must be a file that can be read and written"):
        orchtrace.counterfactual(trace, sheet_game, team, journal=tmp_path / "file" / "journal")


def test_a_journal_of_another_trace_is_refused(trace, team, sheet_game, tmp_path) -> None:
    """Replays of one run say nothing of another."""
    path = tmp_path / "journal"
    orchtrace.counterfactual(trace, sheet_game, team, replays=2, journal=path)
    with pytest.raises(ConfigError, match="must be one of trace 'other'"):
        orchtrace.counterfactual(Trace("other", "task", ()), sheet_game, team, journal=path)


def test_what_had_no_value_is_remembered_too(trace, team, tmp_path) -> None:
    """Failures are outcomes: a resumed question does not try them again."""
    path = tmp_path / "journal"

    def fail(change, seed):
        raise ValueError

    first = orchtrace.counterfactual(trace, fail, team, replays=4, journal=path)
    second = orchtrace.counterfactual(
        trace, lambda change, seed: 1.0, team, replays=4, journal=path
    )
    assert first.lost == second.lost == {"failed": 12}


@pytest.mark.parametrize("value", ['"x"', "NaN", "null", "1e999", "1" + "0" * 400])
def test_a_value_that_is_no_finite_number_is_run_again(
    trace, team, sheet_game, tmp_path, value
) -> None:
    """Whatever became of the file, no number comes from it that no replay gave."""
    path = tmp_path / "journal"
    whole = orchtrace.counterfactual(trace, sheet_game, team, replays=4, journal=path)
    head, first, *rest = path.read_text().splitlines(keepends=True)
    spoiled = first.rpartition('"value": ')[0] + f'"value": {value}}}\n'
    path.write_text("".join([head, spoiled, *rest]))
    again = orchtrace.counterfactual(trace, sheet_game, team, replays=4, journal=path)
    assert again == whole


def test_what_blocked_a_replay_may_be_any_text(trace, team, tmp_path) -> None:
    """Half a surrogate pair, as in what a model wrote, costs no more than the replay."""

    def blocked(change, seed):
        raise ReplayBlockedError("\ud83d")

    path = tmp_path / "journal"
    found = orchtrace.counterfactual(trace, blocked, team, replays=2, journal=path)
    assert found.lost == {"blocked": found.replays}
    assert orchtrace.counterfactual(trace, blocked, team, replays=2, journal=path) == found


def test_a_file_that_is_no_text_is_refused(trace, team, sheet_game, tmp_path) -> None:
    """As any other that is no journal."""
    path = tmp_path / "journal"
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(ConfigError, match="must be one of trace"):
        orchtrace.counterfactual(trace, sheet_game, team, replays=2, journal=path)


def test_a_seed_of_numpys_is_a_seed(trace, team, sheet_game, tmp_path) -> None:
    """Any whole number is, and gives what Python's own gives."""
    kept = {"replays": 4, "method": "permutations"}
    found = orchtrace.counterfactual(
        trace, sheet_game, team, seed=np.int64(3), journal=tmp_path / "journal", **kept
    )
    assert found == orchtrace.counterfactual(trace, sheet_game, team, seed=3, **kept)
