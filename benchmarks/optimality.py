"""CP-SAT against the enumerator on random problems: value, every tie, and the whole front.

``python benchmarks/optimality.py --instances 300 --seed 0 [--json FILE]``. Prints what each family
of problems came to, one line a mismatch, and last ``n=… mismatches=… infeasible=… fronts=…``; exit
status 1 where there are mismatches.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from solver.job.job import PlanningProblem
from tests.oracle.coarse import coarse_costs
from tests.oracle.compare import Comparison, Mismatch, best_of_all, compare
from tests.oracle.compare_free import compare_free, free_problem
from tests.oracle.compare_kinds import compare_kinds, with_kinds
from tests.oracle.compare_order import compare_order, ordered_problem
from tests.oracle.enumerator import blocks
from tests.oracle.problems import (
    questions,
    random_problem,
    with_money_limits,
    with_schedules,
)

MONEY_SHARE = 0.45
"""Share of the problems with a deadline, a budget or both."""
COARSE_SHARE = 0.25
"""Share of the problems with costs on a coarse grid, where plans tie."""
FREE_EVERY = 20
"""Of so many problems one spreads layers freely over stages, and one over two node groups."""
KINDS_AT, ORDER_AT = 4, 14
"""Of as many problems one has several kinds of price, and one several objectives in order."""
MIN_HIDDEN = 128
"""Narrower models are drawn for their ties."""


def draw(seed: int, number: int) -> PlanningProblem:
    """Return one problem of the series, some with money limits around its fastest plan."""
    problem = with_schedules(random_problem(seed, number), seed, number)
    if random.Random(f"limits {seed}/{number}").random() >= MONEY_SHARE:
        return problem
    asked = questions(problem)
    fast = best_of_all(asked, "time", [blocks(one) for one in asked])
    return problem if fast is None else with_money_limits(problem, seed, number, fast)


def is_coarse(seed: int, number: int) -> bool:
    """Whether this instance has its costs on a coarse grid."""
    return random.Random(f"coarse {seed}/{number}").random() < COARSE_SHARE


def free_groups(number: int) -> int:
    """Return the node groups of an instance whose layers spread freely; 0 for the others."""
    return {FREE_EVERY // 2 - 1: 1, FREE_EVERY - 1: 2}.get(number % FREE_EVERY, 0)


def attempt(seed: int, number: int, time_limit_s: float) -> tuple[PlanningProblem, Comparison]:
    """Compare one instance; a crash on a legal problem is a wrong answer like any other."""
    groups = free_groups(number)
    problem = free_problem(seed, number, groups) if groups else random_problem(seed, number)
    try:
        if groups:
            return problem, Comparison(compare_free(problem), None, None)
        with coarse_costs() if is_coarse(seed, number) else nullcontext():
            if number % FREE_EVERY == KINDS_AT:
                problem = with_kinds(seed, number)
                return problem, compare_kinds(problem, time_limit_s)
            if number % FREE_EVERY == ORDER_AT:
                problem, plans = ordered_problem(seed, number)
                return problem, compare_order(problem, plans, time_limit_s)
            problem = draw(seed, number)
            return problem, compare(problem, time_limit_s)
    except Exception as error:
        raised = Mismatch("raised", f"{type(error).__name__}: {error}", "an answer")
        return problem, Comparison((raised,), None, None)


def family(problem: PlanningProblem) -> str:
    """Name the kind of transformer and account."""
    if problem.search.stages == "free":
        return (
            "layers spread freely, " + ("one group", "two groups")[len(problem.cluster.groups) > 1]
        )
    if problem.objective.then:
        return "objectives in order"
    if problem.cluster.group.offers:
        return "several kinds of price"
    model = problem.job.transformer
    moe = "moe" if model.moe else "dense"
    heads = "mla" if model.mla else "mha" if model.kv_heads == model.heads else "gqa"
    tiny = "tiny " if model.hidden < MIN_HIDDEN else ""
    return f"{problem.account.cost_model} {tiny}{heads} {moe}"


def run(instances: int, seed: int, time_limit_s: float) -> dict[str, Any]:
    """Compare every instance."""
    started = time.perf_counter()
    families: dict[str, Counter[str]] = {}
    mismatches = []
    slowest = (0.0, -1)
    for number in range(instances):
        begun = time.perf_counter()
        problem, outcome = attempt(seed, number, time_limit_s)
        slowest = max(slowest, (time.perf_counter() - begun, number))
        families.setdefault(family(problem), Counter()).update(_tally(problem, outcome))
        families[family(problem)]["coarse"] += not free_groups(number) and is_coarse(seed, number)
        for mismatch in outcome.mismatches:
            row = {"instance": number, **mismatch._asdict()}
            mismatches.append({k: v if isinstance(v, int) else str(v) for k, v in row.items()})
    total = sum(families.values(), Counter[str]())
    return {
        "n": instances,
        "mismatches": len({row["instance"] for row in mismatches}),
        "infeasible": total["infeasible"],
        "fronts": total["fronts"],
        "points": total["points"],
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 1),
        "slowest_s": round(slowest[0], 2),
        "slowest_instance": slowest[1],
        "families": {name: dict(families[name]) for name in sorted(families)},
        "details": mismatches,
    }


def _tally(problem: PlanningProblem, outcome: Comparison) -> Counter[str]:
    limits, best = problem.limits, outcome.best
    raised = any(mismatch.what == "raised" for mismatch in outcome.mismatches)
    return Counter(
        {
            "n": 1,
            problem.objective.minimise: 1,
            "infeasible": int(best is None and not raised and problem.search.stages != "free"),
            "deadline": int(limits.deadline_s is not None),
            "budget": int(limits.budget_usd is not None),
            "fronts": int(outcome.front is not None),
            "points": len(outcome.front or ()),
            "mismatches": int(bool(outcome.mismatches)),
            "tp": int(best is not None and best.tp > 1),
            "pp": int(best is not None and best.pp > 1),
            "vpp": int(best is not None and best.vpp > 1),
            "cp": int(best is not None and best.cp > 1),
            "ep": int(best is not None and best.ep > 1),
            "hsdp": int(best is not None and best.replicas > 1),
            "zb-h1": int(best is not None and best.late > 0),
            "order": int(best is not None and best.order > 0),
            "recompute": int(best is not None and best.first + best.middle + best.last > 0),
        }
    )


COLUMNS = (
    "n",
    "coarse",
    "time",
    "cost",
    "infeasible",
    "deadline",
    "budget",
    "fronts",
    "points",
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "hsdp",
    "zb-h1",
    "order",
    "recompute",
    "mismatches",
)


def show(report: dict[str, Any]) -> None:
    """Print the table, the mismatches and the last line."""
    width = max(len(name) for name in report["families"]) if report["families"] else 1
    print(f"{'family':{width}}", *COLUMNS)
    for name, tally in report["families"].items():
        cells = (f"{tally.get(column, 0):{len(column)}d}" for column in COLUMNS)
        print(f"{name:{width}}", *cells)
    for row in report["details"]:
        where = f"seed {report['seed']} instance {row['instance']}: {row['what']}"
        print(f"MISMATCH {where}: product {row['product']}, enumerator {row['enumerator']}")
    print(
        f"{report['seconds']} s, slowest {report['slowest_s']} s "
        f"(instance {report['slowest_instance']}), {report['points']} front points"
    )
    keys = ("n", "mismatches", "infeasible", "fronts")
    print(" ".join(f"{key}={report[key]}" for key in keys))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--instances", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds an instance")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = run(options.instances, options.seed, options.time_limit)
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if report["mismatches"] else 0


if __name__ == "__main__":
    sys.exit(main())
