"""The problem as it was understood: a problem file with nothing left out, and its fingerprint.

`parse_problem(json.dumps(problem_data(p)))` gives ``p`` back, apart from file positions and the
record of which values were assumed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from typing import Any

from topology.cluster import Cluster, NodeGroup
from topology.offers import Offer

from ..job.job import PlanningProblem
from ..job.reliability_field import reliability_data
from ..job.schema import GRAD_BYTES
from ..job.search_field import search_data

PLAN_SCHEMA = "shardplan.plan/1"


def tool_version() -> str:
    """Return the installed version of the tool."""
    try:
        return importlib.metadata.version("shardplan")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "0+unknown"


def problem_data(problem: PlanningProblem) -> dict[str, Any]:
    """Return the problem as the contents of a problem file, every value in base units."""
    limits = problem.limits.model_dump(exclude={"deadline_s", "budget_usd"})
    deadline = problem.limits.deadline_s
    limits["deadline"] = None if deadline is None else f"{deadline!r}s"
    limits["budget"] = problem.limits.budget_usd
    finetune, reliability = problem.job.finetune, problem.reliability
    failing = {} if reliability is None else {"reliability": reliability_data(reliability)}
    return {
        **failing,
        "schema": problem.schema,
        "model": problem.job.transformer.model_dump(mode="json"),
        "cluster": _cluster(problem.cluster),
        "training": _training(problem),
        "finetune": None if finetune is None else finetune.model_dump(mode="json"),
        "limits": limits,
        "search": search_data(problem.search),
        "objective": problem.objective.model_dump(mode="json"),
        "framework": problem.framework,
        **problem.account.model_dump(mode="json"),
    }


def _training(problem: PlanningProblem) -> dict[str, Any]:
    job = problem.job
    names = {size: name for name, size in GRAD_BYTES.items()}
    return {
        "seq_len": job.seq_len,
        "global_batch": f"{job.global_batch}seq",
        "tokens": job.tokens,
        "precision": job.recipe.precision,
        "optimizer": job.recipe.optimizer,
        "grad_dtype": names[job.recipe.grad_bytes],
        "flash_attention": job.attention == "flash",
        "fused_loss": job.fused_loss,
        "loss_chunks": job.loss_chunks,
        "expert_imbalance": job.expert_imbalance,
        "capacity_factor": job.capacity_factor,
        "attention_span": job.attention_span,
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    groups = [_group(group) for group in cluster.groups]
    if len(groups) == 1:
        return {"name": cluster.name, **groups[0]}
    return {"name": cluster.name, "groups": groups}


def _group(group: NodeGroup) -> dict[str, Any]:
    data: dict[str, Any] = {
        "gpu": group.gpu.id,
        "nodes": group.nodes,
        "gpus_per_node": group.gpus_per_node,
        "intra": group.nvlink_bytes_per_s or "none",
        "inter": {"per_gpu": group.inter_bytes_per_s},
        "nvlink_domain": group.nvlink_domain,
        "oversubscription": group.oversubscription,
        "leaf_nodes": group.leaf_nodes,
        "nics_per_node": group.nics_per_node,
        "rails": group.rails,
        "pcie_switch_gpus": group.pcie_switch_gpus,
        "usable_memory": group.gpu.usable_bytes,
    }
    if group.host_bytes is not None:
        data["host_memory"] = group.host_bytes
    if group.offers:
        data["prices"] = {offer.kind: _offer(offer) for offer in group.offers}
    elif group.price_usd_per_gpu_hour is not None:
        kind = {"kind": group.price_kind} if group.price_kind else {}
        data["price"] = {
            **kind,
            "usd_per_gpu_hour": group.price_usd_per_gpu_hour,
            "date": group.price_date,
            "source": group.price_source,
        }
    return data


def _offer(offer: Offer) -> dict[str, Any]:
    often = {} if offer.interruptions is None else {"interruptions": offer.interruptions}
    return {
        "usd_per_gpu_hour": offer.usd_per_gpu_hour,
        "date": offer.date,
        "source": offer.source,
        **often,
    }


def canonical(data: Any) -> str:
    """Write data as JSON in the one form that the fingerprint is taken of."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def problem_sha256(problem: PlanningProblem) -> str:
    """Return the fingerprint of the resolved problem."""
    return hashlib.sha256(canonical(problem_data(problem)).encode()).hexdigest()


def assumptions(problem: PlanningProblem) -> list[dict[str, str]]:
    """List what was not given but taken from defaults, with the source of each."""
    found = []
    for number, group in enumerate(problem.cluster.groups):
        prefix = f"groups[{number}]." if len(problem.cluster.groups) > 1 else ""
        found += [
            {"field": f"cluster.{prefix}{name}", "value": value, "source": source}
            for name, value, source in group.assumptions
        ]
        found += [
            {
                "field": f"cluster.{prefix}price{'s.' + offer.kind if group.offers else ''}",
                "value": f"{offer.usd_per_gpu_hour!r} USD per GPU-hour",
                "source": _dated(offer) or "no source given",
            }
            for offer in group.priced
            if offer.source != "given"
        ]
    return found


def _dated(offer: Offer) -> str:
    return ", ".join(filter(None, (" ".join(filter(None, (offer.kind, offer.source))), offer.date)))
