"""The ``search`` section, checked, into what the search takes; and back into the section."""

from __future__ import annotations

from typing import Any

from topology.placement import MEGATRON_ORDER

from .rules import RULE_FIELDS
from .schema import SearchSpec
from .search import Search

FSDP_ZERO = (2, 3)
"""ZeRO stages of FSDP; no sharding (ZeRO 0) only where asked for."""
ALTERNATIVES = ("precision", "offload", "cp_comm", "recompute_modules", "schedule")
"""Fields with one value for all plans, or several to choose among."""


def search_of(spec: SearchSpec) -> Search:
    """Return the search that a section asks for."""
    plain = spec.model_dump(exclude={"allow", *RULE_FIELDS, *ALTERNATIVES})
    several = {name: values for name in ALTERNATIVES if len(values := getattr(spec, name)) > 1}
    single = {name: values[0] for name in ALTERNATIVES if len(values := getattr(spec, name)) == 1}
    if "precision" in single:  # training.precision holds the single one
        several["precision"] = (single.pop("precision"),)
    rules = tuple(rule for name in RULE_FIELDS for rule in getattr(spec, name))
    return Search.model_validate({**plain, **single, "rules": rules, "variants": several})


def in_framework(search: Search, framework: str) -> Search:
    """Narrow what a problem leaves open to what its framework has.

    FSDP shards weights, gradients and states alike, whether it keeps gathered weights until
    backward (ZeRO 2) or not (ZeRO 3); torchtitan runs the stages of a pipeline outermost and has no
    tensor parallelism of its own for experts (torchtitan 0.3.0, its ParallelDims).
    """
    if framework != "fsdp":
        return search
    ruled = any(rule.axis == "zero" for rule in search.rules)
    stages = (0, *FSDP_ZERO) if ruled else FSDP_ZERO
    narrowed = {
        "zero": stages if search.zero is None else search.zero,
        "order": (MEGATRON_ORDER,) if search.order is None else search.order,
        "etp": (1,) if search.etp is None else search.etp,
    }
    return search.model_copy(update=narrowed)


def search_data(search: Search) -> dict[str, Any]:
    """Return the section that gives this search."""
    data = search.model_dump(mode="json", exclude={"rules", "variants"})
    modules = search.recompute_modules
    data["recompute_modules"] = None if modules is None else ["+".join(modules)]
    for name in ALTERNATIVES:
        values = getattr(search.variants, name)
        if values:
            data[name] = [v if isinstance(v, str) else "+".join(v) for v in values]
    for field, relation in RULE_FIELDS.items():
        rules = [rule for rule in search.rules if rule.relation == relation]
        if rules:
            data[field] = [f"{rule.axis}={rule.written}" for rule in rules]
    return data
