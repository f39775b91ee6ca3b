"""What a disk, a machine or another process refuses ends in one line, before the work where that can be known."""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conoscope.capture.loading import LoadedModel
from conoscope.cli import main
from conoscope.common.claiming import CLAIM, claims, hold, is_held
from conoscope.common.errors import OutputError
from conoscope.common.writing import atomic, write_text
from conoscope.measuring.pipeline import measure
from conoscope.results.store import NumberedFolder
from killed import COMMANDS, Changes, Killed, digits, in_child, no_space, run, watching

FEW = 3
"""How many refusals of each command `make test` tries."""


def refused_at(killed: Killed, number: int) -> str | None:
    """What is wrong when the disk refuses a change and all that come after; None if nothing is."""
    here, told = killed.fresh(), killed.tmp / "told"

    def work() -> int:
        changes = Changes(here / "out", number, no_space)
        with watching(changes, after_opening=False):
            return run(killed.words, here)

    code, said = in_child(work, told), told.read_text(encoding="utf-8")
    lines = [line for line in said.splitlines() if line.startswith("conoscope:") and "measured" not in line]
    if "Traceback" in said or code not in (0, 2) or (code == 2 and "No space left" not in lines[-1]):
        return f"exit code {code}: {said}"
    if code == 2 and (again := in_child(lambda: run(killed.words, here), told)) != 0:
        return f"exit code {again} afterwards: {told.read_text(encoding='utf-8')}"
    found, expected = digits(here), digits(killed.tmp / "expected")
    return None if found == expected else f"other files or digits: {sorted(found.keys() ^ expected.keys())}"


def refusals(killed: Killed, few: int | None) -> list[str]:
    log = killed.changes()
    failed = []
    for number in range(1, len(log) + 1, 1 if few is None else max(1, len(log) // few)):
        if (wrong := refused_at(killed, number)) is not None:
            failed.append(f"{number} of {len(log)}, {log[number - 1]}: {wrong}")
    return failed


@pytest.mark.forks
@pytest.mark.parametrize("killed", COMMANDS, indirect=True)
def test_a_full_disk_is_told_in_one_line_and_afterwards_the_run_goes_on(killed: Killed) -> None:
    assert not refusals(killed, FEW)


@pytest.mark.forks
@pytest.mark.campaign
@pytest.mark.parametrize("killed", COMMANDS, indirect=True)
def test_a_full_disk_at_any_change_is_told_in_one_line(killed: Killed) -> None:
    assert not refusals(killed, None)


@pytest.mark.forks
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="only root can mount a small disk")
@pytest.mark.parametrize("kilobytes", [0, 8, 24, 60])
@pytest.mark.parametrize("name", ["measure", "merge", "ablate", "train", "report"])
def test_a_disk_that_is_really_full_is_told_in_one_line(name: str, kilobytes: int, begin: Path, tmp_path: Path) -> None:
    here = Path(shutil.copytree(begin, tmp_path / "here"))
    (here / "out").mkdir(exist_ok=True)
    mounted = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(here / "out")]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        # What is there already is in a hidden file, as what a killed process left; the disk has room for this many kilobytes.
        filler = here / "out" / ".conoscope-filler"
        filler.write_bytes(bytes(1024 * (64 - 4 - kilobytes)) if kilobytes < 60 else b"")
        filler.rename(here / "out" / ".hidden") if name == "report" else None
        code = in_child(lambda: run(COMMANDS[name].split(), here), tmp_path / "told")
    finally:
        subprocess.run(["umount", str(here / "out")], check=True)
    said = (tmp_path / "told").read_text(encoding="utf-8")
    assert "Traceback" not in said
    assert code in (0, 2), said
    assert code == 0 or "No space left" in said or "no space is left" in said, said


def drop_privileges() -> None:
    """Take from this process what root may do beyond other users; Python's own files may be readable by root alone."""
    if os.geteuid() == 0:
        header, none = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *(0,) * 6)
        assert ctypes.CDLL(None, use_errno=True).capset(header, none) == 0


@pytest.mark.forks
@pytest.mark.skipif(sys.platform != "linux", reason="privileges are dropped as Linux does it")
@pytest.mark.parametrize("name", ["measure", "ablate", "merge", "train", "report"])
def test_a_folder_without_permission_is_refused_before_the_work(name: str, begin: Path, tmp_path: Path) -> None:
    here = Path(shutil.copytree(begin, tmp_path / "here"))
    (here / "out").mkdir(exist_ok=True)
    (here / "out").chmod(0o555)

    def work() -> int:
        drop_privileges()
        return run(COMMANDS[name].split(), here)

    code, said = in_child(work, tmp_path / "told"), (tmp_path / "told").read_text(encoding="utf-8")
    assert (code, "Traceback" in said) == (2, False), said
    assert "Permission denied" in said.splitlines()[-1]
    assert "measured" not in said
    assert "epoch" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this machine has no /dev/full")
