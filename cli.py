"""The command line: reads flags, calls the library, prints, exits; computes nothing.

Results go to stdout, notes and errors to stderr. Exit codes (docs/exit-codes.md): 0 plan, 1 bug,
2 bad input, 3 proved infeasible, 4 no plan in time, 5 not proved with --require-optimal, 6 a broken
limit, 130 interrupted, 141 the reader of stdout went away.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # at run time every import waits for the command that needs it: --help is fast
    from solver.job.job import PlanningProblem
    from solver.plan import Plan, Result
    from solver.report import Report

BUG, BAD_INPUT, INFEASIBLE, NO_PLAN, UNPROVED, BROKEN = 1, 2, 3, 4, 5, 6
INTERRUPTED, NO_READER = 130, 141
FORMATS = ("table", "json", "jsonl", "csv", "md")
LOCAL_PROBLEM = "shardplan.yaml"
DEBUG = "SHARDPLAN_DEBUG"
Function = Callable[..., Any]

# Flag, field of the problem file that it replaces, type, name of the value, help.
SETTINGS: tuple[tuple[str, str, Any, str, str], ...] = (
    ("--model", "model", str, "ID", "Model id, or a Hugging Face config.json."),
    ("--cluster", "cluster", str, "NxGxGPU", "Nodes x GPUs a node x GPU, e.g. 8x8xH100."),
    ("--gpus", "search.gpus", int, "N", "Use exactly so many GPUs."),
    ("--max-gpus", "search.max_gpus", int, "N", "Use at most so many GPUs."),
    ("--tokens", "training.tokens", str, "100B", "Tokens of the whole run."),
    ("--global-batch", "training.global_batch", str, "1024seq", "Sequences or tokens (4Mtok)."),
    ("--seq-len", "training.seq_len", int, "N", "Tokens a sequence."),
    ("--precision", "training.precision", str, "bf16", "bf16, fp16, fp8, mxfp8 or nvfp4."),
    ("--price", "cluster.price", str, "2.50", "USD per GPU-hour."),
    ("--objective", "objective.minimise", str, "time|cost", "What to minimise."),
    ("--pareto", "objective.pareto", bool, "", "Find the front of time, cost and GPUs."),
    ("--top", "objective.top", int, "N", "Plans to return."),
    ("--tolerance", "objective.tolerance", str, "3%", "Plans closer than this count as equal."),
    ("--mem-headroom", "limits.mem_headroom", str, "10%", "Usable memory that stays free."),
    ("--max-bubble", "limits.max_bubble", str, "15%", "Largest pipeline bubble."),
    ("--max-comm", "limits.max_comm", str, "20%", "Largest communication over compute."),
    ("--comm-metric", "limits.comm_metric", str, "exposed|total", "Communication to count."),
    ("--deadline", "limits.deadline", str, "30d", "Longest run."),
    ("--budget", "limits.budget", str, "50000", "Largest cost in USD."),
    ("--cost-model", "cost_model", str, "calibrated|textbook", "Account of time and memory."),
    ("--mfu", "mfu", str, "40%", "Utilisation that the textbook account takes."),
    ("--charge-recompute", "charge_recompute", bool, "", "Textbook: recomputation costs a third."),
    ("--profile", "profile", str, "NAME", "Fitted constants, by default the framework's."),
    ("--framework", "framework", str, "megatron|fsdp", "Training framework."),
)


@dataclass(frozen=True)
class Out:
    """Where and how a command prints."""

    form: str
    width: int | None
    color: str
    quiet: bool
    verbose: int

    def show(self, report: Report) -> None:
        """Print a report on stdout."""
        from solver.report import render

        self.write(render(report, self.form, width=self._columns(), color=self._colored()))

    def write(self, text: str) -> None:
        """Print text on stdout."""
        click.echo(text, nl=False, color=self._colored())

    def note(self, text: str) -> None:
        """Print one line on stderr unless --quiet."""
        if not self.quiet:
            click.echo(text, err=True)

    def _columns(self) -> int | None:
        if self.width is None and sys.stdout.isatty():
            return shutil.get_terminal_size().columns
        return self.width

    def _colored(self) -> bool:
        if self.color != "auto":
            return self.color == "always"
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


class Command(click.Command):
    """A command whose every failure has an exit code and no traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(NO_READER)
        except Exception as error:  # noqa: BLE001 - a bug is reported in one line
            ctx.exit(_failed(ctx, error))


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type


def _failed(ctx: click.Context, error: Exception) -> int:
    from topology.errors import InputError

    if isinstance(error, InputError):
        click.echo(str(error), err=True)
        if ctx.params.get("form") == "json":
            from solver.report.faults import errors_json

            click.echo(errors_json(error), nl=False)
        return BAD_INPUT
    if os.environ.get(DEBUG) or ctx.params.get("verbose", 0) > 1:
        traceback.print_exception(error)
    kind, text = type(error).__name__, " ".join(str(error).split())[:300]
    click.echo(
        f"internal error: {kind}: {text}. This is a bug; please report it with your input "
        f"({DEBUG}=1 shows where).",
        err=True,
    )
    return BUG


