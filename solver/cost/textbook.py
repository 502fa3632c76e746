"""The textbook account: memory, traffic and time by formulas that can be checked by hand.

Three texts are the sources; docs/textbook.md names where they differ:

* *Distributed Training Planner* (called "planner framework"): checklist, limits, cost;
* *An overview of distributed training: the memory budget and the time model* (called "ledger
  chapter"): 16 bytes a parameter, ZeRO stages, activations, recomputation;
* *Choose a Parallelism Plan for Training a 70B Model on 64 GPUs* (called "70B exercise"): traffic,
  step time, utilisation.

Every function is pure and takes scalars or numpy arrays that broadcast against each other. Sizes
are bytes, times seconds, rates bytes or FLOP per second; bandwidths are per GPU and direction.
Arithmetic is in float64, so products of large counts cannot wrap round.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]

PARAMETER_BYTES = 2.0
"""One bf16 weight, gradient or activation element (ledger chapter, "The memory budget")."""

STATE_BYTES = 16.0
"""Weight 2 + gradient 2 + fp32 master 4 + Adam's two moments 8, per parameter (ledger chapter)."""

OPTIMIZER_BYTES = 12.0
"""The part that ZeRO-1 shards: fp32 master and both moments (ledger chapter)."""

ACTIVATION_BYTES = 34.0
"""Bytes of s·b·h that one layer keeps, bf16 with FlashAttention (ledger chapter)."""

UNSHARDED_ACTIVATION_BYTES = 10.0
"""The part of the 34 that tensor parallelism alone does not divide (ledger chapter)."""

RECOMPUTED_ACTIVATION_BYTES = 2.0
"""Full recomputation keeps one bf16 input a layer (ledger chapter)."""

FLOPS_PER_PARAMETER_TOKEN = 6.0
"""2 forward and 4 backward (ledger chapter, "The time model"; planner framework, step 4)."""

RECOMPUTE_FACTOR = 4.0 / 3.0
"""One more forward pass, 2 on top of 6: "about 33 % more compute" (ledger chapter)."""

FSDP_COLLECTIVES = 3.0
"""Weight gathers in forward and backward, gradient reduce-scatter (70B exercise, part 2)."""

ALL_REDUCE_SENDS = 2.0
"""A ring all-reduce sends 2·(n-1)/n of the tensor per GPU (70B exercise, part 3)."""

TP_ALL_REDUCES_PER_LAYER = 4.0
"""Two forward and two backward (70B exercise, part 3)."""

MFU = 0.40
"""Utilisation that the ledger chapter and the 70B exercise assume."""

UNSHARDED, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_WEIGHTS = ZERO_STAGES = (0, 1, 2, 3)
"""ZeRO stages by what each shards in addition (ledger chapter); 3 is FSDP."""


def _floats(value: ArrayLike) -> Floats:
    return np.asarray(value, dtype=np.float64)


def state_bytes(parameters_local: ArrayLike, zero: ArrayLike, shard: ArrayLike) -> Floats:
    """Model-state bytes per GPU by ZeRO stage, with ψ parameters and d = ``shard`` GPUs.

    ZeRO-0: 16·ψ; ZeRO-1: 4·ψ + 12·ψ/d; ZeRO-2: 2·ψ + 14·ψ/d; ZeRO-3: 16·ψ/d.
    Source: ledger chapter, ``model_states``.

    Raises
    ------
    ValueError
        If a stage is not 0, 1, 2 or 3.
    """
    psi, stage, d = _floats(parameters_local), np.asarray(zero), _floats(shard)
    if not np.isin(stage, ZERO_STAGES).all():
        raise ValueError(f"ZeRO stage must be 0, 1, 2 or 3, got {zero!r}")
    sharded = np.select(
        [stage == UNSHARDED, stage == SHARD_OPTIMIZER, stage == SHARD_GRADIENTS],
        [0.0, OPTIMIZER_BYTES, STATE_BYTES - PARAMETER_BYTES],
        STATE_BYTES,
    )
    result: Floats = (STATE_BYTES - sharded) * psi + sharded * psi / d
    return result


def stage_layers(layers: ArrayLike, pp: ArrayLike) -> Floats:
    """Layers of the largest pipeline stage: ceil(L/p); the ledger chapter's L/p where p divides."""
    result: Floats = np.ceil(_floats(layers) / _floats(pp))
    return result


