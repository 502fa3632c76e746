"""A capacity study as written: offers of nodes, jobs, and what is wanted."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from topology.errors import InputError, Problem
from topology.faults import checked, faults
from topology.source import Source, load_yaml, read_text
from topology.units import parse_bytes, parse_duration

from ..job.fields import choice, parse_usd
from ..job.job import PlanningProblem
from ..job.read import parse_problem

MAX_NODES = 100_000
MOST_OFFERS, MOST_JOBS = 50, 50
CENTURY_S = 3.2e9
STALE_S = 90 * 86_400.0
"""Age from which a price is called stale where the study does not say: a quarter."""

Seconds = Annotated[float, BeforeValidator(checked(parse_duration))]
Usd = Annotated[float, BeforeValidator(checked(parse_usd))]
Bytes = Annotated[float, BeforeValidator(checked(parse_bytes))]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class OfferSpec(_Section):
    """One entry of ``offers``.

    Attributes
    ----------
    name
        How the result calls it.
    cluster
        Hardware and price as in a problem file; its nodes are the most that can be had.
    min_rental
        Every run pays at least so long.
    contract
        Nodes are paid for so long, used or not, and gone afterwards (reserved capacity).
    lead_time
        From today until the nodes are there.
    interruptions
        Per 1,000 node-days, besides failures: spot capacity that is taken back.
    storage_usd_per_gb_month, egress_usd_per_gb
        Prices of the provider, for what the jobs keep and take out.
    """

    name: str = Field(min_length=1, max_length=200, examples=["h100-reserved"])
    cluster: Any = Field(examples=["{system: aws-p5, nodes: 64, price: 4.10}"])
    min_rental: Seconds = Field(default=0.0, ge=0, le=CENTURY_S, examples=["1d"])
    contract: Seconds | None = Field(default=None, gt=0, le=CENTURY_S, examples=["365d"])
    lead_time: Seconds = Field(default=0.0, ge=0, le=CENTURY_S, examples=["14d"])
    interruptions: float = Field(default=0.0, ge=0, le=1e6, examples=[20])
    storage_usd_per_gb_month: float = Field(default=0.0, ge=0, le=1e6, examples=[0.02])
    egress_usd_per_gb: float = Field(default=0.0, ge=0, le=1e6, examples=[0.09])


class JobSpec(_Section):
    """One entry of ``jobs``: the parts of a problem file that are not the cluster.

    Attributes
    ----------
    name
        How the result calls it.
    deadline
        Its latest end, from today.
    stored, taken_out
        Bytes that it keeps while it runs, and takes out at the end.
    """

    name: str = Field(min_length=1, max_length=200, examples=["pretrain-70b"])
    model: Any = Field(examples=["llama3-70b"])
    training: Any = Field(examples=["{seq_len: 4096, global_batch: 1024seq, tokens: 100B}"])
    limits: Any = None
    search: Any = None
    framework: Any = None
    finetune: Any = None
    profile: Any = None
    deadline: Seconds | None = Field(default=None, gt=0, le=CENTURY_S, examples=["60d"])
    stored: Bytes = Field(default=0.0, ge=0, le=1e18, examples=["10TB"])
    taken_out: Bytes = Field(default=0.0, ge=0, le=1e18, examples=["200GB"])


class StudySpec(_Section):
    """A whole study."""

    version: int = Field(default=1, alias="schema", ge=1, le=1)
    offers: tuple[OfferSpec, ...] = Field(min_length=1, max_length=MOST_OFFERS, strict=False)
    jobs: tuple[JobSpec, ...] = Field(min_length=1, max_length=MOST_JOBS, strict=False)
    objective: Annotated[str, BeforeValidator(choice("cost", "makespan"))] = "cost"
    budget: Usd | None = Field(default=None, gt=0, le=1e15, examples=[500_000])
    deadline: Seconds | None = Field(default=None, gt=0, le=CENTURY_S, examples=["90d"])
    reliability: Any = None
    today: datetime.date | None = Field(default=None, strict=False, examples=["2026-01-31"])
    prices_stale_after: Seconds = Field(default=STALE_S, gt=0, le=CENTURY_S, examples=["90d"])


@dataclass(frozen=True)
class Study:
    """A checked study.

    Attributes
    ----------
    spec
        What was written.
    problems
        For each job and offer the planning problem of the job on all its nodes.
    """

    spec: StudySpec
    problems: tuple[tuple[PlanningProblem, ...], ...]


JOB_KEYS = ("model", "training", "limits", "search", "framework", "finetune", "profile")


def read_study(path: str) -> Study:
    """Read a study.

    Raises
    ------
    InputError
        With every fault of the file; those of a job or an offer say which.
    """
    source = load_yaml(read_text(path), path)
    if not isinstance(source.data, dict):
        hint = "Start with offers: and jobs:."
        raise InputError(Problem(path, 0, 0, "", "SP114", "needs a mapping.", hint))
    try:
        spec = StudySpec.model_validate(source.data)
    except ValidationError as error:
        raise InputError(*faults(error, source, StudySpec, ())) from None
    _names(spec, source)
    problems = tuple(
        tuple(_problem(path, spec, job, offer) for offer in spec.offers) for job in spec.jobs
    )
    return Study(spec, problems)


def _names(spec: StudySpec, source: Source) -> None:
    for section, entries in (("offers", spec.offers), ("jobs", spec.jobs)):
        names = [entry.name for entry in entries]
        for number, name in enumerate(names):
            if name in names[:number]:
                message = f"{name[:60]!r} is there twice."
                raise InputError(source.fault((section, number, "name"), "SP114", message))


def _problem(path: str, spec: StudySpec, job: JobSpec, offer: OfferSpec) -> PlanningProblem:
    """Return the problem of a job on an offer; what is wrong with it names both."""
    given = {key: value for key in JOB_KEYS if (value := getattr(job, key)) is not None}
    fields: dict[str, Any] = {**given, "cluster": offer.cluster, "reliability": spec.reliability}
    fields["objective"] = {"minimise": "time", "pareto": True, "top": 1}
    search = dict(given.get("search") or {})
    fields["search"] = {"stages": "even", **search}
    where = f"{job.name[:60]} on {offer.name[:60]}"
    try:
        problem = parse_problem("", path, fields, {})
    except InputError as error:
        raise InputError(*(_named(p, path, where) for p in error.problems)) from None
    reliability = problem.reliability
    if reliability is not None and offer.interruptions:
        update = {"interruptions": reliability.interruptions + offer.interruptions}
        reliability = reliability.model_copy(update=update)
    found = replace(problem, reliability=reliability, positions={})
    _check(path, found, offer, where)
    return found


def _named(fault: Problem, path: str, where: str) -> Problem:
    """Say which job and offer a fault is of."""
    field = f"{where}: {fault.field}" if fault.field else where
    return Problem(path, 0, 0, field, fault.code, fault.message, fault.hint)


def _check(path: str, problem: PlanningProblem, offer: OfferSpec, where: str) -> None:
    if problem.job.tokens is None:
        hint = "Write e.g. tokens: 100B under its training."
        raise InputError(Problem(path, 0, 0, where, "SP113", "tokens are missing.", hint))
    if problem.cluster.group.price_usd_per_gpu_hour is None:
        hint = f"Write price: 2.50 under the cluster of {offer.name[:60]}."
        raise InputError(Problem(path, 0, 0, where, "SP112", "has no price.", hint))
    if any(group.offers for group in problem.cluster.groups):
        hint = "Write one offer for each kind of price, with price under its cluster."
        raise InputError(Problem(path, 0, 0, where, "SP115", "has prices of kinds.", hint))
    if len(problem.cluster.groups) > 1:
        hint = "Write one offer for each kind of node."
        message = "an offer is of one kind of node."
        raise InputError(Problem(path, 0, 0, where, "SP115", message, hint))
    if offer.interruptions and problem.reliability is None:
        hint = "Add reliability: true to the study."
        message = "interruptions count only where failures do."
        raise InputError(Problem(path, 0, 0, where, "SP113", message, hint))
