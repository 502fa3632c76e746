"""The command line: reads flags, calls the library, prints, exits; computes nothing.

Results go to stdout, notes and errors to stderr. Exit codes (docs/exit-codes.md): 0 plan, 1 bug,
2 bad input, 3 proved infeasible, 4 no plan in time, 5 not proved under --require-optimal, 6 a
broken limit, 7 a plan that a target cannot say, 8 points of a sweep failed, 130 interrupted, 141
nobody reads stdout. Imports wait until a command needs them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shlex
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import click

    from solver.job.settings import SETTINGS, nested
except KeyboardInterrupt:  # no handler stands yet
    raise SystemExit(130) from None

if TYPE_CHECKING:
    from solver.job.job import PlanningProblem
    from solver.report import Report

BUG, BAD_INPUT, INTERRUPTED, NO_READER = 1, 2, 130, 141
DEBUG = "SHARDPLAN_DEBUG"
INFEASIBLE, NO_PLAN, UNPROVED, BROKEN_LIMIT, INEXPRESSIBLE, FAILED_POINTS = 3, 4, 5, 6, 7, 8
EXIT = {"optimal": 0, "feasible": 0, "infeasible": INFEASIBLE, "unknown": NO_PLAN}
EXTREMES = ("gpus", "params", "seq_len", "global_batch")
FORMATS, YAML = ("table", "json", "jsonl", "csv", "md"), ("yaml", "json")
YOUNG_OBJECTS = 100_000  # looking for cycles among fewer only slows the imports down
LARGEST_SEED = 2**31 - 1  # CP-SAT's random_seed is a 32-bit integer


class Unwritable(click.ClickException):
    """Stdout takes nothing more, e.g. the disk that it goes to is full."""

    exit_code = BAD_INPUT

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot be written: {error.strerror or error}.")

    def show(self, file: Any = None) -> None:
        """Say so on stderr."""
        drop(sys.stdout)
        hint = "Make room, or send it elsewhere."
        click.echo(f"error[SP100] stdout: {self.message} {hint}", file, err=True)


def is_open(stream: Any) -> bool:
    """Whether a stream is there and not closed."""
    return stream is not None and not stream.closed


def write(text: str, color: bool) -> None:
    """Write a result on stdout.

    Raises
    ------
    Unwritable
        Where stdout takes no more.
    """
    try:
        click.echo(text, nl=False, color=color)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error) from None


def drop(stream: Any) -> None:
    """Send what is still buffered nowhere, so that leaving does not fail once more."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _code(call: Callable[[], Any]) -> Any:
    """Run the command line and return its exit code, whatever stops it."""
    before = sys.stdout
    try:
        try:
            code = call()
        except SystemExit as left:
            code = left.code
        if sys.stdout is not before:  # click puts a mute stream there once nobody reads
            code = NO_READER
        if is_open(sys.stdout):
            sys.stdout.flush()
        return code if is_open(sys.stdout) else code or NO_READER
    except ValueError:  # from a closed stdout
        if is_open(sys.stdout):
            raise
        return NO_READER
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        drop(sys.stdout)
        return NO_READER
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:
        Unwritable(error).show()
        return BAD_INPUT


def failed(error: Exception, form: str, verbose: int) -> int:
    """Print what stopped a command and return the exit code."""
    from topology.errors import InputError

    if isinstance(error, InputError):
        click.echo(str(error), err=True)
        if form == "json":
            from solver.report.faults import errors_json

            click.echo(errors_json(error), nl=False)
        from solver.launch.errors import LaunchError

        return INEXPRESSIBLE if isinstance(error, LaunchError) else BAD_INPUT
    if os.environ.get(DEBUG) or verbose > 1:
        traceback.print_exception(error)
    text = " ".join(f"internal error: {type(error).__name__}: {error}".split())[:300]
    click.echo(f"{text}. A bug: please report it with the input ({DEBUG}=1: where).", err=True)
    return BUG


