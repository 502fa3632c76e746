"""The fitted constants of a GPU family and of a software stack, as the profile files name them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class GpuRates(BaseModel):
    """Sustained rates of a GPU family, shares of its spec; fields as in profiles/gpus.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    family: str
    matmul_16bit_efficiency: float
    matmul_8bit_efficiency: float
    matmul_mx8_efficiency: float
    matmul_4bit_efficiency: float
    matmul_half_inner: float
    matmul_half_rows: float
    matmul_half_columns: float
    attention_efficiency: float
    attention_half_seq: float
    attention_backward: float
    attention_narrow: float
    matmul_droop: float
    host: float
    collective_bytes_per_s: float
    collective_half_bytes: float
    all_reduce_bytes_per_s: float


class StackConstants(BaseModel):
    """What a software stack adds; fields as in profiles/stacks.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stack: str
    hbm_efficiency: float
    fabric_efficiency: float
    link_efficiency: float
    elementwise: float
    attention: float
    attention_hopper: float
    clock: float
    small_batch_tokens: float
    tp_exposed: float
    tp_overlap: bool
    tp_bandwidth: float
    tp_latency_s: float
    cp_exposed: float
    p2p_exposed: float
    p2p_latency_s: float
    dp_overlap: float
    fsdp_fabric: float
    fsdp_link: float
    fsdp_overlap: float
    fsdp_contention: float
    fsdp_latency_s: float
    hop_latency_s: float
    ep_exposed: float
    ep_dedup: bool
    host_layer_s: float
    host_moe_layer_s: float
    layer_overhead_s: float
    expert_overhead_s: float
    expert_power: float
    microbatch_overhead_s: float
    step_overhead_s: float
    optimizer_bytes: float
    parameter_update_bytes: float
    scale_loss: float
    accumulate_bytes: float
    alignment_loss: float
    unfused_rate: float
    score_bytes: float
    head_alignment_loss: float
    odd_head_loss: float
    latent_attention: float
    cast_fp8_bytes: float
    cast_fp8_row_bytes: float
    cast_fp8_block_bytes: float
    cast_mxfp8_bytes: float
    cast_nvfp4_bytes: float
    fp8_row_rate: float
    fp8_block_rate: float
    logit_bytes: float
    embedding_bytes: float
    routed_bytes: float
    expert_activation_bytes: float
    expert_bias_bytes: float
    grouped_efficiency: float
    grouped_half_rows: float
    expert_16bit_share: float
    ep_exposed_alltoall: float
    ep_exposed_overlapped: float
    etp_exposed: float
    host_tp: float
    host_latent: float
    host_graph_partial: float
    host_graph_full: float
    host_static: float
    release_loss: float
    release_decay_years: float
    p2p_plain_exposed: float
    tensor_hop_s: float
    offloaded_parameter_s: float
    gradient_bytes: int
    expected_error: float
    expected_error_moe: float
    expected_difference: float
    expected_difference_moe: float
