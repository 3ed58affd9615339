"""What only a process that is ours alone may change of Python: commands, and the collector.

In somebody's process the garbage collector is theirs, whatever it costs us.
"""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (50_000, 20, 50)


def collect_garbage_seldom() -> None:
    """Have Python look for cycles seldom, and never among what is there by now.

    Most of what we make goes with its last name. Looking for cycles after every 700 new
    objects, as Python does by itself, takes a sixth of an export's time, and a fifth of a
    collector's.
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