class Interrupts:
    """Ctrl-C from the first moment: loading a module may turn it into another error."""

    seen = False

    @classmethod
    def take(cls) -> None:
        """Note Ctrl-C from now on, and raise as before."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, cls._note)

    @classmethod
    def _note(cls, *_: Any) -> None:
        cls.seen = True
        raise KeyboardInterrupt


class Entry(click.Command):
    """What the shell starts: it always ends in an exit code, never in a traceback."""

    def main(self, *args: Any, standalone_mode: bool = True, **given: Any) -> Any:
        """Run with the arguments of the process."""
        start: Callable[..., Any] = super().main
        if not standalone_mode:
            return start(*args, standalone_mode=False, **given)
        gc.set_threshold(YOUNG_OBJECTS)
        Interrupts.seen = False
        if threading.current_thread() is threading.main_thread():
            Interrupts.take()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # for × and –
        code: Any = BAD_INPUT
        with contextlib.suppress(OSError):  # stderr is gone too: nobody to tell
            code = _code(lambda: start(*args, standalone_mode=False, **given))
        sys.exit(code)


@dataclass(frozen=True)
class Out:
    """Where and how a command prints."""

    form: str
    width: int | None
    color: str
    quiet: bool
    verbose: int

    def show(self, report: Report) -> None:
        """Print a report on stdout, its notes on stderr."""
        from solver.report import render

        if not is_open(sys.stdout):
            raise BrokenPipeError
        at_terminal = sys.stdout.isatty()
        columns = shutil.get_terminal_size().columns if at_terminal else None
        auto = at_terminal and not os.environ.get("NO_COLOR")
        color = auto if self.color == "auto" else self.color == "always"
        text = render(report, self.form, width=self.width or columns, color=color)
        write(text, color)
        self.note("\n".join(report.notes))

    def note(self, text: str) -> None:
        """Print a line on stderr unless --quiet."""
        if text and not self.quiet:
            click.echo(text, err=True)


class Watched:
    """A search that shows how far it is, and that the first Ctrl-C ends with the best so far."""

    def __init__(self, out: Out, limit_s: float | None) -> None:
        self.shown = is_open(sys.stderr) and sys.stderr.isatty() and not out.quiet
        self.limit = "" if limit_s is None else f"/{limit_s:g}"
        self.started = self.told = time.monotonic()
        self.interrupted, self.before = False, signal.SIG_DFL

    def __enter__(self) -> Watched:
        """Take Ctrl-C."""
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self._interrupt)  # type: ignore[assignment]
        return self

    def _interrupt(self, *_: Any) -> None:
        if self.interrupted:  # a second one does not wait
            raise KeyboardInterrupt
        self.interrupted = True

    def stopped(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.interrupted

    def show(self, bound: float | None, best: float | None) -> None:
        """Write a line over the last one, a few times a second."""
        now = time.monotonic()
        if not self.shown or now - self.told < 1 / 4:
            return
        self.told = now
        gap = "" if not best or bound is None else f"  gap {max(1 - bound / best, 0):.1%}"
        values = [f"{name} {v:,.4g}" for name, v in (("bound", bound), ("best", best)) if v]
        spent = f"{now - self.started:.0f}{self.limit} s"
        click.echo("\r\x1b[2Ksolving  " + "  ".join([*values, spent]) + gap, nl=False, err=True)

    def __exit__(self, *_: object) -> None:
        """Clear the line and give Ctrl-C back."""
        if self.told > self.started and self.shown:
            click.echo("\r\x1b[2K", nl=False, err=True)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self.before)


class Command(Entry):
    """A command with the output flags, whose every failure has an exit code and no traceback."""

    def __init__(self, *args: Any, forms: tuple[str, ...] = FORMATS, **given: Any) -> None:
        output = (
            click.Option(["--format", "form"], type=click.Choice(forms), default=(forms or YAML)[0],
                         show_default=True, help="Form of the result."),
            click.Option(["--width"], type=click.IntRange(20, 10_000), help="Columns of a table."),
            click.Option(["--color"], type=click.Choice(("auto", "always", "never")),
                         default="auto", show_default=True, help="Styles; auto heeds NO_COLOR."),
            click.Option(["-q", "--quiet"], is_flag=True, help="No notes on stderr."),
            click.Option(["-v", "--verbose"], count=True, help="-vv shows where a bug is."),
        )  # fmt: skip
        super().__init__(*args, **{**given, "params": [*given["params"], *output[not forms :]]})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        ctx.obj = Out(**{key: ctx.params.pop(key, YAML[0]) for key in Out.__dataclass_fields__})
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            drop(sys.stdout)
            ctx.exit(NO_READER)
        except Exception as error:  # a bug is reported, never shown as a traceback
            if Interrupts.seen:
                click.echo("interrupted", err=True)
                ctx.exit(INTERRUPTED)
            ctx.exit(failed(error, ctx.obj.form, ctx.obj.verbose))


class Group(Entry, click.Group):
    """A group of such commands."""

    command_class = Command


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def problem_params() -> list[click.Parameter]:
    """Return the PROBLEM argument and one flag for each field that a flag may replace."""
    flags = [
        click.Option([_flag(s.name)], type=s.kind, is_flag=s.kind is bool, default=None,
                     multiple=s.several, metavar=s.example or None, help=s.meaning)
        for s in SETTINGS
    ]  # fmt: skip
    return [click.Argument(["problem"], required=False, metavar="[PROBLEM.yaml]"), *flags]


def _read(
    out: Out, path: str | None, given: Mapping[str, Any], searches: bool = False
) -> PlanningProblem:
    """Read the problem: a file, ./shardplan.yaml, flags alone, or the packaged example.

    Only what ``searches`` compares kinds of price and stops at a gap.
    """
    from solver.job.price_kinds import under_one_kind

    found = _read_whole(out, path, given)
    return found if searches else under_one_kind(found).exactly()


def _read_whole(out: Out, path: str | None, given: Mapping[str, Any]) -> PlanningProblem:
    from solver.job.read import parse_problem
    from solver.report.stored import LOCAL_PROBLEM, problem_path, read_problem_or_plan

    used = {s.field: s.name for s in SETTINGS if given.get(s.name) not in (None, ())}
    overrides = nested({field: given[name] for field, name in used.items()})
    flags = {field: _flag(name) for field, name in used.items()}
    if {"cluster.price", "cluster.prices"} <= used.keys():
        raise click.UsageError("--price and --prices exclude each other: give one of them.")
    local = Path(LOCAL_PROBLEM).is_file()
    if path is None and not local and {"model", "cluster"} <= used.keys():
        return parse_problem("", overrides=overrides, flags=flags)
    if path is None:
        example = "the packaged example, Llama-3-70B on 64 H100"
        out.note(f"no PROBLEM.yaml given: {f'./{LOCAL_PROBLEM}' if local else example}")
    return read_problem_or_plan(problem_path(path), overrides, flags)


@click.group(cls=Group, context_settings={"max_content_width": 100})
@click.version_option(package_name="shardplan")
def main() -> None:
    """Find the proven-best way to split the training of a large model over GPUs."""


SOLVE_FLAGS = (
    click.Option(["--time-limit"], metavar="60s", help="Stop the search after this."),
    click.Option(["--workers"], type=click.IntRange(1, 256), default=1, show_default=True,
                 help="CP-SAT threads; with 1 the same input gives the same bytes."),
    click.Option(["--seed"], type=click.IntRange(0, LARGEST_SEED), default=0, show_default=True,
                 help="Random seed of CP-SAT."),
    click.Option(["--require-optimal"], is_flag=True, help="Exit 5 where nothing is proved."),
    click.Option(["-o", "--output"], type=click.Path(), help="Write the plan JSON to a file."),
    click.Option(["--stats"], type=click.Path(), help="Write timings as JSON to a file."),
)  # fmt: skip


@main.command("solve", cls=Command, params=[*problem_params(), *SOLVE_FLAGS])
@click.version_option(package_name="shardplan")
@click.pass_obj
def solve_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Find the best plan and prove it.

    Without PROBLEM.yaml it takes ./shardplan.yaml, or the flags alone (--model and --cluster), or
    the packaged example. A flag replaces the value of the file.
    """
    from solver.job.named import seconds
    from solver.report.files import check_targets, write_whole
    from solver.report.plans import Run, plans_report
    from solver.report.render import to_json
    from solver.report.stored import problem_path

    limit = seconds(given["time_limit"], "--time-limit")
    targets = {_flag(key): given[key] for key in ("output", "stats") if given[key] is not None}
    check_targets(targets, problem_path(problem))
    extreme = given["objective"] if given["objective"] in EXTREMES else None
    if extreme is not None and limit is not None:
        raise click.UsageError(f"--time-limit does not go with --objective {extreme}.")
    given = {**given, "objective": None if extreme else given["objective"]}
    asked, started = _read(out, problem, given, extreme is None), time.perf_counter()
    from solver.search.search import solve

    seed, workers, loaded = given["seed"], given["workers"], time.perf_counter()
    watched = Watched(out, limit)
    if extreme is not None:
        from solver.answers.extremes import extreme as outermost

        found = outermost(asked, extreme, seed=seed, workers=workers)
        asked, result = found.problem, found.result
        out.note(found.text)
    else:
        with watched:
            result = solve(asked, seed=seed, workers=workers, time_limit_s=limit,
                           progress=watched.show, stop=watched.stopped)  # fmt: skip
    spent: dict[str, Any] = {"import_s": loaded - started, "solve_s": time.perf_counter() - loaded}
    report = plans_report(asked, result, Run(seed, workers, spent["solve_s"], extreme or ""))
    if given["output"] is not None:
        write_whole(given["output"], to_json(report.data))
    if given["stats"] is not None:
        spent["certificate"] = result.certificate.model_dump()
        write_whole(given["stats"], to_json(spent))
    out.show(report)
    if not result.plans and out.form in ("csv", "jsonl"):
        out.note("\n".join(("no plan", *result.reasons)))
    if watched.stopped():
        out.note("interrupted: the best so far")
        sys.exit(INTERRUPTED)
    unproved = result.status == "feasible" and given["require_optimal"]
    sys.exit(UNPROVED if unproved else EXIT[result.status])


