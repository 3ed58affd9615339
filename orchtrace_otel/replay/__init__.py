"""Counterfactual credit: parts of a run taken out or edited, and the rest run again."""

from __future__ import annotations
