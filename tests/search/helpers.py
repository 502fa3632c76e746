"""Problems that the search tests share."""

from __future__ import annotations

from typing import Any

from solver.job.job import Account, Job, Limits, Objective, PlanningProblem
from solver.job.presets import find_model
from solver.job.search import Search
from topology import ClusterSpec

TEXTBOOK = Account(cost_model="textbook")


def problem(
    model: str = "llama3-70b", nodes: int = 8, batch: int = 1024, **parts: Any
) -> PlanningProblem:
    """Seed 003's cluster and batch, with the parts that a test changes."""
    spec = {
        "nodes": nodes,
        "gpus_per_node": 8,
        "gpu": parts.pop("gpu", "h100-80gb-sxm"),
        "inter": parts.pop("inter", "50GB/s"),
        "price": 2.5,
    }
    job = Job(
        transformer=find_model(model),
        seq_len=parts.pop("seq_len", 4096),
        global_batch=batch,
        tokens=parts.pop("tokens", 10**11),
    )
    cluster = ClusterSpec.model_validate(spec).build()
    defaults: dict[str, Any] = {
        "limits": Limits(), "search": Search(), "objective": Objective(), "account": Account(),
    }  # fmt: skip
    return PlanningProblem(job=job, cluster=cluster, **{**defaults, **parts})