def layout_params() -> list[click.Parameter]:
    """Return the flags of a command that looks at one layout."""
    text = "e.g. tp=8,pp=4,dp=2,zero=1,micro_batch=1,recompute=full; dp fills the cluster."
    layout = click.Option(["--layout"], metavar="tp=8,…", help=text)
    text = "Which plan, where PROBLEM.yaml is a plan JSON that solve -o wrote."
    rank = click.Option(["--rank"], type=click.IntRange(1), default=1, show_default=True, help=text)
    return [*problem_params(), layout, rank]


def _layout(out: Out, path: str | None, given: Mapping[str, Any]) -> tuple[PlanningProblem, Any]:
    """Read the problem and the layout, from a flag or from a plan JSON."""
    from solver.layout_check import LayoutRequest
    from solver.report.layouts import parse_layout
    from solver.report.stored import stored_kind, stored_layout

    text, rank = given["layout"], given["rank"]
    values = stored_layout(path, rank) if text is None else parse_layout(text)
    if text is None:
        given = {**given, "price_kinds": given["price_kinds"] or stored_kind(path, rank)}
    return _read(out, path, given), LayoutRequest(**values)


READERS = ("megatron", "torchtitan", "deepspeed", "accelerate")
FROM = click.Option(["--from", "source"], type=(click.Choice(READERS), str), default=None,
                    metavar="NAME FILE|ARGS", help="Check a framework's own configuration "
                    f"({', '.join(READERS)}) and look for a better plan.")  # fmt: skip


