"""SkyRL's own loader of pre-tokenised data takes our file.

`make test-trainers` makes its environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exporting import exported
from tests.nested import nested
from tests.trainers.present import needs

pytestmark = [
    needs("skyrl"),
    pytest.mark.filterwarnings("default"),  # those of other people's libraries are not ours
]


def test_a_conversation_comes_back_with_its_window(tmp_path: Path) -> None:
    """From the first token that was sampled on; what others wrote within it has no loss."""
    from skyrl.train.dataset.pretokenized import load_from_pretokenized

    store, trace = nested(tmp_path)
    exported(tmp_path, store, [trace], format="skyrl")
    (file,) = tmp_path.glob("out-*/train.parquet")
    made = load_from_pretokenized(str(file))
    assert len(made) == 3
    lead = next(row for row in made if row["agent"] == "lead")
    assert lead["input_ids"] == [1, 2, 3, 4, 5, 6, 7, 12, 13]
    assert (lead["num_actions"], lead["loss_mask"]) == (6, [1, 1, 0, 0, 1, 1])
    assert lead["attention_mask"] == [1] * 9


@pytest.mark.parametrize("name", ["by hand", "demo", "thousand"])
@pytest.mark.parametrize("rows", ["conversations", "calls"])
def test_every_row_is_loaded_and_none_is_dropped(sources, name, rows, tmp_path: Path) -> None:
    """The demo's models give no ids, and that is said."""
    from skyrl.train.dataset.pretokenized import load_from_pretokenized

    if name not in sources:
        pytest.skip("ORCHTRACE_DEMO says where the demo's runs are; make test-trainers sets it")
    report = sources[name].export("skyrl", tmp_path / "out", settings={"rows": rows})
    if name == "demo":
        assert report.check.refusal is not None
        assert "no_token_ids" in report.check.refusal
        return
    made = load_from_pretokenized(str(tmp_path / "out" / "train.parquet"))
    assert len(made) == report.check.records > 0
