"""Seconds of a 1,000-point sweep, and of a capacity study of 6 systems, 512 nodes and 4 jobs.

    python benchmarks/studies.py [--sweep] [--capacity] [--jobs 2]

Both where neither is named. Run it alone: it measures wall-clock time.
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
import time
from pathlib import Path

import yaml

from solver.studies.capacity import recommend
from solver.studies.capacity_file import read_study
from solver.studies.engines import Engine, fronts_in
from solver.studies.points import read_sweep
from solver.studies.store import open_store
from solver.studies.sweep import run_sweep

SWEEP = {
    "model": "llama3-8b",
    "cluster": {"gpu": "h100", "nodes": 8, "price": 2.5},
    "training": {"seq_len": 4096, "global_batch": "512seq", "tokens": "100B"},
    "sweep": {
        "model": ["llama2-7b", "llama3-8b", "llama2-13b", "llama3-70b"],
        "cluster.nodes": [4, 8, 16, 32, 64],
        "training.global_batch": [f"{n}seq" for n in (256, 512, 1024, 2048, 4096)],
        "cluster.inter.per_gpu": [f"{n}GB/s" for n in (10, 20, 25, 30, 40, 50, 60, 75, 90, 100)],
    },
}
GPUS = {"a100": 1.5, "a100-40gb-sxm": 1.2, "h100": 2.5, "h200": 3.3, "b200": 5.0, "mi300x": 2.2}
MODELS = {"llama2-7b": "1T", "llama2-13b": "500B", "llama3-70b": "300B", "mixtral-8x7b": "500B"}
STUDY = {
    "deadline": "180d",
    "reliability": True,
    "offers": [
        {"name": gpu, "cluster": {"gpu": gpu, "nodes": 512, "price": price}}
        for gpu, price in GPUS.items()
    ],
    "jobs": [
        {"name": model, "model": model, "limits": {"max_comm": "50%"},
         "training": {"seq_len": 4096, "global_batch": "1024seq", "tokens": tokens}}
        for model, tokens in MODELS.items()
    ],
}  # fmt: skip


def timed_sweep(folder: Path, jobs: int) -> float:
    (folder / "sweep.yaml").write_text(yaml.safe_dump(SWEEP, sort_keys=False))
    spec = read_sweep(str(folder / "sweep.yaml"), {}, (), ())
    store = open_store(str(folder / "sweep.sqlite"))
    started = time.perf_counter()
    result = run_sweep(spec, store, Engine(jobs=jobs))
    spent = time.perf_counter() - started
    store.close()
    print(f"sweep: {len(result.rows)} points, {dict(result.tally.counts)}")
    return spent


def timed_capacity(folder: Path, jobs: int) -> float:
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    started = time.perf_counter()
    study = read_study(str(folder / "study.yaml"))
    found = recommend(study, datetime.date(2026, 1, 1), fronts_in(jobs))
    spent = time.perf_counter() - started
    print(f"capacity: {len(found.portfolio.choices)} choices, {found.best}")
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--capacity", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    both = asked.sweep == asked.capacity
    line = []
    with tempfile.TemporaryDirectory() as name:
        if asked.sweep or both:
            line.append(f"sweep_s={timed_sweep(Path(name), asked.jobs):.1f}")
        if asked.capacity or both:
            line.append(f"capacity_s={timed_capacity(Path(name), asked.jobs):.1f}")
    print(" ".join(line))


if __name__ == "__main__":
    main()
