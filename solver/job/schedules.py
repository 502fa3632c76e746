"""Pipeline schedules that a search may choose among."""

from __future__ import annotations

from typing import Literal

PipelineSchedule = Literal["1f1b", "zb-h1"]
SCHEDULES: tuple[PipelineSchedule, ...] = ("1f1b", "zb-h1")
"""1F1B, interleaved where there are virtual stages; ZB-H1, which lets weight gradients wait (Qi et
al. 2024, arXiv 2401.10241, section 2.1)."""