@main.command("check", cls=Command, params=[*layout_params(), FROM])
@click.pass_obj
def check_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Estimate one layout and judge every limit; exit 6 where one is broken."""
    from solver.layout_check import check
    from solver.report.checked import broken, check_report

    if given["source"] is not None:
        plan = _check_launch(out, problem, given)
    else:
        asked, layout = _layout(out, problem, given)
        plan = check(asked, layout)
        out.show(check_report(asked, plan))
    sys.exit(BROKEN_LIMIT if broken(plan) else 0)


@main.command("explain", cls=Command, params=layout_params())
@click.pass_obj
def explain_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Say why the best plan is best; with --layout, why that one is not; or what a code means.

    PROBLEM.yaml may be a limit, a status or a verdict, e.g. `explain bubble`.
    """
    from solver.answers.codes import meaning
    from solver.answers.reports import code_report, explain_report
    from solver.layout_check import LayoutRequest
    from solver.report.layouts import parse_layout

    if problem is not None and meaning(problem) is not None and not Path(problem).exists():
        out.show(code_report(problem))
        return
    text = given["layout"]
    layout = None if text is None else LayoutRequest(**parse_layout(text))
    report = explain_report(_read(out, problem, given), layout)
    out.show(report)
    sys.exit(INFEASIBLE if report.data.get("status") == "infeasible" else 0)


