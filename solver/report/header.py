"""The lines above a table of plans: problem, cluster, limits, profile, solver."""

from __future__ import annotations

from collections.abc import Sequence

from topology.cluster import NodeGroup
from topology.offers import KINDS, Offer
from topology.units import show_bandwidth, show_bytes, show_count, show_seconds, show_usd

from ..cost.own_profile import find_profile
from ..cost.profile import FRAMEWORK_STACK
from ..job.finetune import BASE_BITS, Finetune
from ..job.job import Limits, PlanningProblem
from ..result import Certificate, Result
from ..search.validate import may_free_stages, spreads_evenly
from .cells import percent, percent1, things
from .goodput import failures

_LEAST = {
    "time": "least wall-clock time",
    "cost": "least cost",
    "gpus": "fewest GPUs",
    "memory": "least memory",
}


def objective_text(minimise: str, then: Sequence[str] = ()) -> str:
    """Say what the best plan has least of, and what decides between equals."""
    return ", then ".join(_LEAST[name] for name in (minimise, *then))


def problem_lines(problem: PlanningProblem) -> tuple[tuple[str, str], ...]:
    """Describe what is planned, on what, within which limits and by which account."""
    return (
        ("Problem", _job(problem)),
        ("Cluster", " + ".join(map(_group, problem.cluster.groups))),
        ("Limits", _limits(problem.limits)),
        ("Account", account(problem)),
        *([("Failures", failures(problem))] if problem.job.tokens is not None else []),
    )


def _job(problem: PlanningProblem) -> str:
    job, model = problem.job, problem.job.transformer
    counts = model.parameters()
    active = f" ({show_count(counts.active)} active)" if counts.active != counts.total else ""
    parts = [
        model.name,
        f"{show_count(counts.total)} parameters{active}",
        f"{model.layers} layers",
        f"h {model.hidden}",
        f"seq {job.seq_len}",
        f"global batch {job.global_batch:,} seqs ({show_count(job.step_tokens)} tok)",
        job.recipe.precision,
    ]
    if job.finetune is not None:
        parts += _tuned(job.finetune, job.trainable)
    if job.tokens is not None:
        parts.append(f"{show_count(job.tokens)} tokens in {job.steps:,} steps")
    return " · ".join(parts)


def _tuned(finetune: Finetune, trainable: int) -> list[str]:
    """Say what of the model is trained."""
    parts = [f"{show_count(trainable)} trained"]
    if finetune.adapts:
        parts.append(f"LoRA rank {finetune.lora_rank} on {', '.join(finetune.lora_targets)}")
        if finetune.base_bits < max(BASE_BITS):
            parts.append(f"{finetune.base_bits}-bit base")
    if finetune.frozen:
        parts.append(f"frozen {', '.join(finetune.frozen)}")
    if finetune.frozen_layers:
        parts.append(f"first {finetune.frozen_layers} layers frozen")
    if finetune.reference_model:
        parts.append("with a reference model")
    return parts


def _group(group: NodeGroup) -> str:
    assumed = {name for name, _, _ in group.assumptions}

    def star(name: str) -> str:
        return "*" if name in assumed else ""

    gpu = group.gpu
    parts = [
        f"{things(group.nodes, 'node')} × {group.gpus_per_node} {gpu.name}{star('gpus_per_node')}"
    ]
    if group.nvlink_domain > 1:
        width = "" if group.nvlink_domain == group.gpus_per_node else f" over {group.nvlink_domain}"
        parts.append(f"NVLink {show_bandwidth(group.nvlink_bytes_per_s)}{star('intra')}{width}")
    else:
        parts.append(f"PCIe {show_bandwidth(gpu.pcie_bytes_per_s)}*, no NVLink")
    if group.nodes > 1:
        parts.append(f"network {show_bandwidth(group.inter_bytes_per_s)}{star('inter')} per GPU")
    if group.oversubscription > 1:
        parts.append(f"oversubscribed {group.oversubscription:g}:1")
    spec = "" if gpu.usable_measured else " (spec, assumed)"
    usable = f"usable {show_bytes(gpu.usable_bytes, binary=True)}{star('usable_memory')}{spec}"
    parts.append(usable)
    if group.priced:
        parts.append(f"{', '.join(map(_offer, group.priced))} per GPU-hour")
    if not gpu.training_measured:
        parts.append("unmeasured: no training run of this GPU is known")
    return " · ".join(parts)


