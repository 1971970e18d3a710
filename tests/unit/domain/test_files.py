"""Files that users name are replaced whole: whatever interrupts a write, the old file is still there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import reticent as rt
from reticent.domain.files import replacing, write_file
from reticent.errors import ReticentError


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.release", b"old")

    def interrupted() -> None:
        with replacing(path) as draft:
            draft.write_bytes(b"half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, domain = tmp_path / "a.toml", rt.Domain(a=3)
    domain.write(path)
    old = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReticentError, match="No space left"):
        rt.Domain(a=4, b=5).write(path)
    with pytest.raises(ReticentError, match="No space left"):
        write_file(tmp_path / "a.toml", b"new")
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_links_and_permissions_of_what_is_replaced_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_file(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_device_is_written_in_place() -> None:
    write_file(Path(os.devnull), b"x")
    assert not Path(os.devnull).is_file()


def test_a_name_as_long_as_allowed_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".html")
    write_file(path, b"1")
    write_file(path, b"2")
    assert path.read_bytes() == b"2"