@main.command("flips", cls=Command, params=problem_params())
@click.pass_obj
def flips_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Find where another plan becomes best: batch, bandwidth, GPUs, length, headroom."""
    from solver.answers.reports import flips_report

    out.show(flips_report(_read(out, problem, given)))


@main.command("measure", cls=Command, params=problem_params())
@click.pass_obj
def measure_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Name the short runs that tell close plans apart, and the plan that loses least."""
    from solver.answers.measure_report import measure_report

    out.show(measure_report(_read(out, problem, given)))


ONE, OTHER = (click.Argument([n], metavar=f"{n.upper()}.json") for n in ("one", "other"))
RANKS = tuple(
    click.Option([f"--{n}-rank"], type=click.IntRange(1), default=1, show_default=True,
                 help="Which plan of the file.")
    for n in ("one", "other")
)  # fmt: skip


@main.command("diff", cls=Command, params=[ONE, OTHER, *RANKS])
@click.pass_obj
def diff_command(out: Out, /, one: str, other: str, one_rank: int, other_rank: int) -> None:
    """Show where the plans of two plan JSONs differ."""
    from solver.answers.compare_report import diff_report
    from solver.report.stored import stored_plan

    problem, plan = stored_plan(one, one_rank)
    out.show(diff_report(problem, plan, stored_plan(other, other_rank)[1]))


def _check_launch(out: Out, path: str | None, given: Mapping[str, Any]) -> Any:
    """Show what a framework's configuration is worth, beside the best plan; return its plan."""
    from solver.launch.importing import import_launch, within
    from solver.layout_check import check
    from solver.report.launching import SEARCH_S, imported_report, with_layout
    from solver.search.search import solve

    imported = with_layout(
        import_launch(_read(out, path, given), *given["source"]), given["layout"]
    )
    plan = check(imported.problem, imported.request)
    with Watched(out, SEARCH_S) as watched:
        better, *own = (
            solve(problem, time_limit_s=SEARCH_S, progress=watched.show, stop=watched.stopped)
            for problem in (imported.problem, *within(imported))
        )
    out.show(imported_report(imported, plan, better, own))
    return plan


@main.command("memory", cls=Command, params=layout_params())
@click.pass_obj
def memory_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Itemise the memory of one GPU of each stage of a layout."""
    from solver.layout_check import check
    from solver.report.checked import memory_report

    asked, layout = _layout(out, problem, given)
    out.show(memory_report(asked, check(asked, layout)))


@main.command("ledger", cls=Command, params=layout_params())
@click.pass_obj
def ledger_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Write the textbook account of one layout out, every formula with its numbers."""
    from solver.cost.ledger import ledger
    from solver.cost.ledger.adapter import textbook_inputs
    from solver.report.ledger import ledger_report

    asked, layout = _layout(out, problem, given)
    out.show(ledger_report(ledger(textbook_inputs(asked, layout.model_dump()))))


class Bar:
    """Progress of a sweep on a terminal: points, rate, time left, infeasible and failed ones."""

    def __init__(self, out: Out) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        shown = is_open(sys.stderr) and sys.stderr.isatty() and not out.quiet
        counted = "{task.completed:,.0f}/{task.total:,.0f} points  {task.fields[counts]}"
        self.bar = Progress(BarColumn(), TextColumn(counted), TextColumn("eta"),
                            TimeRemainingColumn(), console=Console(stderr=True), transient=True,
                            disable=not shown)  # fmt: skip
        self.started = time.monotonic()
        self.bar.start()

    def show(self, tally: Any) -> None:
        """Show how far it is."""
        rate = sum(tally.counts.values()) / (time.monotonic() - self.started)
        counts = f"{rate:.1f} pt/s  infeasible {tally.counts['infeasible']}"
        counts += f"  failed {tally.counts['error']}"
        if not self.bar.tasks:  # what was there before tells nothing of the time that is left
            self.bar.add_task("", total=tally.points, completed=tally.known, counts=counts)
        self.bar.update(self.bar.task_ids[0], completed=tally.done, counts=counts)

    def end(self) -> None:
        """Clear the line."""
        self.bar.stop()


