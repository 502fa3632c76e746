"""A user's own profile: a shipped one, and how much longer this cluster takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from topology.errors import InputError, Problem

from .profile import Profile, load_profile

if TYPE_CHECKING:
    from .ticks import FloatArray

ENDINGS = (".yaml", ".yml")
LARGEST_FILE = 65_536
RATES = {
    "compute": (
        "matmul_16bit_efficiency", "matmul_8bit_efficiency", "matmul_mx8_efficiency",
        "matmul_4bit_efficiency", "attention_efficiency", "hbm_efficiency",
    ),
    "communication": (
        "collective_bytes_per_s", "link_efficiency", "fabric_efficiency", "fsdp_fabric",
    ),
    "overhead": (),
}  # fmt: skip
"""Constants that are rates: a multiplier of times divides them."""
TIMES = {
    "compute": (),
    "communication": ("tp_latency_s", "p2p_latency_s", "fsdp_latency_s", "hop_latency_s"),
    "overhead": (
        "host_layer_s", "host_moe_layer_s", "layer_overhead_s", "expert_overhead_s",
        "microbatch_overhead_s", "step_overhead_s",
    ),
}  # fmt: skip
"""Constants that are times: a multiplier multiplies them."""
KINDS = tuple(TIMES)


class OwnProfile(BaseModel):
    """What a profile file holds.

    Attributes
    ----------
    stack
        Shipped profile that it starts from.
    compute, communication, overhead
        Times of kernels, of traffic, and of launches and other fixed costs, over the shipped ones.
    expected_error
        Mean absolute error of a step, each measured run left out in turn.
    runs
        How many measured runs it was fitted to.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stack: str = Field(min_length=1, max_length=100)
    compute: float = Field(default=1.0, ge=0.1, le=10)
    communication: float = Field(default=1.0, ge=0.1, le=10)
    overhead: float = Field(default=1.0, ge=0.1, le=10)
    expected_error: float | None = Field(default=None, ge=0, le=1)
    runs: int = Field(default=0, ge=0)


def scaled(
    profile: Profile, times: Mapping[str, float] | Mapping[str, FloatArray]
) -> dict[str, dict[str, float | FloatArray]]:
    """Return the constants of ``gpu`` and ``stack`` that multiplied times change."""
    found: dict[str, dict[str, float | FloatArray]] = {"gpu": {}, "stack": {}}
    for kind, factor in times.items():
        for names, power in ((RATES[kind], -1), (TIMES[kind], 1)):
            for name in names:
                part = "gpu" if hasattr(profile.gpu, name) else "stack"
                found[part][name] = getattr(getattr(profile, part), name) * factor**power
    return found


def apply(profile: Profile, own: OwnProfile, name: str) -> Profile:
    """Return ``profile`` with the times of ``own``."""
    parts = scaled(profile, {kind: getattr(own, kind) for kind in KINDS})
    stack = profile.stack.model_copy(update=parts["stack"])
    if own.expected_error is not None:
        error = max(own.expected_error, stack.expected_difference)
        stack = stack.model_copy(update={"expected_error": error, "expected_error_moe": error})
    return profile.model_copy(
        update={
            "name": f"{profile.name}+{name}",
            "gpu": profile.gpu.model_copy(update=parts["gpu"]),
            "stack": stack,
        }
    )


def is_file(name: str) -> bool:
    """Whether a profile's name is a file of one's own."""
    return name.lower().endswith(ENDINGS)


@cache
def read(path: str) -> OwnProfile:
    """Read a profile file.

    Raises
    ------
    InputError
        Where there is none, or it holds something else.
    """
    try:
        with Path(path).open("rb") as stream:
            text = stream.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise _fault(path, "is larger than any profile.")
        data = yaml.safe_load(text)
        return OwnProfile.model_validate(data)
    except OSError as error:
        raise _fault(path, f"{error.strerror or 'cannot be read'}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise _fault(path, "is not YAML.") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise _fault(path, f"{first['msg']}.", field) from None


def _fault(path: str, message: str, field: str = "") -> InputError:
    hint = "A profile file is what `shardplan calibrate RUNS.csv -o FILE` writes."
    return InputError(Problem(path, 0, 0, field, "SP120", message, hint))


def find_profile(name: str, gpu_id: str) -> Profile:
    """Return a shipped profile by its stack, or one's own by its file, on a GPU.

    Raises
    ------
    InputError
        Where there is no such stack or file.
    """
    if not is_file(name):
        return load_profile(name, gpu_id)
    own = read(name)
    return apply(load_profile(own.stack, gpu_id), own, Path(name).name)
