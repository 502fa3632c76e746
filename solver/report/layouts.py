"""The text form of a layout, both ways: ``tp=8,pp=4,dp=2,zero=1,micro_batch=1,recompute=full``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from topology.errors import InputError, Problem
from topology.faults import did_you_mean
from topology.placement import MEGATRON_ORDER, ORDERS

from ..job.schedules import SCHEDULES
from ..job.search import MAX_GPUS, RECOMPUTE
from ..plan import Plan

DEGREES = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "dp_replicate", "zero", "micro_batch")
PER_STAGE = ("stage_layers", "recomputed_layers")
KEYS = (*DEGREES, "recompute", "order", "schedule", *PER_STAGE)
_SHORT = {"mbs": "micro_batch", "hsdp": "dp_replicate", "replicate": "dp_replicate"}
_EXAMPLE = "Write e.g. tp=8,pp=4,dp=2,zero=1,micro_batch=1,recompute=full."
_LONGEST = 1000
_ZERO_STAGES = 3


def parse_layout(text: str, where: str = "--layout") -> dict[str, Any]:
    """Read the text form.

    Parameters
    ----------
    text
        Comma-separated ``key=value``; what is left out keeps its default.
    where
        Flag or file, for messages.

    Returns
    -------
    Known keys with whole numbers, ``recompute`` with its kind, ``order`` with its axes, and
    ``schedule`` with its name.

    Raises
    ------
    InputError
        With every fault at once: unknown or repeated keys, and values out of range.
    """
    if len(text) > _LONGEST:
        raise InputError(Problem(where, 0, 0, "", "SP114", "is too long.", _EXAMPLE))
    values: dict[str, Any] = {}
    problems = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        key = _SHORT.get(name.lower(), name.lower())
        fault = _fault(key, value, values)
        if fault:
            problems.append(Problem(where, 0, 0, name[:40], *fault))
        else:
            values[key] = _value(key, value)
    if not values and not problems:
        problems.append(Problem(where, 0, 0, "", "SP113", "is empty.", _EXAMPLE))
    if problems:
        raise InputError(*problems)
    return values


def _value(key: str, text: str) -> Any:
    if key in PER_STAGE:
        return tuple(int(count) for count in text.split("/"))
    return text if key in ("recompute", "order", "schedule") else int(text)


def _fault(key: str, value: str, values: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return code, message and hint of what is wrong with one part."""
    if key not in KEYS:
        hint = f"{did_you_mean(key, KEYS)} Known keys: {', '.join(KEYS)}."
        return "SP101", "unknown key.", hint.strip()
    if key in values:
        return "SP114", "is given twice.", "Keep one."
    names = {"order": ORDERS, "schedule": SCHEDULES}.get(key)
    if names is not None:
        message = f"'{value[:40]}' unknown. Choose {' or '.join(names)}."
        return None if value in names else ("SP112", message, did_you_mean(value, names))
    if key in PER_STAGE:
        hint = f"Write one number a stage, e.g. {key}=19/21/21/19."
        right = re.fullmatch(r"[0-9]{1,5}(/[0-9]{1,5})*", value)
        return None if right else ("SP114", f"'{value[:40]}' is not understood.", hint)
    return _kind_fault(value) if key == "recompute" else _degree_fault(key, value)


def _kind_fault(value: str) -> tuple[str, str, str] | None:
    kinds = value.split("/")
    if len(kinds) in (1, 3) and all(kind in RECOMPUTE for kind in kinds):
        return None
    message = f"'{value[:40]}' unknown. Choose {', '.join(RECOMPUTE)}, or first/middle/last."
    return "SP112", message, did_you_mean(value, RECOMPUTE)


def _degree_fault(key: str, value: str) -> tuple[str, str, str] | None:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        return "SP114", f"needs a whole number, got '{value[:40]}'.", f"Write e.g. {key}=1."
    low, high = (0, _ZERO_STAGES) if key == "zero" else (1, MAX_GPUS)
    if not low <= int(value) <= high:
        return "SP109", f"{int(value):,} is out of range {low}..{high:,}.", ""
    return None


def layout_values(plan: Plan) -> dict[str, Any]:
    """Return the layout of a plan under the keys of the text form."""
    layout = plan.layout
    values = {key: getattr(layout, key) for key in DEGREES[:-1]}
    values |= {"micro_batch": plan.batch.micro_batch, "recompute": plan.recompute}
    stages = {"stage_layers": layout.stage_layers, "recomputed_layers": plan.recomputed_layers}
    given = {key: counts for key, counts in stages.items() if counts is not None}
    return {**values, "order": layout.order, "schedule": plan.options.schedule, **given}


def layout_text(plan: Plan) -> str:
    """Write a plan's layout so that ``--layout`` reads it; what is usual is left out."""
    keep = {"zero", "recompute", "micro_batch", "dp"}
    values = layout_values(plan)
    return ",".join(
        f"{k}={'/'.join(map(str, v)) if k in PER_STAGE else v}"
        for k, v in values.items()
        if k in keep or v not in (1, MEGATRON_ORDER, SCHEDULES[0])
    )
