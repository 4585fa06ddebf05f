"""Filling the example's inbox from the installed scikit-image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fill
import pytest
from photo_exif import camera
from photo_files import list_inbox
from photo_images import NotAPhoto, inspect
from PIL import Image

from tests.example.making import sha_of, tree


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    inbox = tmp_path_factory.mktemp("filled") / "inbox"
    fill.main(inbox)
    return inbox


def test_fill_adds_twenty_five_pictures_and_three_bad_files(filled: Path) -> None:
    bad = {}
    stamped = []
    names = sorted(file.path for file in list_inbox(filled, {}))
    for name in names:
        try:
            facts = inspect(filled / name, sha_of(filled / name))
        except NotAPhoto as problem:
            bad[name] = str(problem)
        else:
            assert min(facts.width, facts.height) >= 14
            stamped += [name] if camera(facts.exif) else []
    assert len(names) == 28
    assert bad == {
        "corrupt.jpg": "the picture is damaged or cut off: image file is truncated",
        "empty.jpg": "the file is empty",
        "text.jpg": "it is a text file that begins with “Shopping list: film, batteries, a new …”",
    }
    assert len(stamped) == 8
    assert len({sha_of(filled / name) for name in names}) == 28


def test_fill_again_changes_nothing_and_elsewhere_gives_the_same_bytes(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(filled)
    fill.main(filled)
    assert tree(filled) == before
    fill.main(tmp_path / "other")
    other = tree(tmp_path / "other")
    other[fill.ADDED], before[fill.ADDED] = ("", 0), ("", 0)
    assert other == before
    assert [line.split(", ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "Inbox: 0 pictures of scikit-image and 0 bad files added",
        "Inbox: 25 pictures of scikit-image and 3 bad files added",
    ]


def test_fill_leaves_alone_what_is_there_and_what_was_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "moon.jpg").write_bytes(b"mine")
    fill.main(tmp_path)
    (tmp_path / "coffee.jpg").unlink()
    (tmp_path / "own.jpg").write_bytes(b"mine too")
    fill.main(tmp_path)
    assert (tmp_path / "moon.jpg").read_bytes() == b"mine"
    assert not (tmp_path / "coffee.jpg").exists()
    assert capsys.readouterr().out.splitlines() == [
        f"Inbox: 24 pictures of scikit-image and 3 bad files added, 28 files in {tmp_path}",
        f"Inbox: 0 pictures of scikit-image and 0 bad files added, 28 files in {tmp_path}",
    ]


def test_fill_adds_a_photo_bomb_where_one_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for said in ("Inbox: bomb.png added", "Inbox: bomb.png is there already"):
        fill.main(tmp_path, bomb=True)
        assert capsys.readouterr().out.splitlines()[1:] == [said]
    assert (tmp_path / "bomb.png").stat().st_size < 200_000
    with Image.open(tmp_path / "bomb.png") as bomb:  # its header; nobody decodes it here
        assert (bomb.format, bomb.mode, bomb.size) == ("PNG", "1", (30_000, 30_000))


def test_fill_without_scikit_image_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Callable[[str], None] = lambda name: None  # noqa: E731
    monkeypatch.setattr("importlib.util.find_spec", nothing)
    with pytest.raises(SystemExit, match=r"pip install scikit-image"):
        fill.main(tmp_path)
    assert list(tmp_path.iterdir()) == []
