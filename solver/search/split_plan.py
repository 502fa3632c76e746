"""From a pipeline whose stages were chosen one by one to a plan, checked again."""

from __future__ import annotations

from ..checks import Facts, judge
from ..cost.itemise import itemise
from ..plan import Block, LimitCheck, Plan
from .assemble import DisagreementError, batch_of, cost_of, layout_of, options_of, second_opinion
from .instance import Instance
from .pipelines import Pipeline, even_layers
from .placing import place
from .stagewise import Split


def split_plan(split: Split, rank: int, strict: bool = True) -> Plan:
    """Build the plan of a split, every limit judged again; ``strict`` lets none be broken.

    Raises
    ------
    DisagreementError
        Where step, memory or a limit differ from what the search used.
    """
    pipeline = split.pipeline
    pairs = zip(split.options, split.choice, strict=True)
    estimate = itemise([options.slot(option) for options, option in pairs], split.totals)
    first, degrees = pipeline.instances[0], pipeline.shape.row(0)
    layout = layout_of(degrees, *split.sharding)
    if even_layers(pipeline) is None:
        layout = layout.model_copy(update={"stage_layers": split.layers})
    batch = batch_of(first.job, degrees)
    blocks = _blocks(pipeline)
    held = [(b.gpus_held, i.group) for b, (i, _) in zip(blocks, pipeline.blocks(), strict=True)]
    cost = cost_of(first, estimate.time.step_s, held)
    several, kinds = len(blocks) > 1, {i.group.price_kind for i in pipeline.instances}
    checks: dict[str, LimitCheck] = {}
    for instance, _ in pipeline.blocks():
        facts = Facts(
            first.job, instance.group, first.limits, layout, batch, estimate, cost,
            first.search.schedule,
        )  # fmt: skip
        checks |= {c.id: c for c in judge(facts) if c.id not in checks or not c.ok}
        second_opinion(split.totals.step, split.memory, facts)
    broken = [name for name, c in checks.items() if not c.ok and first.holds(name)]
    if broken and strict:
        raise DisagreementError(f"the checks find {', '.join(broken)} broken in {layout}")
    return Plan(
        rank=rank,
        gpus=degrees["gpus"],
        nodes=sum(b.nodes for b in blocks),
        gpus_held=degrees["held"],
        layout=layout,
        placement=None if several else place(first.group, layout),
        axes=layout.axes,
        batch=batch,
        recompute=first.cost.kinds[split.kind],
        options=options_of(first),
        recomputed_layers=split.recomputed if any(split.recomputed) else None,
        blocks=tuple(blocks) if several else (),
        estimate=estimate,
        cost=cost,
        limits=tuple(checks.values()),
        price_kind=kinds.pop() if len(kinds) == 1 else "",
    )


def _blocks(pipeline: Pipeline) -> list[Block]:
    return [_block(pipeline, instance, stages) for instance, stages in pipeline.blocks()]


def _block(pipeline: Pipeline, instance: Instance, stages: list[int]) -> Block:
    group = instance.group
    gpus = len(stages) * int(pipeline.shape.gpus[0]) // pipeline.stages
    nodes = -(-gpus // group.gpus_per_node)
    return Block(
        gpu=group.gpu.id,
        first_stage=stages[0],
        last_stage=stages[-1],
        gpus=gpus,
        gpus_held=nodes * group.gpus_per_node,
        nodes=nodes,
        usd_per_gpu_hour=group.price_usd_per_gpu_hour,
    )
