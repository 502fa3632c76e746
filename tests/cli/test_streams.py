"""A stdout that takes nothing, lacks characters or is not there; an interrupt at any moment."""

from __future__ import annotations

import pytest

from tests.cli.running import shell

FULL = """
import errno, io, os, sys
class Full(io.TextIOWrapper):
    def flush(self): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
sys.stdout = Full(io.BytesIO(), encoding="utf-8", write_through=False)
"""


@pytest.mark.parametrize(
    "args", [("--help",), ("solve", "--help"), ("models", "list"), ("schema", "plan"), ("models",)]
)
def test_a_full_disk_is_2_in_one_line(args: tuple[str, ...]) -> None:
    code = f"{FULL}import cli\ntry:\n    cli.main()\nfinally:\n    sys.stdout = sys.__stdout__"
    result = shell(*args, code=code)
    assert result.returncode == 2, result.stderr
    if args != ("models",):  # its help goes to stderr
        assert result.stderr.count("\n") == 1
        assert "error[SP100] stdout: cannot be written: No space left" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("how", ["sys.stdout = None", "sys.stdout.close()"])
@pytest.mark.parametrize("args", [("solve", "--help"), ("models", "list")])
def test_no_stdout_is_quiet(how: str, args: tuple[str, ...]) -> None:
    result = shell(*args, code=f"import sys\n{how}\nimport cli\ncli.main()")
    assert (result.returncode, result.stderr) == (141, "")


def test_no_stdout_keeps_the_code_of_an_error() -> None:
    result = shell(
        "models", "show", "x", code="import sys; sys.stdout = None; import cli; cli.main()"
    )
    assert result.returncode == 2
    assert "error[SP102]" in result.stderr


def test_help_whose_reader_went_away_is_quiet() -> None:
    code = "import cli, os\nr, w = os.pipe()\nos.close(r)\nos.dup2(w, 1)\ncli.main()"
    for args in (("--help",), ("models", "list")):
        result = shell(*args, code=code)
        assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_stdout_lacks(encoding: str) -> None:
    for args in (("topology", "show", "8x8xH100"), ("solve", "--help"), ("solve", "--model", "×")):
        result = shell(*args, PYTHONIOENCODING=encoding)
        assert result.returncode == (2 if "×" in args else 0), result.stderr
        assert "internal error" not in result.stderr


@pytest.mark.parametrize("module", ["click", "solver.job.settings", "solver.report", "numpy"])
def test_an_interrupt_while_modules_load(module: str) -> None:
    code = f"""
import sys
class Stop:
    def find_spec(self, name, *_):
        if name == {module!r}: raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
import cli
cli.main()
"""
    result = shell("solve", code=code)
    assert result.returncode == 130, result.stderr
    assert "Traceback" not in result.stderr


def test_an_interrupt_while_arguments_are_read() -> None:
    code = """
import cli
def stopped(*_, **__): raise KeyboardInterrupt
cli.solve_command.parse_args = stopped
cli.main()
"""
    result = shell("solve", code=code)
    assert result.returncode == 130
    assert result.stderr.split() == ["interrupted"]
