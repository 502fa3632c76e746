"""Seconds to a proven optimum and to a complete front, over models and cluster sizes.

In process and warm (one throw-away solve first), one worker, calibrated model. A proof that
nothing fits counts as a proof. The last line is ``key=value …``.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from solver.job.job import Job, Objective, PlanningProblem
from solver.job.presets import find_model
from solver.search.search import solve
from topology import ClusterSpec

MODELS = ("llama3-8b", "llama3-70b", "llama3.1-405b", "deepseek-v3")
BATCH = {8: 128, 64: 1024, 512: 2048, 4096: 4096, 16384: 8192, 131072: 16384}
"""Sequences of 4,096 tokens a step at each number of GPUs."""
REPEATS = 3


def problem(model: str, gpus: int, objective: Objective) -> PlanningProblem:
    """A pre-training job of 10^12 tokens on H100 nodes of eight at 50 GB/s a GPU."""
    spec = {"nodes": gpus // 8, "gpus_per_node": 8, "gpu": "h100-80gb-sxm", "inter": "50GB/s"}
    cluster = ClusterSpec.model_validate({**spec, "price": 2.5}).build()
    job = Job(transformer=find_model(model), seq_len=4096, global_batch=BATCH[gpus], tokens=10**12)
    return PlanningProblem(job=job, cluster=cluster, objective=objective)


def timed(model: str, gpus: int, objective: Objective) -> dict[str, Any]:
    """Median seconds of some solves, with what the last one returned."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = solve(problem(model, gpus, objective), top=1, explain=False)
        seconds.append(time.perf_counter() - start)
    certificate = result.certificate
    return {
        "model": model,
        "gpus": gpus,
        "goal": "front" if objective.pareto else objective.minimise,
        "seconds": statistics.median(seconds),
        "status": result.status,
        "shapes": certificate.shapes,
        "models_solved": certificate.models,
        "points": len(result.front),
        "step_s": result.plans[0].estimate.time.step_s if result.plans else None,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="two small sizes only")
    parser.add_argument("--gpus", type=int, nargs="*", choices=sorted(BATCH), help="these sizes")
    parser.add_argument("--json", type=Path, help="write the rows and the summary here")
    options = parser.parse_args(arguments)
    sizes = options.gpus or ([8, 64] if options.smoke else sorted(BATCH))
    solve(problem(MODELS[0], 8, Objective()), top=1)
    rows = []
    print(f"{'model':14} {'gpus':>7} {'goal':>5} {'seconds':>8} {'status':>10} {'shapes':>7} "
          f"{'solved':>6} {'points':>6} {'step s':>9}")  # fmt: skip
    for model in MODELS:
        for gpus in sizes:
            for objective in (
                Objective(),
                Objective(minimise="cost"),
                Objective(pareto=True),
            ):
                row = timed(model, gpus, objective)
                rows.append(row)
                step = "-" if row["step_s"] is None else f"{row['step_s']:.4f}"
                print(f"{model:14} {gpus:7} {row['goal']:>5} {row['seconds']:8.3f} "
                      f"{row['status']:>10} {row['shapes']:7} {row['models_solved']:6} "
                      f"{row['points']:6} {step:>9}", flush=True)  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    worst = {
        goal: max(r["seconds"] for r in rows if r["goal"] == goal)
        for goal in ("time", "cost", "front")
    }
    unproved = sum(r["status"] not in ("optimal", "infeasible") for r in rows)
    summary = {
        "n": len(rows),
        "unproved": unproved,
        **{f"max_{goal}_s": round(seconds, 3) for goal, seconds in worst.items()},
        "peak_mb": round(peak),
    }
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "summary": summary}, indent=1))
    print(" ".join(f"{key}={value}" for key, value in summary.items()))
    return int(unproved > 0)


if __name__ == "__main__":
    sys.exit(main())
