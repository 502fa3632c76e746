"""The training command of one node, for the launchers that start it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topology.hardware import find_gpu

from ..description import Launch, Run
from ..schedule import Times
from .base import Wanted, Words
from .megatron import MEGATRON, STRATEGY
from .torchtitan import TORCHTITAN

MINUTE_S = 60
PORT = 29500
"""Default of torchrun's ``--master-port``."""
NEEDS_NO_QUEUE = "fp4"
"""GPUs from Blackwell on, which have this precision, order TP and CP traffic without a single
hardware queue (Megatron-LM, megatron/training/arguments.py)."""


@dataclass(frozen=True, slots=True)
class Command:
    """What runs on every node.

    Attributes
    ----------
    program
        Arguments of torchrun that name what it starts.
    arguments
        Arguments of that, one option an entry.
    variables
        Environment variables that must be set.
    rest
        Name of the variable with the user's own arguments, and what belongs there.
    save
        Options that save every so many steps; ``{}`` stands for the number.
    leave
        Options that save and end after so many minutes; empty where there are none.
    """

    program: Words
    arguments: tuple[Words, ...]
    variables: tuple[tuple[str, str], ...]
    rest: tuple[str, str]
    save: tuple[Words, ...]
    leave: tuple[Words, ...] = ()

    def saving(self, limits: Times) -> tuple[Words, ...]:
        """Return the options that save, and those that end a job before its time."""
        filled = [(self.save, limits.save_steps)]
        filled += [(self.leave, max(limits.leave_s // MINUTE_S, 1))] if limits.jobs > 1 else []
        return tuple(
            tuple(word.format(number) for word in option)
            for options, number in filled
            for option in options
        )


def command(launch: Launch, run: Run, wanted: Wanted) -> Command:
    """Return the command of a plan's framework.

    Raises
    ------
    LaunchError
        Where that framework cannot express the plan.
    """
    if run.framework == "megatron":
        words = MEGATRON.write(launch, run, wanted).words
        fork = " of the zero-bubble fork" if launch.schedule == "zb-h1" else ""
        return Command(
            (wanted.script or "pretrain_gpt.py",),
            options_of(words),
            _megatron_variables(launch, run),
            ("MODEL_ARGS", f"model, data and logging arguments of pretrain_gpt.py{fork}"),
            (("--save-interval", "{}"),),
            (("--exit-duration-in-mins", "{}"),),
        )
    words = TORCHTITAN.write(launch, run, Wanted()).words
    program = (wanted.script,) if wanted.script else ("-m", "torchtitan.train")
    return Command(
        program,
        options_of(words),
        (),
        ("MODEL_ARGS", "e.g. --module llama3 --config llama3_70b"),
        (("--checkpoint.enable",), ("--checkpoint.interval", "{}")),
    )


def _megatron_variables(launch: Launch, run: Run) -> tuple[tuple[str, str], ...]:
    """One hardware queue keeps TP and CP traffic ahead of compute; FSDP needs several."""
    needed = launch.tp * launch.cp > 1 and launch.zero not in STRATEGY
    ahead = needed and NEEDS_NO_QUEUE not in find_gpu(run.gpu).peak_flops
    return (("CUDA_DEVICE_MAX_CONNECTIONS", "1"),) if ahead else ()


def options_of(words: Words) -> tuple[Words, ...]:
    """Cut command-line words into options with their values."""
    found: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not found or ":" in word:
            found.append([word])
        else:
            found[-1].append(word)
    return tuple(map(tuple, found))


def ordered(command: Command, extra: Sequence[Words]) -> tuple[Words, ...]:
    """Put further options before a subcommand, which takes all that follows it."""
    options = command.arguments
    cut = next((i for i, (word, *_) in enumerate(options) if not word.startswith("-")), None)
    if cut is None:
        return (*options, *extra)
    return (*options[:cut], *extra, *options[cut:])
