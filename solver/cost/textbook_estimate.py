"""One layout through the textbook account: every quantity once, as plain floats."""

from __future__ import annotations

from dataclasses import dataclass

from . import textbook
from .textbook_inputs import TextbookInputs


@dataclass(frozen=True, slots=True)
class TextbookEstimate:
    """Figures of one layout. Bytes and seconds are per GPU and optimizer step unless named.

    ``room_bytes`` is capacity less headroom; ``training_seconds`` the planner framework's
    6·P·D/(GPUs·peak·u), ``wall_seconds`` steps × step time; both None without a token count, and
    ``usd`` None without a price as well. ``held_gpus`` counts whole nodes.
    """

    parameters_local: float
    stage_layers: float
    state_bytes: float
    activation_bytes: float
    room_bytes: float
    step_flops: float
    compute_seconds: float
    recompute_factor: float
    bubble: float
    shard_bytes: float
    shard_seconds: float
    replica_bytes: float
    replica_seconds: float
    tensor_bytes: float
    tensor_seconds: float
    pipeline_bytes: float
    pipeline_seconds: float
    communication_ratio: float
    step_seconds: float
    realised_mfu: float
    held_gpus: int
    steps: float | None
    training_seconds: float | None
    wall_seconds: float | None
    gpu_hours: float | None
    usd: float | None

    @property
    def memory_bytes(self) -> float:
        """Model state and activations of the first stage, the fullest."""
        return self.state_bytes + self.activation_bytes

    @property
    def fits(self) -> bool:
        """Whether the need is within capacity less headroom."""
        return self.memory_bytes <= self.room_bytes

    @property
    def exposed_seconds(self) -> float:
        """Tensor-parallel and pipeline transfers; data-parallel ones hide behind compute."""
        return self.tensor_seconds + self.pipeline_seconds


@dataclass(frozen=True, slots=True)
class _Traffic:
    shard: tuple[float, float]
    replica: tuple[float, float]
    tensor: tuple[float, float]
    pipeline: tuple[float, float]

    @property
    def seconds(self) -> float:
        return self.shard[1] + self.replica[1] + self.tensor[1] + self.pipeline[1]


def _traffic(inputs: TextbookInputs, parameters_local: float, layers: float) -> _Traffic:
    """Bytes and seconds of each axis; ranks are laid out TP inside, then DP, then PP."""
    layout, machine, job = inputs.layout, inputs.machine, inputs.job
    hidden = inputs.shape.hidden

    def timed(traffic: float, span: int) -> tuple[float, float]:
        rate = textbook.group_bytes_per_s(
            span, machine.domain, machine.nvlink_bytes_per_s, machine.inter_bytes_per_s
        )
        return traffic, float(textbook.transfer_seconds(traffic, rate))

    shard, replicas = layout.shard, layout.dp // layout.shard
    tensor = textbook.tp_traffic_bytes(
        inputs.tokens_per_step / layout.dp, hidden, layers, layout.tp
    )
    pipeline = textbook.pp_traffic_bytes(
        job.seq_len, layout.micro_batch, hidden, inputs.micro_batches, layout.pp, layout.tp
    )
    replica = textbook.replica_traffic_bytes(parameters_local, shard, replicas)
    within = textbook.data_traffic_bytes(parameters_local, layout.zero, shard)
    return _Traffic(
        shard=timed(float(within), layout.tp * shard),
        replica=timed(float(replica), layout.tp * layout.dp),
        tensor=timed(float(tensor), layout.tp),
        pipeline=timed(float(pipeline), layout.gpus),
    )


def held_gpus(gpus: int, gpus_per_node: int) -> int:
    """GPUs of the whole nodes that ``gpus`` occupy."""
    return -(-gpus // gpus_per_node) * gpus_per_node


def estimate(inputs: TextbookInputs) -> TextbookEstimate:
    """Price one layout by the textbook account."""
    shape, job, machine, layout = inputs.shape, inputs.job, inputs.machine, inputs.layout
    local = shape.parameters / (layout.tp * layout.pp)
    layers = float(textbook.stage_layers(shape.layers, layout.pp))
    full = layout.recompute == "full"
    kept = textbook.activation_bytes(
        job.seq_len,
        layout.micro_batch,
        shape.hidden,
        layers,
        layout.tp,
        layout.sequence_parallel,
        full,
        layout.pp,
    )
    traffic = _traffic(inputs, local, layers)
    work = float(textbook.flops(shape.parameters, inputs.tokens_per_step))
    compute = float(textbook.compute_seconds(work, layout.gpus, machine.peak_flops, job.mfu))
    factor = float(textbook.recompute_factor(full, job.charge_recompute))
    idle = float(textbook.bubble(layout.pp, inputs.micro_batches, layout.vpp))
    step = float(
        textbook.step_seconds(compute * factor, idle, traffic.tensor[1] + traffic.pipeline[1])
    )
    held = held_gpus(layout.gpus, machine.gpus_per_node)
    steps = training = wall = hours = usd = None
    if job.tokens is not None:
        steps = job.tokens / inputs.tokens_per_step
        total = textbook.flops(shape.parameters, job.tokens)
        training = float(textbook.compute_seconds(total, layout.gpus, machine.peak_flops, job.mfu))
        wall = steps * step
        hours = float(textbook.gpu_hours(held, wall))
        if machine.usd_per_gpu_hour is not None:
            usd = float(textbook.cost_usd(hours, machine.usd_per_gpu_hour))
    return TextbookEstimate(
        parameters_local=local,
        stage_layers=layers,
        state_bytes=float(textbook.state_bytes(local, layout.zero, layout.shard)),
        activation_bytes=float(kept),
        room_bytes=machine.capacity_bytes * (1.0 - inputs.limits.mem_headroom),
        step_flops=work,
        compute_seconds=compute,
        recompute_factor=factor,
        bubble=idle,
        shard_bytes=traffic.shard[0],
        shard_seconds=traffic.shard[1],
        replica_bytes=traffic.replica[0],
        replica_seconds=traffic.replica[1],
        tensor_bytes=traffic.tensor[0],
        tensor_seconds=traffic.tensor[1],
        pipeline_bytes=traffic.pipeline[0],
        pipeline_seconds=traffic.pipeline[1],
        communication_ratio=float(textbook.communication_ratio(traffic.seconds, compute)),
        step_seconds=step,
        realised_mfu=float(textbook.realised_mfu(work, step, layout.gpus, machine.peak_flops)),
        held_gpus=held,
        steps=steps,
        training_seconds=training,
        wall_seconds=wall,
        gpu_hours=hours,
        usd=usd,
    )
