"""Peak memory of one GPU, for every stage class, recomputation, sharding and offload.

The need is what the card must have: peak allocated bytes on the worst rank times the allocator's
overhead, plus the CUDA context and communication buffers. The peak falls in one of the phases of a
step named in ``items.PHASES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...axes.data import FULL_SHARDING
from ...job.job import Job
from ...job.search import Recompute
from ..parameters import padded_vocabulary, weight_shapes
from ..profile import Profile
from ..shapes import Shapes, Shardings
from ..stages import Stages
from ..ticks import FloatArray, IntArray
from .activations import (
    HALF,
    Saved,
    activation_bytes,
    layer_of,
    loss_bytes,
    saved_per_token,
    sequence_ranks,
    tokens_per_rank,
)
from .items import MemoryItems, Moved, Phase, fixed_bytes
from .offload import ACTIVATIONS_MOVE, LAYERS_IN_TRANSIT
from .states import least_states, state_bytes, weights_of
from .whole import later_gradients, whole_bytes

REGATHERED = 4.0
"""Gathered input and gradient of a sequence-parallel block, 16 bit, a token and hidden unit."""


def _largest(stages: Stages, dense: FloatArray, moe: FloatArray) -> FloatArray:
    """Return the larger of the two kinds of layer on a stage, shape (N, 4)."""
    return np.maximum(
        np.where(stages.dense_layers > 0, dense[:, None], 0.0),
        np.where(stages.moe_layers > 0, moe[:, None], 0.0),
    )


@dataclass(frozen=True)
class Backward:
    """What the backward of a layer moves, bytes.

    Attributes
    ----------
    moved
        Temporaries, and a layer recomputed in full, held beside its kept input; (N, 4, K).
    sharded
        The same where gradients of the layer wait for their reduction; (N, 4, K).
    freed
        What the stage's largest layer kept, gone after its backward; (N, 4, K).
    last
        Temporaries of the last backward, with what its layer keeps; (N, 4).
    """

    moved: FloatArray
    sharded: FloatArray
    freed: FloatArray
    last: FloatArray


def _backward(
    job: Job, profile: Profile, shapes: Shapes, stages: Stages,
    saved: Mapping[Recompute, Saved], kinds: tuple[Recompute, ...], later: FloatArray,
) -> Backward:  # fmt: skip
    model = job.transformer
    tp, sp = shapes.tp.astype(np.float64), sequence_ranks(profile, shapes)
    tokens = tokens_per_rank(job, shapes)[:, None]
    copies = model.moe.top_k * job.routed if model.moe else 0.0
    routed = copies * model.moe.ffn if model.moe else 0.0
    widest = max(model.ffn if model.dense_layers else 0, routed)
    in_mlp = HALF * widest * (2 if model.gated else 1) / tp
    between = HALF * model.hidden / sp + in_mlp
    moved = tokens * (between + np.where(sp > 1, REGATHERED * model.hidden, 0.0))[:, None]
    whole = moved + tokens * _largest(stages, *saved["none"])
    moved = np.broadcast_to(moved, whole.shape)
    freed = [tokens * _largest(stages, *saved[kind]) for kind in kinds]
    some = stages.recomputed > 0
    if some.any():
        # One recomputed layer is held whole as with full recomputation, and frees its input only.
        moved = np.where(some, whole, moved)
        least = tokens * (HALF * model.hidden / sp)[:, None]
        freed = [np.where(some, np.minimum(least, part), part) for part in freed]
    every = np.stack([whole if kind == "full" else moved for kind in kinds], axis=-1)
    # Behind the MLP its temporaries are gone, and what it kept where it was recomputed, but all of
    # its weights have gradients; routed tokens go back as they came, into a second tensor.
    later = later + tokens * (2 * HALF * copies * model.hidden / sp)[:, None]
    part = layer_of(job, profile, shapes)
    mlp = tokens * _largest(stages, part.dense, part.experts)
    again = np.stack([some | (kind == "full") for kind in kinds], axis=-1)
    gone = (tokens * in_mlp[:, None])[..., None] + again * mlp[..., None]
    behind = every - gone + later[..., None]
    return Backward(
        every, np.maximum(every, behind), np.stack(freed, axis=-1),
        np.maximum(whole, whole - tokens * in_mlp[:, None] - mlp + later),
    )  # fmt: skip


def memory_items(
    job: Job,
    profile: Profile,
    shapes: Shapes,
    stages: Stages,
    shardings: Shardings,
    kinds: tuple[Recompute, ...],
    offload: int | IntArray = 0,
) -> MemoryItems:
    """Itemise the peak of each stage class, recomputation and sharding.

    ``offload``, of all shardings or of each (N, Z), says what lives on the host: nothing, optimizer
    states, or kept activations as well (an index into ``OFFLOADS``).
    """
    level = np.broadcast_to(np.asarray(offload, np.int64), shardings.zero.shape)
    options = profile.memory
    weights = weights_of(job, shapes, stages)
    states = state_bytes(job, profile, weights, shapes, shardings, level)
    whole = whole_bytes(job, profile, weights, shapes, stages, shardings)
    if options.cached_gradients:
        cached = HALF * weight_shapes(job, shapes, stages)[:, :, None]
        whole = replace(whole, stay=whole.stay + cached)
    saved = {kind: saved_per_token(job, profile, shapes, kind) for kind in ("none", *kinds)}
    kept = activation_bytes(job, profile, shapes, stages, [saved[kind] for kind in kinds])
    logits = loss_bytes(job, profile, shapes, stages)
    later = later_gradients(weights)
    backward = _backward(job, profile, shapes, stages, saved, kinds, later)
    full = (shardings.zero == FULL_SHARDING)[:, None, :]
    none, nothing = np.zeros((1, 1, 1)), np.zeros((1, 1))
    early, every, stay = states.early_gradients, states.gradients, whole.stay
    end = stay + np.maximum(whole.root, states.update)
    in_layer = stay + whole.layer
    sharded = np.where(full, in_layer, -np.inf)
    late = np.maximum(every - whole.missing, 0.0)
    # When the root is gathered again, the gradient of the logits is all that is left of the loss.
    left = HALF * tokens_per_rank(job, shapes) * padded_vocabulary(job.transformer, shapes)
    spent = np.maximum(logits - left[:, None] * stages.has_head, 0.0)
    unfreed = np.maximum(whole.unfreed, whole.regathered - spent[..., None])

    def phases(kept: FloatArray) -> tuple[Phase, ...]:
        once_less = np.maximum(kept - backward.freed, 0.0)
        return (
            Phase(early, kept, logits, none, stay + unfreed),
            Phase(early, kept, nothing, backward.moved, np.where(full, -np.inf, in_layer)),
            Phase(early, once_less, nothing, backward.sharded, sharded),
            Phase(late, none, nothing, backward.last[..., None], sharded),
            Phase(every, none, nothing, none, end),
        )

    away = level >= ACTIVATIONS_MOVE
    if not away.any():
        return MemoryItems(states, phases(kept), options)
    here = np.minimum(kept, LAYERS_IN_TRANSIT * backward.freed)
    return MemoryItems(states, phases(kept), options, Moved(phases(here), away, kept - here))


def least_bytes_anywhere(
    job: Job,
    profile: Profile,
    shapes: Shapes,
    stages: Stages,
    kinds: tuple[Recompute, ...],
    offload: int = 0,
) -> FloatArray:
    """Bound the peak of stages wherever they stand, given at the last place, shape (N, 4).

    1F1B holds least there; ZB-H1, which only grows or only falls along the pipeline, at one end.
    """
    need = least_bytes(job, profile, shapes, stages, kinds, offload)
    if profile.software.schedule != "zb-h1":
        return need
    first = replace(stages, index=0 * stages.index)
    return np.minimum(need, least_bytes(job, profile, shapes, first, kinds, offload))


def least_bytes(
    job: Job,
    profile: Profile,
    shapes: Shapes,
    stages: Stages,
    kinds: tuple[Recompute, ...],
    offload: int = 0,
) -> FloatArray:
    """Bound the peak from below over every sharding and recomputation, shape (N, 4).

    ``kinds`` are in order of time, which is the reverse order of what they keep.
    """
    return least_bytes_of_each(job, profile, shapes, stages, kinds[-1:], offload)[..., 0]


def least_bytes_of_each(
    job: Job,
    profile: Profile,
    shapes: Shapes,
    stages: Stages,
    kinds: tuple[Recompute, ...],
    offload: int = 0,
) -> FloatArray:
    """Bound the peak from below over every sharding, shape (N, 4, K).

    Every term left out is at least zero, and every term kept is at its least over the shardings.
    """
    weights = weights_of(job, shapes, stages)
    static, early, end = (
        part[..., None] for part in least_states(job, profile, weights, shapes, offload)
    )
    saved = [saved_per_token(job, profile, shapes, kind) for kind in kinds]
    kept = activation_bytes(job, profile, shapes, stages, saved)
    if offload >= ACTIVATIONS_MOVE:
        kept = 0.0 * kept
    at_loss = kept + loss_bytes(job, profile, shapes, stages)[..., None]
    at_loss = at_loss + (early if profile.memory.reuse else end)
    allocated = static + np.maximum(at_loss, end)
    return np.asarray(profile.memory.allocator * allocated + fixed_bytes(profile.memory))
