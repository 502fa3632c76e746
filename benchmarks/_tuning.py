"""What a row trains: the whole model, adapters, or a model beside a frozen copy of it."""

from __future__ import annotations

import re

from solver.calibration.jobs import ADAPTERS
from solver.calibration.rows import RefusedError, Row
from solver.job.finetune import Finetune, LoraTarget

WHOLE = re.compile(r"|pretrain|full|sft|full (sft|fine-?tun\w*)")
TOWER = re.compile(r"(vision|image|audio)[\w ]* frozen")
"""Another tower than the transformer is frozen; it is not part of a row's shape."""


def task_of(row: Row) -> str:
    """Return what a field case trains, as the tables of runs name it."""
    text = row.text("tuning", default="full").lower()
    if not WHOLE.fullmatch(TOWER.sub("", text).strip(" ,;")):
        return text
    return "sft" if "sft" in text else "pretrain"


def finetune_of(row: Row) -> Finetune | None:
    """Read the task of a row.

    Raises
    ------
    RefusedError
        Where what is trained is not known, or is no part of the row's shape.
    """
    text = row.text("n_task", "task", "tuning", default="pretrain").lower()
    plain = TOWER.sub("", text).strip(" ,;")
    if WHOLE.fullmatch(plain):
        return None
    adapts = re.search(r"\bq?lora\b", plain) is not None
    compares = re.search(r"\b(dpo|kto)\b", plain) is not None
    if not adapts and not compares:
        raise RefusedError(f"{text[:40]}: what is trained is no part of the stated shape")
    # A reference model on the host takes nothing of the card.
    here = compares and "reference" not in row.text("offload", "n_offload").lower()
    if not adapts:
        return Finetune(reference_model=here)
    rank = re.search(r"\b(?:r|rank)\s*[=:]?\s*(\d{1,4})\b", plain)
    return Finetune(
        lora_rank=int(rank[1]) if rank else ADAPTERS.lora_rank,
        lora_targets=_targets(plain),
        base_bits=4 if re.search(r"qlora|nf4|\b4-?bit", plain) else 16,
        reference_model=here,
    )


def _targets(text: str) -> tuple[LoraTarget, ...]:
    if re.search(r"all[- ]linear|all layers", text):
        return ("all",)
    if re.search(r"\bqkv\b|\bq[, ]*k[, ]*v\b|\bq[, ]*v\b", text):
        return ("qkv",)
    return ADAPTERS.lora_targets
