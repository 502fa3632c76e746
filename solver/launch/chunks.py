"""Which layers each virtual stage holds, and the words that frameworks have for it."""

from __future__ import annotations

import re
from itertools import groupby

from .description import Launch

_LONGEST_LAYOUT = 100_000
_UNROLL = (r"\(([^()]+)\)\*(\d{1,4})", r"([EtmL|])\*(\d{1,4})")
"""Repetitions of Megatron's layout string: of a bracket, then of one sign."""


def chunk_layers(launch: Launch) -> tuple[int, ...] | None:
    """Return the layers of each virtual stage in the order of the model.

    All virtual stages are alike but for the first and the last of the model, which may lack some;
    None where an end would lack more than it has.
    """
    if launch.vpp == 1:
        return launch.layers
    size = -(-max(launch.layers) // launch.vpp)
    chunks = [size] * (launch.pp * launch.vpp)
    for end, stage in ((0, 0), (-1, -1)):
        chunks[end] -= size * launch.vpp - launch.layers[stage]
    whole = sum(chunks) == launch.total_layers and min(chunks) >= 0
    return tuple(chunks) if whole else None


def stage_layers(chunks: tuple[int, ...], pp: int) -> tuple[int, ...]:
    """Return the layers of each stage from those of the virtual stages."""
    return tuple(sum(chunks[stage::pp]) for stage in range(pp))


def layout_text(chunks: tuple[int, ...], mtp_layers: int) -> str:
    """Write Megatron's ``--pipeline-model-parallel-layout``: ``Et*3|(t*4|)*6,t*3,L``."""
    parts = ["t" * (n == 1) + f"t*{n}" * (n > 1) for n in chunks]
    parts[0] = "E" + parts[0]
    parts[-1] += "m" * mtp_layers + "L"
    runs = [(part, len(list(same))) for part, same in groupby(parts[:-1])]
    text = "".join(f"({part}|)*{n}," if n > 1 and part else f"{part}|" * n for part, n in runs)
    return text + parts[-1]


def parse_layout(text: str) -> tuple[tuple[int, ...], int] | None:
    """Read such a text: layers of each virtual stage, and MTP modules.

    Returns
    -------
    None where it is no such text: unknown signs, no ``E`` first or ``L`` last, or far too long.
    """
    plain = re.sub(r"[,\s]", "", text)
    for pattern in _UNROLL:
        while (found := re.search(pattern, plain)) is not None:
            times = int(found[2])
            if len(plain) + len(found[1]) * times > _LONGEST_LAYOUT:
                return None
            plain = plain[: found.start()] + found[1] * times + plain[found.end() :]
    ends = plain.startswith("E") and plain.endswith("L")
    if not ends or not re.fullmatch(r"E[t|]*(m[m|]*)?L", plain):
        return None
    return tuple(part.count("t") for part in plain.split("|")), plain.count("m")


def torchtitan_split(
    layers: int, stages: int, first_less: int, last_less: int
) -> tuple[int, ...] | None:
    """Return the layers of each virtual stage as torchtitan 0.3.0 spreads them.

    Embedding and head count as ``first_less`` and ``last_less`` layers, the sum is spread evenly,
    the earlier stages take what is left over (torchtitan/distributed/pipeline_parallel.py,
    _generate_llm_fqn_per_model_part). None where it refuses.
    """
    if stages == 1:
        return (layers,)
    each, over = divmod(layers + first_less + last_less, stages)
    if each == 0 or max(first_less, last_less) > each:
        return None
    chunks = [each + (stage < over) for stage in range(stages)]
    chunks[0] -= first_less
    chunks[-1] -= last_less
    return tuple(chunks)


def torchtitan_ends(chunks: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the ``less_layers`` of both ends that make torchtitan spread layers so, if any do."""
    total, most = sum(chunks), max(chunks)
    for first in range(most + 1):
        for last in range(most + 1):
            if torchtitan_split(total, len(chunks), first, last) == chunks:
                return first, last
    return None