def printing(forms: tuple[str, ...] = FORMATS) -> Callable[[Function], Function]:
    """Give a command the output flags and pass them on as one `Out`."""

    def decorate(function: Function) -> Function:
        def call(**given: Any) -> Any:
            keys = ("form", "width", "color", "quiet", "verbose")
            return function(Out(**{key: given.pop(key) for key in keys}), **given)

        call.__doc__, call.__name__ = function.__doc__, function.__name__
        # A decorated function hands its own flags on to the command.
        call.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        options: tuple[Callable[[Function], Function], ...] = (
            click.option("--format", "form", type=click.Choice(forms), default=forms[0],
                         show_default=True, help="Form of the result."),
            click.option("--width", type=click.IntRange(20, 10_000), help="Columns of tables."),
            click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto",
                         show_default=True, help="Styles; auto heeds NO_COLOR."),
            click.option("-q", "--quiet", is_flag=True, help="No notes on stderr."),
            click.option("-v", "--verbose", count=True, help="More notes; -vv shows tracebacks."),
        )  # fmt: skip
        for option in reversed(options):
            call = option(call)
        return call

    return decorate


def settings(function: Function) -> Function:
    """Give a command one flag for each field of the problem that a flag may replace."""
    for flag, _, kind, metavar, text in reversed(SETTINGS):
        if kind is bool:
            function = click.option(flag, is_flag=True, default=None, help=text)(function)
        else:
            function = click.option(flag, type=kind, metavar=metavar, help=text)(function)
    argument = click.argument("problem", required=False, metavar="[PROBLEM.yaml]")
    return argument(function)


class Duration(click.ParamType):
    """Seconds from ``60s``, ``5min`` or ``2h``."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Read the text."""
        from topology.units import parse_duration

        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _read(out: Out, path: str | None, given: Mapping[str, Any]) -> PlanningProblem:
    """Read the problem: a file, ./shardplan.yaml, flags alone, or the packaged example."""
    from solver.job.read import example_path, parse_problem, read_problem

    overrides, flags = _overrides(given)
    if path is None and not Path(LOCAL_PROBLEM).is_file():
        if {"model", "cluster"} <= overrides.keys():
            return parse_problem("", overrides=overrides, flags=flags)
        out.note("no PROBLEM given: the packaged example, Llama-3-70B on 64 H100")
        return read_problem(example_path(), overrides, flags)
    if path is None:
        out.note(f"no PROBLEM given: ./{LOCAL_PROBLEM}")
    return read_problem(path or LOCAL_PROBLEM, overrides, flags)


def _overrides(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Turn flags into nested values of the problem file and the flag that set each."""
    overrides: dict[str, Any] = {}
    flags: dict[str, str] = {}
    for flag, field, _, _, _ in SETTINGS:
        value = given.get(flag.removeprefix("--").replace("-", "_"))
        if value is None:
            continue
        flags[field] = flag
        section, _, key = field.partition(".")
        if not key:
            overrides[section] = value
        elif section == "cluster" and section in overrides:
            overrides[section] = _with_price(overrides[section], value)
        else:
            overrides.setdefault(section, {})[key] = value
    return overrides, flags


def _with_price(shorthand: str, price: str) -> Any:
    """Spell ``8x8xH100`` out, so that a price finds room; what is wrong is left to the reader."""
    from topology import ClusterSpec

    try:
        spec = ClusterSpec.model_validate(shorthand)
    except ValueError:
        return shorthand
    return {**{key: getattr(spec, key) for key in spec.model_fields_set}, "price": price}


@click.group(cls=Group, context_settings={"max_content_width": 100})
@click.version_option(package_name="shardplan")
def main() -> None:
    """Find the proven-best way to split the training of a large model over GPUs."""


@main.command("solve")
@printing()
@settings
@click.option("--time-limit", type=Duration(), metavar="60s", help="Stop the search after this.")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True,
              help="CP-SAT threads; 1 gives the same bytes every time.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True,
              help="Random seed of CP-SAT.")
@click.option("--require-optimal", is_flag=True, help="Exit 5 where optimality is not proved.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan JSON here.")
@click.option("--stats", type=click.Path(dir_okay=False), help="Write timings as JSON here.")
@click.version_option(package_name="shardplan")  # fmt: skip
def solve_command(out: Out, problem: str | None, **given: Any) -> None:
    """Find the best plan and prove it.

    Without PROBLEM.yaml: ./shardplan.yaml, or flags alone (--model and --cluster), or the
    packaged example. A flag replaces the value of the file.
    """
    from solver.report.plans import Run, plans_report
    from solver.report.render import to_json

    asked = _read(out, problem, given)
    start = time.perf_counter()
    from solver.search.search import solve

    seed, workers = given["seed"], given["workers"]
    loaded = time.perf_counter()
    result = solve(asked, seed=seed, workers=workers, time_limit_s=given["time_limit"])
    seconds = time.perf_counter() - loaded
    report = plans_report(asked, result, Run(seed, workers, seconds))
    if given["output"]:
        _write(given["output"], to_json(report.data))
    if given["stats"]:
        spent = {"import_s": loaded - start, "solve_s": seconds}
        _write(given["stats"], to_json({**spent, **result.certificate.model_dump()}))
    out.show(report)
    if not report.records:
        out.note("\n".join(result.reasons) or "no plan")
    sys.exit(_exit_code(result, given["require_optimal"]))


def _exit_code(result: Result, require_optimal: bool) -> int:
    unproved = UNPROVED if require_optimal else 0
    codes = {"optimal": 0, "feasible": unproved, "infeasible": INFEASIBLE, "unknown": NO_PLAN}
    return codes[result.status]
