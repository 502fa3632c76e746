"""Where a result is written to: regular files, links, pipes, and what cannot be written."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

import solver.search.search
from solver.report.files import check_targets, write_whole
from tests.cli.running import SMALL, run
from topology.errors import InputError


def test_a_link_is_kept_and_its_target_written(tmp_path: Path) -> None:
    for name in ("old.json", "new.json"):
        (tmp_path / "a").mkdir(exist_ok=True)
        link = tmp_path / f"link-{name}"
        link.symlink_to(Path("a") / name)
        (tmp_path / "a" / "old.json").write_text("before")
        write_whole(str(link), "after")
        assert link.is_symlink()
        assert (tmp_path / "a" / name).read_text() == "after"
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["new.json", "old.json"]


def test_a_pipe_is_written_straight(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    check_targets({"--output": str(pipe)}, "problem.yaml")
    write_whole(str(pipe), "text")
    reader.join(10)
    assert got == ["text"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.ENOTDIR])
def test_a_failure_leaves_what_stood_there(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    file.write_text("before")

    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fails)
        with pytest.raises(InputError, match=r"SP100.*cannot be written.*Name another"):
            write_whole(str(file), "after")
        assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
        patch.setattr(Path, "unlink", fails)  # cleaning up fails too
        with pytest.raises(InputError, match=os.strerror(number)):
            write_whole(str(file), "after")
    assert file.read_text() == "before"


@pytest.mark.parametrize("flag", ["-o", "--stats"])
@pytest.mark.parametrize(
    "name", ["", ".", "no/such.json", "file/plan.json", "x" * 300, "loop", "new/"]
)
def test_it_is_refused_before_the_search(
    flag: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(solver.search.search, "solve", None)  # calling it would be a bug
    Path("file").write_text("text")
    Path("loop").symlink_to("loop")
    result = run("solve", *SMALL, flag, name)
    assert result.exit_code == 2, result.output
    assert "error[SP100]" in result.stderr
    assert "cannot be written" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "loop"]


def test_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(InputError, match="not writable"):
        check_targets({"--output": str(tmp_path / "plan.json")}, "problem.yaml")


def test_two_results_and_the_problem_need_names_of_their_own(tmp_path: Path) -> None:
    one, link = tmp_path / "one.json", tmp_path / "link.json"
    link.symlink_to(one)
    result = run("solve", *SMALL, "-o", str(one), "--stats", str(link))
    assert result.exit_code == 2
    assert "also --output" in result.stderr
    assert run("solve", *SMALL, "--top=1", "-o", str(one)).exit_code == 0
    before = one.read_text()
    result = run("solve", str(one), "-o", str(link))
    assert result.exit_code == 2
    assert "the problem file" in result.stderr
    assert one.read_text() == before
    json.loads(before)
