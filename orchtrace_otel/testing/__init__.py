"""What tests of traced applications, and of adapters, exporters and rewards, need."""

from __future__ import annotations

from orchtrace_otel.testing.recorder import Captured, Ticks, capture

__all__ = ["Captured", "Ticks", "capture"]
