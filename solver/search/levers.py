"""What is not a limit but may be changed: states in 8 bit, offload, degrees that were left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..cost.calibrated import Calibrated
from ..cost.profile import scheduled
from ..job.job import Job
from ..job.recipe import Recipe
from ..job.schedules import SCHEDULES
from ..job.search import RECOMPUTE, Search
from ..result import Relaxation
from .clashes import Grounds
from .freest import layout_of

LISTS = ("tp", "pp", "vpp", "cp", "ep", "etp", "zero", "micro_batch")


def levers(grounds: Grounds) -> Iterator[Relaxation]:
    """Yield each change of the job or the search that alone makes a plan appear."""
    instance = grounds.instance
    for name, field, command, job, search in _changes(instance.job, instance.search):
        if grounds.clock.over():
            return
        cost = instance.cost
        if isinstance(cost, Calibrated):
            profile = scheduled(cost.profile, search.schedule)
            cost = Calibrated(job, instance.group, instance.limits, search, profile)
        elif job is not instance.job or search.offload != "none":
            continue
        changed = replace(instance, job=job, search=search, cost=cost)
        other = Grounds(changed, grounds.settings, grounds.clock)
        found = other.plan(frozenset(other.limits), best=False)
        if found is not None:
            yield Relaxation(
                limit=name, field=field, have=0, to=1, unit="", layout=layout_of(found),
                text=f"{layout_of(found)} is then a plan", command=command,
            )  # fmt: skip


def _changes(job: Job, search: Search) -> Iterator[tuple[str, str, str, Job, Search]]:
    """Yield name, field, flag, and the job and search with one change each."""
    if job.recipe.optimizer == "adamw":
        recipe = Recipe.model_validate(
            {
                "precision": job.recipe.precision,
                "optimizer": "adamw8bit",
                "grad_bytes": job.recipe.grad_bytes,
            }
        )
        states = job.model_copy(update={"recipe": recipe})
        command = "training: {optimizer: adamw8bit}"
        yield "optimizer", "training.optimizer", command, states, search
    for offload in ("optimizer", "optimizer+activations"):
        able = offload == "optimizer" or not search.zero_bubble
        if search.offload == "none" and job.finetune is None and able:
            moved = search.model_copy(update={"offload": offload})
            yield "offload", "search.offload", f"--offload {offload}", job, moved
    if search.recompute != RECOMPUTE:
        every = search.model_copy(update={"recompute": RECOMPUTE})
        command = f"search: {{recompute: [{', '.join(RECOMPUTE)}]}}"
        yield "recompute", "search.recompute", command, job, every
    for name in LISTS:
        if getattr(search, name) is not None:
            free = search.model_copy(update={name: None})
            yield f"search.{name}", f"search.{name}", f"without search.{name}", job, free
    if search.zero_bubble:
        plain = search.model_copy(update={"schedule": SCHEDULES[0]})
        command = "search: {schedule: 1f1b}"
        yield "search.schedule", "search.schedule", command, job, plain
    for rule in search.rules:
        rules = tuple(other for other in search.rules if other != rule)
        free = search.model_copy(update={"rules": rules})
        yield f"search rule {rule}", "search", f"without {rule}", job, free