SWEEP_FLAGS = (
    click.Option(["--vary"], multiple=True, metavar="KEY=a,b|lo..hi*2",
                 help="A field (or the name of a flag above) and its values; repeatable."),
    click.Option(["--scenario"], multiple=True, metavar="NAME",
                 help="Only these scenarios of the file."),
    click.Option(["--engine"], type=click.Choice(("serial", "local", "dask", "ray")),
                 default="local", show_default=True, help="What solves the points."),
    click.Option(["--jobs"], type=click.IntRange(0, 4096), default=0, show_default=True,
                 help="Points at once; 0 takes every core."),
    click.Option(["--address"], default="", help="Running dask or ray cluster, tcp://HOST:PORT."),
    click.Option(["--time-limit"], metavar="60s", help="Stop the search of a point after this."),
    click.Option(["--resume"], is_flag=True, help="Go on with the last sweep of the -o file."),
    click.Option(["-o", "--output"], type=click.Path(), default="sweep.sqlite", show_default=True,
                 help="SQLite file of the points; what it holds is not solved again."),
    click.Option(["--export"], multiple=True, metavar="FILE", help="Also .csv, .jsonl, .parquet."),
)  # fmt: skip


@main.command("sweep", cls=Command, params=[*problem_params(), *SWEEP_FLAGS])
@click.pass_obj
def sweep_command(out: Out, /, problem: str | None, **given: Any) -> None:
    """Solve a problem under every combination of values; exit 8 where points failed.

    Values come from --vary, or from the sweep and scenarios sections of the problem file.
    """
    from solver.job.named import seconds
    from solver.report.files import check_targets
    from solver.report.stored import problem_path
    from solver.studies.engines import Engine
    from solver.studies.nonsense import refuse_nonsense
    from solver.studies.points import sweep_of
    from solver.studies.store import open_store
    from solver.studies.sweep import run_sweep
    from solver.studies.sweep_report import export, export_form, sweep_report

    flags = {s.field: given[s.name] for s in SETTINGS if given.get(s.name) not in (None, ())}
    for path in given["export"]:
        export_form(path)
        check_targets({"--output": given["output"], "--export": path}, problem_path(problem))
    engine = Engine(given["engine"], given["jobs"], given["address"],
                    seconds(given["time_limit"], "--time-limit"))  # fmt: skip
    spec = None if given["resume"] else sweep_of(problem, flags, given["vary"], given["scenario"])
    if spec is not None:
        refuse_nonsense(spec)
    bar, store = Bar(out), open_store(given["output"], must_exist=spec is None)
    try:
        result = run_sweep(spec or store.last_sweep(), store, engine, bar.show)
    except KeyboardInterrupt:
        again = f"shardplan sweep --resume -o {shlex.quote(given['output'])}"
        click.echo(f"interrupted: the same command goes on, or {again}", err=True)
        sys.exit(INTERRUPTED)
    finally:
        bar.end()
        store.close()
    for path in given["export"]:
        export(result, path)
    out.show(sweep_report(result))
    sys.exit(FAILED_POINTS if result.failed else 0)


CAPACITY_FLAGS = (
    click.Argument(["study"], metavar="STUDY.yaml"),
    click.Option(["--jobs"], type=click.IntRange(0, 4096), default=0, show_default=True,
                 help="Fronts searched at once; 0 takes every core."),
)  # fmt: skip


@main.command("capacity", cls=Command, params=[*CAPACITY_FLAGS])
@click.pass_obj
def capacity_command(out: Out, /, study: str, jobs: int) -> None:
    """Choose offers, nodes and starts for jobs; exit 3 where nothing keeps the limits.

    STUDY.yaml lists offers (hardware, dated price, nodes, contract) and jobs.
    """
    import datetime

    from solver.studies.capacity import recommend
    from solver.studies.capacity_file import read_study
    from solver.studies.capacity_report import capacity_report
    from solver.studies.engines import fronts_in

    asked = read_study(study)
    found = recommend(asked, asked.spec.today or datetime.date.today(), fronts_in(jobs))
    report = capacity_report(found)
    out.show(report)
    sys.exit(EXIT[report.data["status"]])


