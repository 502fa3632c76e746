"""The bound on memory is below every choice that it stands for."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.axes.data import FULL_SHARDING
from solver.cost.memory.peak import least_bytes, memory_items
from solver.cost.profile import load_profile, stacks
from solver.cost.shapes import Shapes, Shardings
from solver.cost.stages import split
from solver.job.finetune import Finetune
from solver.job.job import Job
from solver.job.presets import find_model
from solver.job.recipe import Recipe
from solver.job.search import RECOMPUTE, Recompute

MODELS = ("llama3-8b", "llama3-70b", "mixtral-8x7b", "deepseek-v3", "gpt2-xl", "gemma-7b")
POWERS = (1, 2, 4, 8)


@cache
def combinations() -> tuple[tuple[Recompute, ...], ...]:
    """Kinds of recomputation that a search may allow, in their order."""
    every = range(1, 1 << len(RECOMPUTE))
    return tuple(tuple(k for i, k in enumerate(RECOMPUTE) if n >> i & 1) for n in every)


@st.composite
def layouts(draw: st.DrawFn) -> Shapes:
    tp, cp, pp, dp = (draw(st.sampled_from(POWERS)) for _ in range(4))
    vpp = draw(st.sampled_from((1, 2))) if pp > 1 else 1
    ep = draw(st.sampled_from([e for e in POWERS if (tp * cp * dp) % e == 0]))
    return Shapes.of(
        tp=tp, cp=cp, pp=pp, dp=dp, vpp=vpp, ep=ep,
        micro_batch=draw(st.sampled_from(POWERS)), microbatches=draw(st.sampled_from((1, 2, 16))),
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    stack=st.sampled_from(stacks()),
    shapes=layouts(),
    kinds=st.sampled_from(combinations()),
    fused=st.booleans(),
    recipe=st.sampled_from(
        (Recipe(), Recipe(grad_bytes=2, moment_bytes=4), Recipe(grad_bytes=2, master_bytes=0),
         Recipe(precision="fp8", moment_bytes=2))
    ),
    switches=st.fixed_dictionaries({
        "schedule": st.sampled_from(("1f1b", "zb-h1", "zb-1p", "zb-2p")),
        "recompute_modules": st.sampled_from(
            (("core_attn",), ("operators",), ("moe_act", "layernorm"), ("mlp",))
        ),
    }),
    finetune=st.sampled_from(
        (None, None, Finetune(lora_rank=16), Finetune(lora_rank=16, lora_targets=("all",),
         base_bits=4, frozen_layers=7), Finetune(frozen=("embedding", "mlp", "experts"),
         frozen_layers=9), Finetune(reference_model=True))
    ),
)  # fmt: skip
def test_bound_is_admissible(
    model: str, stack: str, shapes: Shapes, kinds: tuple[Recompute, ...], fused: bool,
    recipe: Recipe, switches: dict[str, object], finetune: Finetune | None,
) -> None:  # fmt: skip
    transformer = find_model(model)
    job = Job(
        transformer=transformer, seq_len=2048, global_batch=4096, fused_loss=fused, recipe=recipe,
        finetune=finetune,
    )  # fmt: skip
    base = load_profile(stack, "h100-80gb-sxm")
    software = base.software.model_copy(update=switches)
    profile = base.model_copy(update={"software": software})
    stages = split(transformer, shapes.pp, shapes.vpp)
    dp = int(shapes.dp[0])
    replicas = [1] * (FULL_SHARDING + 1) + [r for r in POWERS if 1 < r <= dp]
    zero = [*range(FULL_SHARDING + 1), *[FULL_SHARDING] * (len(replicas) - FULL_SHARDING - 1)]
    columns = Shardings(
        np.array([zero], np.int64), np.array([replicas], np.int64), np.ones((1, len(zero)), bool)
    )
    items = memory_items(job, profile, shapes, stages, columns, kinds)
    bound = least_bytes(job, profile, shapes, stages, kinds)
    used = stages.count[0] > 0
    least = items.total()[0, used].min(axis=(-1, -2))
    assert (bound[0, used] <= least * (1 + 1e-12)).all()
    kept = items.phases[0].activations[0, used]
    assert (np.diff(kept, axis=-1) <= 1e-6 * kept[..., :1]).all()