@pytest.mark.parametrize("words", ["list measures", "measure model texts.csv -m sim -o printed", "list maps --json"])
def test_output_that_cannot_be_printed_is_told_in_one_line(words: str, begin: Path, tmp_path: Path) -> None:
    here = Path(shutil.copytree(begin, tmp_path / "here"))
    with open("/dev/full", "w", encoding="utf-8") as full:
        given = [sys.executable, "-m", "conoscope", *words.split()]
        done = subprocess.run(given, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", cwd=here, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "our output cannot be printed: No space left on device" in done.stderr.splitlines()[-1]


@pytest.mark.forks
def test_a_second_process_is_refused_at_once(begin: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    ready = tmp_path / "ready"

    def work() -> int:
        with claims():
            hold(tmp_path / "out")
            ready.touch()
            time.sleep(60)
        return 0

    child = os.fork()
    if not child:
        work()
        os._exit(0)
    try:
        while not ready.exists():
            time.sleep(0.01)
        assert is_held(tmp_path / "out")
        with (
            pytest.raises(OutputError, match=rf"is being written by another process \({child} on .*\); wait until it ends, or"),
            claims(),
        ):
            hold(tmp_path / "out")
        for words in ("measure model texts.csv -m sim", "merge part-1 part-2", "train bistro --limit 9 --epochs 1"):
            code = in_child(lambda words=words: run([*words.split(), "-o", str(tmp_path / "out")], begin), tmp_path / "told")
            assert code == 2
            assert "is being written by another process" in (tmp_path / "told").read_text(encoding="utf-8")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert (tmp_path / "out" / CLAIM).exists()
    assert not is_held(tmp_path / "out")
    with claims():
        hold(tmp_path / "out")
        assert (tmp_path / "out" / CLAIM).read_text(encoding="utf-8").startswith(f"{os.getpid()} ")
    assert not (tmp_path / "out" / CLAIM).exists()


@pytest.mark.forks
def test_a_claim_without_locks_is_taken_over_once_its_process_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr("conoscope.common.claiming.fcntl", None)
    dead = in_child(lambda: 0)
    assert dead == 0
    (tmp_path / CLAIM).write_text(f"{os.getppid()} {socket.gethostname()}\n", encoding="utf-8")
    with pytest.raises(OutputError, match="is being written by another process"), claims():
        hold(tmp_path)
    (tmp_path / CLAIM).write_text(f"{2**22 - 1} {socket.gethostname()}\n", encoding="utf-8")
    with claims():
        hold(tmp_path)
    assert not (tmp_path / CLAIM).exists()


def test_another_run_under_way_in_the_first_folder_has_the_next_one(pure: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    taken = os.open(tmp_path / "out" / CLAIM, os.O_RDWR | os.O_CREAT)
    import fcntl

    fcntl.flock(taken, fcntl.LOCK_EX)
    folder = NumberedFolder(tmp_path / "out")
    measure(pure, ["a good place", "no soup"], ["sim"], out=folder)
    os.close(taken)
    assert folder.path == tmp_path / "out-2"


@pytest.mark.forks
def test_files_have_the_mode_of_their_neighbours(begin: Path, tmp_path: Path) -> None:
    here = Path(shutil.copytree(begin, tmp_path / "here"))

    def work() -> int:
        os.umask(0o027)
        return max(run(COMMANDS[name].replace(" out", f" {name}").split(), here) for name in ("measure", "ablate", "train"))

    assert in_child(work, tmp_path / "told") == 0, (tmp_path / "told").read_text(encoding="utf-8")
    modes = {path: path.stat().st_mode & 0o777 for name in ("measure", "ablate", "train") for path in (here / name).rglob("*")}
    assert len(modes) > 20
    assert {str(path): oct(mode) for path, mode in modes.items() if path.is_file() and mode != 0o640} == {}


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    (tmp_path / "a.txt").chmod(0o604)
    with atomic(tmp_path / "a.txt") as beside:
        beside.unlink()
        beside.touch(mode=0o600)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o604


EDITS = {"a list": "[]", "a number": "3", "null": "null", "empty": "{}", "deep": "[" * 99_999, "not UTF-8": "\udcff"}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("name", ["provenance.json", "tally.json", "tables.json"])
def test_json_of_other_kinds_ends_in_one_line_or_is_done_without(
    name: str,
    edit: str,
    begin: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(shutil.copytree(begin / "part-1", tmp_path / "part-1"))
    (folder / name).write_bytes(edit.encode("utf-8", "surrogateescape"))
    for words in (["merge", folder, begin / "part-2", "-o", tmp_path / "out"], ["report", folder, "-o", tmp_path / "r.html"]):
        code = main([str(word) for word in words])
        said = capsys.readouterr().err
        assert code in (0, 2)
        assert "Traceback" not in said
        assert code == 0 or len([line for line in said.splitlines() if line.startswith("conoscope: ")]) == 1


@pytest.mark.parametrize("key", ["model", "corpus", "measures", "options", "shards", "seen"])
@pytest.mark.parametrize("value", [None, 3, "text", [], {}, [3], {"a": 1}], ids=str)
def test_a_provenance_without_digest_and_with_a_wrong_value_gives_no_traceback(
    key: str,
    value: object,
    begin: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = Path(shutil.copytree(begin / "part-1", tmp_path / "part-1"))
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    del provenance["blake2b"]
    (folder / "provenance.json").write_text(json.dumps({**provenance, key: value}), encoding="utf-8")
    for words in (["merge", folder, begin / "part-2", "-o", tmp_path / "out"], ["report", folder, "-o", tmp_path / "r.html"]):
        code = main([str(word) for word in words])
        assert code in (0, 2), capsys.readouterr().err
