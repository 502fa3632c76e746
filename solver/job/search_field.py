"""The ``search`` section, checked, into what the search takes; and back into the section."""

from __future__ import annotations

from typing import Any

from .rules import RULE_FIELDS
from .schema import SearchSpec
from .search import Search

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