REPORT_FLAGS = (
    click.Argument(["result"], metavar="PLAN.json|SWEEP.sqlite"),
    click.Option(["--html"], metavar="FILE", help="Write a self-contained page; else to stdout."),
    click.Option(["--plot"], metavar="FILE", help="Write the main figure as .png or .svg."),
    click.Option(["--sensitivity/--no-sensitivity"], default=True, show_default=True,
                 help="What less and more of each input does: solves about ten times."),
    click.Option(["--flips"], is_flag=True, help="Add where another plan becomes best: slower."),
)  # fmt: skip


@main.command("report", cls=Command, params=[*REPORT_FLAGS], forms=())
@click.pass_obj
def report_command(
    out: Out, /, result: str, html: str | None, plot: str | None, sensitivity: bool, flips: bool
) -> None:
    """Write a plan JSON or a sweep as one HTML page: no network, no script."""
    from solver.report.files import check_targets, write_whole
    from solver.studies.pages import html_of
    from solver.studies.plots import plot_of

    def more(problem: PlanningProblem) -> Any:
        from solver.answers.page import answer_sections

        return answer_sections(problem, sensitivity, flips)

    targets = {"--html": html, "--plot": plot}
    check_targets({flag: path for flag, path in targets.items() if path is not None}, result)
    if plot is not None:
        plot_of(result, plot)
    if html is not None:
        write_whole(html, html_of(result, more))
    elif plot is None:
        write(html_of(result, more), color=False)


def look_up(
    group: click.Group, name: str, target: str, text: str, *params: click.Parameter, **forms: Any
) -> None:
    """Add a command that shows what ``module:function`` of solver.report says of its params."""

    def show(out: Out, /, **given: Any) -> None:
        module, _, function = target.partition(":")
        out.show(getattr(importlib.import_module(f"solver.report.{module}"), function)(**given))

    callback = click.pass_obj(show)
    group.add_command(Command(name, callback=callback, params=[*params], help=text, **forms))


main.add_command(models := click.Group("models", help="Known models, and models of your own."))
main.add_command(hardware := click.Group("hardware", help="Known GPUs."))
main.add_command(topology := click.Group("topology", help="Clusters as the planner sees them."))
SEQ_LEN = click.Option(["--seq-len"], type=click.IntRange(1, 10**8), default=4096,
                       show_default=True, help="Sequence length of the FLOPs.")  # fmt: skip
WHAT = click.Argument(["what"], type=click.Choice(("problem", "plan")))
MODEL, CONFIG, GPU, CLUSTER = (click.Argument([n]) for n in ("model", "config", "gpu", "cluster"))
GRAPHS = ("tree", *FORMATS, "dot", "graphml", "svg")
SHOW_MODEL = "Show the parameters by block and the FLOPs of an id or a Hugging Face config.json."
IMPORT = "Turn a Hugging Face config.json into the model section of a problem file."
FILES = click.Argument(["files"], nargs=-1, required=True)
IMPORT_FLAGS = (
    click.Option(["--format", "source"], metavar="NAME", help="What the files are; detected."),
    click.Option(["--gpu"], help="GPU id; NVLink's bandwidth depends on it."),
    click.Option(["--nodes"], type=click.IntRange(1), help="Nodes, where no file counts them."),
    click.Option(["--gpus-per-node"], type=click.IntRange(1), help="In place of the files'."),
)
RUNS = click.Argument(["runs"], metavar="RUNS.csv")
CALIBRATE = "Fit a profile of your own to three or more measured steps."
CALIBRATE_FLAGS = (
    click.Option(["--profile", "stack"], metavar="NAME", help="Shipped profile to start from."),
    click.Option(["-o", "--output"], metavar="FILE", help="Write the profile: --profile FILE."),
)
CLUSTER_OF = "Turn what nvidia-smi, NCCL, Slurm, ibnetdiscover and others print into a cluster."
RANK_FILE = (
    "Write which rank of a plan JSON runs on which host: a Slurm or Open MPI file, or node order."
)
TIMES = "Show how long collectives take at each level, from measured groups like it."
TRANSPORT = click.Option(["--transport"], type=click.Choice(("rdma", "efa", "tcp")), default="rdma",
                         show_default=True, help="What carries the network.")  # fmt: skip
