"""Where the points of a sweep are solved: one after the other, here in parallel, on a cluster."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from topology.errors import InputError, Problem
from topology.faults import installing

from ..job.job import PlanningProblem
from .capacity import Point, front_of
from .worker import Outcome, end_with, solve_point

ENGINES = ("serial", "local", "dask", "ray")
BATCH = 4
"""Points a worker on an engine without a result stream gets at a time before all are stored."""


@dataclass(frozen=True)
class Engine:
    """How points are solved.

    Attributes
    ----------
    name
        One of `ENGINES`.
    jobs
        Points solved at once; 0 takes the cores of this machine, or those of the cluster.
    address
        Scheduler of a running dask or ray cluster; empty starts one here.
    time_limit_s
        Limit of one point.
    """

    name: str = "local"
    jobs: int = 0
    address: str = ""
    time_limit_s: float | None = None

    def outcomes(self, points: Sequence[tuple[str, PlanningProblem]]) -> Iterator[Outcome]:
        """Solve points and yield what becomes of each as it ends, in any order.

        Each point uses one CP-SAT thread, so that no core is asked twice.

        Raises
        ------
        InputError
            Where the engine is not installed.
        """
        if self.name == "serial":
            for key, problem in points:
                yield solve_point(key, problem, self.time_limit_s)
            return
        with self._backend() as backend:
            yield from _parallel(points, backend, self.time_limit_s)

    @contextlib.contextmanager
    def _backend(self) -> Iterator[dict[str, Any]]:
        if self.name == "local":
            jobs = self.jobs or len(os.sched_getaffinity(0))
            yield {"backend": "loky", "n_jobs": jobs, "inner_max_num_threads": 1,
                   "initializer": end_with, "initargs": (os.getpid(),)}  # fmt: skip
        elif self.name == "dask":
            with self._dask():
                yield {"backend": "dask"}
        else:
            with self._ray():
                yield {"backend": "ray", "n_jobs": self.jobs or -1}

    @contextlib.contextmanager
    def _dask(self) -> Iterator[None]:
        try:
            from distributed import Client, LocalCluster  # noqa: PLC0415 - an extra
        except ImportError:
            raise _missing("dask") from None
        if self.address:
            with Client(self.address):
                yield
            return
        jobs = self.jobs or len(os.sched_getaffinity(0))
        with (
            LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.ERROR,  # workers that end late are no concern of a sweep
            ) as cluster,
            Client(cluster),
        ):
            yield

    @contextlib.contextmanager
    def _ray(self) -> Iterator[None]:
        try:
            import ray  # noqa: PLC0415 - an extra
            from ray.util.joblib import register_ray  # noqa: PLC0415
        except ImportError:
            raise _missing("ray") from None
        jobs = self.jobs or len(os.sched_getaffinity(0))
        if self.address:
            ray.init(address=self.address, log_to_driver=False)
        else:
            ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False)
        try:
            register_ray()
            yield
        finally:
            ray.shutdown()


def _parallel(
    points: Sequence[tuple[str, PlanningProblem]], backend: dict[str, Any],
    time_limit_s: float | None,
) -> Iterator[Outcome]:  # fmt: skip
    from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 - only sweeps need it

    with parallel_config(**backend):
        probe = Parallel()
        streams = getattr(probe._backend, "supports_return_generator", False)
        if streams:
            solver = Parallel(return_as="generator_unordered", batch_size=1)
            yield from solver(delayed(solve_point)(k, p, time_limit_s) for k, p in points)
            return
        size = max(probe._effective_n_jobs(), 1) * BATCH
        with Parallel(batch_size=1) as solver:  # the workers stay from one batch to the next
            for start in range(0, len(points), size):
                some = points[start : start + size]
                yield from solver(delayed(solve_point)(k, p, time_limit_s) for k, p in some)


def fronts_in(jobs: int) -> Callable[[Sequence[PlanningProblem]], list[list[Point]]]:
    """Return what maps `front_of` over problems in so many processes; 0 takes every core."""
    workers = jobs or len(os.sched_getaffinity(0))

    def fronts(problems: Sequence[PlanningProblem]) -> list[list[Point]]:
        if workers == 1 or len(problems) == 1:
            return [front_of(problem) for problem in problems]
        from joblib import Parallel, delayed  # noqa: PLC0415 - only studies need it

        return list(Parallel(n_jobs=workers)(delayed(front_of)(p) for p in problems))

    return fronts


def _missing(name: str) -> InputError:
    hint = installing(name)
    return InputError(Problem("--engine", 0, 0, "", "SP119", f"{name} is not installed.", hint))
