"""Help: golden texts, the reference in docs/cli.md, and how fast it starts."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import cli
from tests.cli.running import ROOT, run, shell

GOLDEN = Path(__file__).parent / "golden"


def commands(
    group: click.Group = cli.main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = sorted(commands(), key=lambda entry: entry[0])


@pytest.mark.parametrize("path", [path for path, _ in COMMANDS], ids=" ".join)
def test_golden_help(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Set SHARDPLAN_GOLDEN=1 to write the texts anew."""
    monkeypatch.setenv("COLUMNS", "100")
    text = run(*path, "--help").stdout
    file = GOLDEN / f"{'-'.join(path)}.txt"
    if os.environ.get("SHARDPLAN_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def test_no_golden_text_is_left_over() -> None:
    assert {f.stem for f in GOLDEN.iterdir()} == {"-".join(path) for path, _ in COMMANDS}


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) for p, _ in COMMANDS])
def test_every_command_and_flag_is_in_the_reference(
    path: tuple[str, ...], command: click.Command
) -> None:
    reference = (ROOT / "docs" / "cli.md").read_text()
    assert f"`shardplan {' '.join(path)}" in reference
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, param.name
            assert any(f"`{flag}" in reference for flag in param.opts), param.opts


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("solve", "--help"),
        ("models", "show", "llama3-70b"),
        ("hardware", "list"),
        ("hardware", "show", "h100"),
    ],
)
def test_does_not_load_the_solver_or_networkx(args: tuple[str, ...]) -> None:
    loaded = _loaded(*args)
    assert not {"ortools", "networkx"} & loaded
    if args[-1] == "--help":
        assert not {"pydantic", "numpy", "rich", "yaml"} & loaded


@pytest.mark.parametrize("form", ["tree", "table", "json", "dot", "graphml"])
def test_topology_show_does_not_load_the_solver(form: str) -> None:
    assert "ortools" not in _loaded("topology", "show", "8x8xH100", "--format", form)


def _loaded(*args: str) -> set[str]:
    code = (
        "import sys, cli\n"
        "try: cli.main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(' '.join({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    result = shell(*args, code=code)
    assert result.returncode == 0, result.stderr
    return set(result.stderr.split())


def test_version() -> None:
    try:
        importlib.metadata.version("shardplan")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not installed")
    assert run("--version").stdout.startswith("shardplan, version ")


def test_the_solve_script_is_the_solve_command() -> None:
    result = shell("--help", code="import cli; cli.solve_main()")
    assert result.returncode == 0
    assert result.stdout.startswith("Usage: solve [OPTIONS] [PROBLEM.yaml]")


def test_the_readme_has_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    venv = "python3 -m venv .venv && .venv/bin/pip install -q "
    assert f"{venv}. && .venv/bin/solve --objective cost examples/70b-64xh100.yaml" in lines
    assert f'{venv}-e ".[dev]" && .venv/bin/pytest -q' in lines


def test_the_example_is_the_packaged_one() -> None:
    packaged = ROOT / "solver" / "job" / "example"
    for file in ("70b-64xh100.yaml", "llama3-70b/config.json"):
        assert (ROOT / "examples" / file).read_text() == (packaged / file).read_text()
