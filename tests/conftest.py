"""Hypothesis profiles: ``ci`` by default, ``nightly`` through HYPOTHESIS_PROFILE."""

from __future__ import annotations

import os

from hypothesis import settings

# A busy machine must not fail a test for its speed, and a rerun must see the same examples.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("nightly", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