PLAN = click.Argument(["plan"], metavar="PLAN.json")
RANK_FLAGS = (
    click.Option(["--hosts"], required=True, metavar="FILE", help="Host names, leaf after leaf."),
    click.Option(["--to"], type=click.Choice(("slurm", "openmpi", "torchrun")), default="slurm",
                 show_default=True, help="Whose file."),
    click.Option(["--rank"], type=click.IntRange(1), default=1, show_default=True,
                 help="Which plan of the file."),
    click.Option(["--free"], metavar="LIST", help="Nodes to choose from, e.g. node[03-12]."),
)  # fmt: skip
TARGETS = ("megatron", "megatron-bridge", "torchtitan", "deepspeed", "accelerate", "torchrun",
           "slurm", "skypilot")  # fmt: skip
EXPORT = "Write a plan JSON for a framework or a scheduler; exit 7 where it cannot say the plan."
EXPORT_FLAGS = (
    click.Option(["--to"], type=click.Choice(TARGETS), required=True, help="For whom."),
    RANK_FLAGS[2],
    click.Option(["--target-version"], metavar="0.3.0", help="Release whose names are used."),
    click.Option(["--check"], is_flag=True, help="Hold it against the framework's own parser."),
    click.Option(["-o", "--output"], metavar="FILE", help="Write it to a file besides."),
    click.Option(["--name"], default="train", show_default=True, help="Of the job."),
    click.Option(["--script"], metavar="FILE", help="Training script in place of the usual one."),
    click.Option(["--time"], metavar="24h", help="Time limit in place of the prediction's."),
    click.Option(["--margin"], metavar="20%", help="Added to the prediction."),
    click.Option(["--max-time"], metavar="2d", help="Longest job of the queue: cut into several."),
    click.Option(["--save-every"], metavar="2h", help="Between checkpoints; else the optimum."),
)
TRACE = "Draw one step of a plan JSON as a Chrome trace, for ui.perfetto.dev or chrome://tracing."
TRACE_FLAGS = (
    RANK_FLAGS[2],
    click.Option(["--microbatches"], type=click.IntRange(1, 100_000), help="In place of all."),
    click.Option(["-o", "--output"], metavar="FILE", help="Write the trace to a file besides."),
)
LEVELS = "Show the communication levels of 8x8xH100 or of a problem file."
look_up(models, "list", "catalogue:list_models", "List the known models.")
look_up(models, "show", "catalogue:show_model", SHOW_MODEL, MODEL, SEQ_LEN)
look_up(models, "import", "catalogue:import_model", IMPORT, CONFIG, forms=YAML)
look_up(hardware, "list", "catalogue:list_hardware", "List the known GPUs.")
look_up(hardware, "show", "catalogue:show_hardware", "Show figures with their sources.", GPU)
look_up(topology, "show", "machine:show_topology", LEVELS, CLUSTER, forms=GRAPHS)
look_up(topology, "import", "importing:import_topology", CLUSTER_OF, FILES, *IMPORT_FLAGS, forms=())
look_up(
    topology, "ranks", "ranks:write_ranks", RANK_FILE, PLAN, *RANK_FLAGS, forms=("text", "json")
)
look_up(topology, "collectives", "collective_times:show_collectives", TIMES, CLUSTER, TRANSPORT)
look_up(main, "calibrate", "calibrating:calibrate_report", CALIBRATE, RUNS, *CALIBRATE_FLAGS,
        forms=(*FORMATS, "yaml"))  # fmt: skip
look_up(main, "export", "launching:export_plan", EXPORT, PLAN, *EXPORT_FLAGS,
        forms=("text", "json"))  # fmt: skip
look_up(main, "trace", "launching:trace_plan", TRACE, PLAN, *TRACE_FLAGS,
        forms=("trace", "table", "json"))  # fmt: skip
look_up(main, "schema", "schemas:show_schema", "Print a JSON Schema.", WHAT, forms=("json",))


def solve_main() -> None:
    """Run the solve command, the console script ``solve``."""
    solve_command.main(prog_name="solve")