def activation_bytes(
    seq: ArrayLike,
    mbs: ArrayLike,
    hidden: ArrayLike,
    layers_local: ArrayLike,
    tp: ArrayLike = 1,
    sp: ArrayLike = True,
    full_recompute: ArrayLike = False,
    in_flight: ArrayLike = 1,
) -> Floats:
    """Activation bytes per GPU.

    Per layer 34·s·b·h/t with sequence parallelism, s·b·h·(10 + 24/t) without it, and 2·s·b·h/t
    with full recomputation; times the layers of the stage, times the micro-batches in flight (p
    on the first stage under 1F1B). Source: ledger chapter, ``activations``.
    """
    sbh, t = _floats(seq) * _floats(mbs) * _floats(hidden), _floats(tp)
    divided = ACTIVATION_BYTES - UNSHARDED_ACTIVATION_BYTES
    per_layer = np.where(
        np.asarray(full_recompute, dtype=bool),
        RECOMPUTED_ACTIVATION_BYTES / t,
        np.where(
            np.asarray(sp, dtype=bool),
            ACTIVATION_BYTES / t,
            UNSHARDED_ACTIVATION_BYTES + divided / t,
        ),
    )
    result: Floats = per_layer * sbh * _floats(layers_local) * _floats(in_flight)
    return result


def flops(parameters: ArrayLike, tokens: ArrayLike) -> Floats:
    """FLOPs that train N parameters on D tokens: 6·N·D (ledger chapter, "The time model")."""
    return FLOPS_PER_PARAMETER_TOKEN * _floats(parameters) * _floats(tokens)


def compute_seconds(
    work_flops: ArrayLike, gpus: ArrayLike, peak_flops: ArrayLike, mfu: ArrayLike = MFU
) -> Floats:
    """Seconds for ``work_flops`` at a utilisation: FLOPs/(GPUs·peak·MFU) (ledger chapter)."""
    return _floats(work_flops) / (_floats(gpus) * _floats(peak_flops) * _floats(mfu))


def recompute_factor(full_recompute: ArrayLike, charge: ArrayLike = False) -> Floats:
    """Return what compute is multiplied by: 4/3 for charged full recomputation, else 1.

    The 70B exercise lets the 40 % cover recomputation; the ledger chapter counts one more forward
    pass. ``charge`` chooses the chapter's count.
    """
    charged = np.logical_and(full_recompute, charge)
    result: Floats = np.where(charged, RECOMPUTE_FACTOR, 1.0)[()]
    return result


def _share(group: ArrayLike) -> Floats:
    """(n-1)/n, what a ring collective sends of its tensor."""
    n = _floats(group)
    return (n - 1.0) / n


def fsdp_traffic_bytes(parameters_local: ArrayLike, shard: ArrayLike) -> Floats:
    """Bytes that a GPU sends per step under ZeRO-3: 3·(d-1)/d·2·P_local, once a step.

    Source: 70B exercise, parts 2 and 3. P_local = P/(t·p).
    """
    return FSDP_COLLECTIVES * _share(shard) * PARAMETER_BYTES * _floats(parameters_local)


def gradient_traffic_bytes(parameters_local: ArrayLike, dp: ArrayLike) -> Floats:
    """Bytes that a GPU sends per step under ZeRO 0–2: 2·(d-1)/d·2·P_local.

    Source: planner framework, step 3, with bf16 gradients.
    """
    return ALL_REDUCE_SENDS * _share(dp) * PARAMETER_BYTES * _floats(parameters_local)


def replica_traffic_bytes(
    parameters_local: ArrayLike, shard: ArrayLike, replicas: ArrayLike
) -> Floats:
    """Bytes that a GPU sends per step to the other HSDP replicas: 2·(r-1)/r·2·P_local/d.

    The gradient all-reduce of the planner framework, on the shard that the GPU owns.
    """
    return gradient_traffic_bytes(parameters_local, replicas) / _floats(shard)


def data_traffic_bytes(
    parameters_local: ArrayLike, zero: ArrayLike, shard: ArrayLike, replicas: ArrayLike = 1
) -> Floats:
    """Data-parallel bytes by ZeRO stage; under ZeRO 0–2 the group is ``shard`` × ``replicas``."""
    group = _floats(shard) * _floats(replicas)
    sharded = fsdp_traffic_bytes(parameters_local, shard) + replica_traffic_bytes(
        parameters_local, shard, replicas
    )
    result: Floats = np.where(
        np.asarray(zero) == SHARD_WEIGHTS,
        sharded,
        gradient_traffic_bytes(parameters_local, group),
    )[()]
    return result


def tp_tensor_bytes(tokens: ArrayLike, hidden: ArrayLike) -> Floats:
    """Size the tensor of one TP all-reduce over a step: tokens·h·2 B (70B exercise, part 3)."""
    return _floats(tokens) * _floats(hidden) * PARAMETER_BYTES