def _offer(offer: Offer) -> str:
    kind = f" {offer.kind}" if offer.kind in KINDS else ""
    return f"${offer.usd_per_gpu_hour:.2f}{'' if offer.source == 'given' else '*'}{kind}"


def _limits(limits: Limits) -> str:
    metric = "exposed" if limits.comm_metric == "exposed" else "total"
    parts = [
        f"memory headroom {percent(limits.mem_headroom)}",
        f"bubble ≤ {percent(limits.max_bubble)}",
        f"{metric} communication ≤ {percent(limits.max_comm)} of compute",
        "TP within a node" if limits.tp_within_node else "TP across nodes allowed",
        f"≤ {limits.max_stages} stages",
    ]
    if limits.deadline_s is not None:
        parts.append(f"within {show_seconds(limits.deadline_s)}")
    if limits.budget_usd is not None:
        parts.append(f"at most {show_usd(limits.budget_usd)}")
    return " · ".join(parts)


def account(problem: PlanningProblem) -> str:
    """Name the cost model, its profile and its expected error."""
    given = problem.account
    if given.cost_model == "textbook":
        charged = "charged at 1/3" if given.charge_recompute else "not charged"
        memory = show_bytes(problem.cluster.groups[0].gpu.memory_bytes)
        return (
            f"textbook · MFU {percent(given.mfu)} taken as given · recomputation {charged} · "
            f"{memory} of the data sheet · all communication counted"
        )
    stack = given.profile or FRAMEWORK_STACK[problem.framework]
    gpus = dict.fromkeys(group.gpu.id for group in problem.cluster.groups)
    profiles = [find_profile(stack, gpu) for gpu in gpus]
    names = " + ".join(dict.fromkeys(profile.name for profile in profiles))
    mixture = problem.job.transformer.moe is not None
    # No mixed run was measured: the error of the worst profile is the least to expect.
    error = max(profile.expected_error(mixture) for profile in profiles)
    measured = all(profile.measured for profile in profiles)
    unmeasured = "" if measured else " · unmeasured GPU: rates are those of others"
    return f"calibrated · profile {names} · expected error of a step {percent(error)}{unmeasured}"


def layers_looked_at(problem: PlanningProblem) -> str:
    """Name the splits of layers that a proof is about; empty where it is about all."""
    if not spreads_evenly(problem):
        return ""
    several = len(problem.cluster.groups) > 1
    return f"evenly spread layers{' within one kind of node' if several else ''}"


def solver_line(
    problem: PlanningProblem, result: Result, seed: int, workers: int, seconds: float | None
) -> str:
    """Say what was looked at and how sure the answer is."""
    certificate, asked = result.certificate, problem.objective.gap
    layers = layers_looked_at(problem) if result.status != "unknown" else ""
    over = f" over {layers}" if layers else ""
    if over and result.plans and may_free_stages(problem):
        over += " (--stages free: over all)"
    enough = certificate.gap is not None and 0 < certificate.gap <= asked
    within = f" within {percent(asked)}" if enough else ""
    parts = [
        f"{things(certificate.shapes, 'shape')} → {certificate.opened:,} opened in "
        f"{things(certificate.models, 'model')} → {len(result.plans)} shown",
        f"{result.status.upper()}{within}{_gap(certificate)}{over}",
        f"seed {seed}, {workers} worker{'s' if workers > 1 else ''}",
    ]
    if seconds is not None:
        parts.append(show_seconds(seconds))
    return " · ".join(parts)


def _gap(certificate: Certificate) -> str:
    return "" if certificate.gap is None else f" (gap {percent1(certificate.gap)})"


def dropped_line(certificate: Certificate) -> str:
    """Say which limits excluded how many shapes, most first; empty where none did."""
    ranked = sorted(certificate.dropped.items(), key=lambda item: (-item[1], item[0]))
    return " · ".join(f"{name} {number:,}" for name, number in ranked if number)
