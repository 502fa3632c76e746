"""Random small and middle planning problems for the search and its oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from solver.cost.calibrated import Calibrated
from solver.cost.goodput import Goodput
from solver.cost.profile import FRAMEWORK_STACK, load_profile
from solver.cost.textbook_model import Textbook, textbook_search
from solver.cost.ticks import TICK_S
from solver.job.finetune import Finetune
from solver.job.job import MAX_DEADLINE_S, MAX_USD, Account, Job, Limits, Objective, PlanningProblem
from solver.job.recipe import Precision, Recipe
from solver.job.reliability import Reliability
from solver.job.rules import Relation, Rule
from solver.job.schedules import SCHEDULES
from solver.job.search import OFFLOADS, Search, Variants
from topology import Cluster, ClusterSpec

from .enumerator import Plan
from .legal import Question
from .models import FAMILIES, TINY, Dice, random_transformer

GPUS = ("a100-40gb-sxm", "a100-80gb-sxm", "h100-80gb-sxm", "b200-180gb-sxm", "gb200-186gb")
WORLDS = (1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 24, 32, 32, 40, 48, 56, 64, 64, 64)
SEQUENCES = (512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
BATCHES = (1, 3, 6, 8, 12, 16, 20, 24, 32, 36, 48, 60, 64, 96, 100, 128, 192, 256, 360, 512)
LOOSE = Limits(max_bubble=1.0, max_comm=10.0, tp_within_node=False)
DEGREES = {"tp": 8, "pp": 8, "vpp": 4, "cp": 4, "ep": 8}


def random_problem(seed: int, number: int) -> PlanningProblem:
    """Return the problem of this number in the series of this seed."""
    dice = Dice(f"{seed}/{number}")
    world = dice.pick(WORLDS)
    node = dice.pick([n for n in (1, 2, 4, 8, 8, 8) if world % n == 0])
    cluster = _cluster(dice, world, node)
    # A GPU without 8-bit tensor cores has no such recipe.
    precisions: tuple[Precision, ...] = ("bf16",)
    if "fp8" in cluster.group.gpu.peak_flops:
        precisions = ("bf16", "bf16", "fp8")
    family = FAMILIES[number % len(FAMILIES)]
    transformer = random_transformer(dice, family, world)
    account, search = Account(), _search(dice, world, node)
    # The textbook account is for dense models.
    if transformer.moe is None and dice.chance(0.5 if family == TINY else 0.2):
        account = Account(
            cost_model="textbook", mfu=dice.pick((0.3, 0.4)), charge_recompute=dice.chance(0.5)
        )
        rules = tuple(rule for rule in search.rules if rule.axis != "cp")
        update_free = {"cp": None, "ep": None, "vpp": None, "rules": rules}
        search = search.model_copy(update=update_free)
    seq_len, global_batch = dice.pick(SEQUENCES), dice.pick(BATCHES)
    if family == TINY:  # one GPU would win most ties
        counts = [n for n in range(2, world + 1) if n % node == 0 or node % n == 0]
        update = {"gpus": dice.pick((None, *counts)), "max_gpus": None}
        search = search.model_copy(update=update)
        if account.cost_model == "calibrated":
            seq_len, global_batch = dice.pick((32, 64, 256)), dice.pick((1, 1, 2, 3, 4, 8, 12))
    job = Job(
        transformer=transformer,
        seq_len=seq_len,
        global_batch=global_batch,
        tokens=dice.pick((10**9, 10**11, 3 * 10**12 + 1)) if dice.chance(0.8) else None,
        recipe=Recipe(precision=dice.pick(precisions), grad_bytes=dice.pick((2.0, 4.0))),
        attention=dice.pick(("flash", "flash", "unfused")),
        fused_loss=dice.chance(0.3),
    )
    if account.cost_model == "calibrated":
        job, search = _tuned(Dice(f"tuned {seed}/{number}"), job, search)
    return PlanningProblem(
        job=job,
        cluster=cluster,
        limits=LOOSE if family == TINY else _limits(dice),
        search=search,
        account=account,
        objective=Objective(minimise=dice.pick(("time", "cost")), pareto=dice.chance(0.5)),
        framework=dice.pick(("megatron", "megatron", "fsdp")),
        reliability=_reliability(Dice(f"failures {seed}/{number}")),
    )


TUNINGS = (
    Finetune(lora_rank=8),
    Finetune(lora_rank=16, lora_targets=("all",), base_bits=4, frozen_layers=1),
    Finetune(frozen=("embedding", "mlp"), frozen_layers=1),
    Finetune(reference_model=True),
)
"""Kinds of fine-tuning that are drawn; every family has more than one layer."""


def _reliability(dice: Dice) -> Reliability | None:
    """Count failures in some of the problems, from none to so many that large clusters stall."""
    if dice.chance(0.7):
        return None
    return Reliability(
        failures=dice.pick((0.0, 2.34, 6.5, 100.0, 1000.0)),
        restart_s=dice.pick((0.0, 600.0, 7200.0)),
        node_bytes_per_s=dice.pick((3e8, 1.2e9)),
        interval_s=dice.pick((None, None, 3600.0)),
    )


def _tuned(dice: Dice, job: Job, search: Search) -> tuple[Job, Search]:
    """Train a part of the model, or keep states on the host, in some of the problems."""
    if dice.chance(0.15) and job.transformer.layers > 1:
        job = job.model_copy(update={"finetune": dice.pick(TUNINGS)})
    if dice.chance(0.15):
        search = search.model_copy(update={"offload": dice.pick(OFFLOADS[1:])})
    return job, search


def _cluster(dice: Dice, world: int, node: int) -> Cluster:
    """Draw GPU, links and price; GB200 racks join several nodes in one NVLink domain."""
    spec: dict[str, Any] = {"gpu": dice.pick(GPUS), "nodes": world // node, "gpus_per_node": node}
    if dice.chance(0.15):
        spec["intra"] = "none"
    if dice.chance(0.3):
        spec["inter"] = dice.pick(("2GB/s", "10GB/s", "25GB/s", "100GB/s"))
    if dice.chance(0.2):
        spec["oversubscription"] = dice.pick((2.0, 4.0))
    spec["price"] = dice.pick((0.5, 1.99, 2.5, 11.06))
    return ClusterSpec.model_validate(spec).build()


def _limits(dice: Dice) -> Limits:
    """Draw limits from loose to tight, half of the time the usual ones."""
    if dice.chance(0.4):
        return Limits()
    return Limits(
        mem_headroom=dice.pick((0.0, 0.1, 0.1, 0.2, 0.4)),
        max_bubble=dice.pick((0.0, 0.05, 0.15, 0.15, 0.333, 1.0)),
        max_comm=dice.pick((0.03, 0.1, 0.2, 0.35, 0.5, 10.0)),
        comm_metric=dice.pick(("exposed", "total")),
        tp_within_node=dice.chance(0.6),
        max_stages=dice.pick((1, 3, 8, 32, 10_000)),
    )


def _search(dice: Dice, world: int, node: int) -> Search:
    """Draw restrictions, most of the time few."""
    listed: dict[str, Any] = {}
    for name, most in DEGREES.items():
        if dice.chance(0.12):
            listed[name] = (1, *dice.some(range(2, most + 1)))
        elif dice.chance(0.02):
            listed[name] = dice.some(range(1, most + 1))
    if dice.chance(0.2):
        listed["zero"] = dice.pick(((3,), dice.some((0, 1, 2, 3))))
    if dice.chance(0.2):
        listed["micro_batch"] = (1, *dice.some((2, 3, 4, 6, 8)))[dice.pick((0, 0, 1)) :]
    if dice.chance(0.25):
        listed["recompute"] = dice.some(("none", "selective", "full"))
    counts = [n for n in range(1, world + 1) if n % node == 0 or node % n == 0]
    if dice.chance(0.1):
        listed["order"] = dice.some(("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"))
    if dice.chance(0.2):
        listed["gpus"] = dice.pick(counts)
    elif dice.chance(0.2):
        listed["max_gpus"] = dice.pick((*counts, world + 5))
    listed["rules"] = _rules(dice)
    listed["recompute_by_stage"] = dice.chance(0.4)
    return Search.model_validate({"hsdp": dice.chance(0.8), **listed})


def _rules(dice: Dice) -> tuple[Rule, ...]:
    """Draw what is fixed, forbidden or bounded on single axes, most of the time nothing."""
    rules: list[Rule] = []
    while dice.chance(0.15):
        axis = dice.pick(("tp", "pp", "cp", "dp", "zero", "micro_batch", "dp_replicate", "gpus"))
        relations: tuple[Relation, ...] = ("!=", "!=", "<=", ">=", ">=", "=")
        value = dice.pick((1, 1, 2, 3, 4, 8))
        rules.append(Rule(axis=axis, relation=dice.pick(relations), value=value))
    return tuple(rules)


def question(problem: PlanningProblem) -> Question:
    """Return what the enumerator asks of a problem, priced as its account says."""
    job, group, limits = problem.job, problem.cluster.group, problem.limits
    account, search = problem.account, problem.search
    goodput = Goodput.of(job, problem.reliability)
    if account.cost_model == "textbook":
        search = textbook_search(search)
        book = Textbook(job, group, limits, search, account)
        return Question(job, group, limits, search, book, goodput)
    profile = load_profile(account.profile or FRAMEWORK_STACK[problem.framework], group.gpu.id)
    if search.schedule == "zb-h1":
        software = profile.software.model_copy(update={"schedule": search.schedule})
        profile = profile.model_copy(update={"software": software})
    cost = Calibrated(job, group, limits, search, profile)
    return Question(job, group, limits, search, cost, goodput)


def questions(problem: PlanningProblem) -> list[Question]:
    """Return what the enumerator asks of a problem with several schedules: one for each."""
    listed = problem.search.variants.schedule or (problem.search.schedule,)
    return [
        question(replace(problem, search=problem.search.model_copy(update={"schedule": schedule})))
        for schedule in listed
    ]


ZERO_BUBBLE = "zero-bubble-megatron"
"""The stack that has ZB-H1."""


def with_schedules(problem: PlanningProblem, seed: int, number: int) -> PlanningProblem:
    """Let weight gradients wait in every plan, or where it helps, of some of the problems."""
    dice = Dice(f"schedules {seed}/{number}")
    plain = problem.account.cost_model == "calibrated" and problem.job.finetune is None
    if not plain or "activations" in problem.search.offload or dice.chance(0.6):
        return problem
    several = dice.chance(0.5)
    update = {"variants": Variants(schedule=SCHEDULES)} if several else {"schedule": "zb-h1"}
    return replace(
        problem,
        account=Account(profile=ZERO_BUBBLE),
        search=problem.search.model_copy(update=update),
    )


def with_money_limits(
    problem: PlanningProblem, seed: int, number: int, fast: Plan
) -> PlanningProblem:
    """Add a deadline, a budget or both around what the fastest plan takes.

    Factors below one exclude the fastest plan, and with it, under a deadline, every plan.
    """
    dice = Dice(f"money {seed}/{number}")
    steps, price = problem.job.steps, problem.cluster.group.price_usd_per_gpu_hour
    if steps is None or price is None:
        return problem
    seconds = fast.wall * TICK_S * steps
    usd = seconds / 3600 * fast.held * price
    chosen: dict[str, Any] = {}
    if dice.chance(0.7):
        factor = dice.pick((0.9999999, 1.0, 1.0000001, 1.01, 1.3, 3.0, 50))
        chosen["deadline_s"] = min(seconds * factor, MAX_DEADLINE_S)
    if not chosen or dice.chance(0.5):
        factor = dice.pick((0.3, 0.7, 0.9, 0.999, 1.0, 1.000001, 1.2, 4.0))
        chosen["budget_usd"] = min(usd * factor, MAX_USD)
    return replace(problem, limits=Limits(**{**problem.limits.model_dump(), **chosen}))