def tp_traffic_bytes(
    tokens_per_replica: ArrayLike, hidden: ArrayLike, layers_local: ArrayLike, tp: ArrayLike
) -> Floats:
    """Bytes that a GPU sends per step for TP: 4·L_local·2·(t-1)/t·tokens·h·2 B.

    Four all-reduces a layer over the tokens of one data-parallel replica. Source: 70B exercise,
    part 3. On the critical path, over NVLink.
    """
    per_all_reduce = ALL_REDUCE_SENDS * _share(tp) * tp_tensor_bytes(tokens_per_replica, hidden)
    return TP_ALL_REDUCES_PER_LAYER * _floats(layers_local) * per_all_reduce


def pp_traffic_bytes(
    seq: ArrayLike,
    mbs: ArrayLike,
    hidden: ArrayLike,
    micro_batches: ArrayLike,
    pp: ArrayLike,
    tp: ArrayLike = 1,
) -> Floats:
    """Bytes over one stage boundary per step and GPU: 2·m·s·b·h·2 B/t, 0 without a pipeline.

    One activation forward and its gradient backward for each micro-batch (planner framework,
    step 3; ledger chapter's table). Each of the t ranks of a stage carries its own part, as the
    sequence dimension is split over them.
    """
    one = _floats(seq) * _floats(mbs) * _floats(hidden) * PARAMETER_BYTES / _floats(tp)
    result: Floats = np.where(_floats(pp) > 1, 2.0 * _floats(micro_batches) * one, 0.0)[()]
    return result


def bubble(pp: ArrayLike, micro_batches: ArrayLike, vpp: ArrayLike = 1) -> Floats:
    """Idle share of the pipeline: (p-1)/(v·m + p-1).

    Source: 70B exercise, part 4, for v = 1; interleaving over v chunks a stage divides the
    warm-up by v (Narayanan et al. 2021, arXiv:2104.04473, section 2.2, as a share of the whole).
    """
    idle = _floats(pp) - 1.0
    return idle / (_floats(vpp) * _floats(micro_batches) + idle)


def micro_batches_for_bubble(pp: int, limit: float, vpp: int = 1) -> int:
    """Fewest micro-batches whose bubble is at most ``limit`` (0 < limit < 1)."""
    # The small step back keeps an exact solution (p = 4, 15 %: m = 17) from rounding up.
    need = (pp - 1) * (1.0 - limit) / (limit * vpp)
    return max(1, int(np.ceil(need - 1e-9)))


def transfer_seconds(traffic_bytes: ArrayLike, bytes_per_s: ArrayLike) -> Floats:
    """Seconds for a volume at the bandwidth that one GPU has in one direction."""
    return _floats(traffic_bytes) / _floats(bytes_per_s)


def group_bytes_per_s(
    span: ArrayLike, nvlink_domain: ArrayLike, nvlink: ArrayLike, inter: ArrayLike
) -> Floats:
    """Bandwidth of a group that spans ``span`` consecutive GPUs: NVLink inside a domain."""
    result: Floats = np.where(_floats(span) <= _floats(nvlink_domain), nvlink, inter)[()]
    return result


def step_seconds(
    compute: ArrayLike, bubble_fraction: ArrayLike, exposed_seconds: ArrayLike = 0.0
) -> Floats:
    """One optimizer step: compute/(1 - bubble) + communication that nothing hides.

    TP and the pipeline's transfers are exposed; FSDP's gathers are prefetched behind compute
    (70B exercise, parts 2 and 3).
    """
    return _floats(compute) / (1.0 - _floats(bubble_fraction)) + _floats(exposed_seconds)


def communication_ratio(communication_seconds: ArrayLike, compute: ArrayLike) -> Floats:
    """Communication of all axes, hidden or not, over compute without bubble or recomputation.

    Source: 70B exercise ("about 12 percent of the step"); limit 20 %: planner framework, step 3.
    """
    return _floats(communication_seconds) / _floats(compute)


def gpu_hours(gpus: ArrayLike, seconds: ArrayLike) -> Floats:
    """GPUs·seconds/3600 (planner framework, step 4)."""
    return _floats(gpus) * _floats(seconds) / 3600.0


def cost_usd(hours: ArrayLike, usd_per_gpu_hour: ArrayLike) -> Floats:
    """GPU-hours × price (planner framework, step 4)."""
    return _floats(hours) * _floats(usd_per_gpu_hour)


def realised_mfu(
    work_flops: ArrayLike, seconds: ArrayLike, gpus: ArrayLike, peak_flops: ArrayLike
) -> Floats:
    """Model FLOPs over what the GPUs could have done in the time, bubble and TP included."""
    return _floats(work_flops) / (_floats(seconds) * _floats(gpus) * _floats(peak_flops))
