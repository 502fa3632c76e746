"""The edge of the command line: whatever stops it, it ends in an exit code without a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click

BUG, BAD_INPUT, INTERRUPTED, NO_READER = 1, 2, 130, 141
DEBUG = "SHARDPLAN_DEBUG"


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
    from topology.errors import InputError  # noqa: PLC0415 - --help stays fast

    if isinstance(error, InputError):
        click.echo(str(error), err=True)
        if form == "json":
            from solver.report.faults import errors_json  # noqa: PLC0415

            click.echo(errors_json(error), nl=False)
        return BAD_INPUT
    if os.environ.get(DEBUG) or verbose > 1:
        traceback.print_exception(error)
    text = " ".join(f"internal error: {type(error).__name__}: {error}".split())[:300]
    click.echo(f"{text}. A bug: please report it with the input ({DEBUG}=1: where).", err=True)
    return BUG


class Entry(click.Command):
    """What the shell starts: it always ends in an exit code, never in a traceback."""

    def main(self, *args: Any, standalone_mode: bool = True, **given: Any) -> Any:
        """Run with the arguments of the process."""
        start: Callable[..., Any] = super().main
        if not standalone_mode:
            return start(*args, standalone_mode=False, **given)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # for × and –
        code: Any = BAD_INPUT
        with contextlib.suppress(OSError):  # stderr is gone too: nobody to tell
            code = _code(lambda: start(*args, standalone_mode=False, **given))
        sys.exit(code)
