"""The example's inbox, database, clean-up and contact sheet. No workfleet in here."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import fill
import pytest
from photo_files import File, list_inbox, write_atomically
from photo_images import SIZES, Facts, thumbnail_name
from photo_keeping import Keeper
from photo_library import Counts, DonePhoto, Library, Rejected
from photo_page import LIMIT, ContactSheet, render
from photo_settings import HERE, PhotoSettings
from PIL import Image

from tests.example.making import do, save, sha_of, small

NO_FACTS = Facts(4, 3, "PNG", "#102030")


# The inbox.


def test_the_inbox_lists_pictures_everywhere_and_nothing_hidden(settings: PhotoSettings) -> None:
    inbox = settings.inbox
    shas = {
        name: save(inbox / name, small()) for name in ("b.JPEG", "a.png", "trip/day 1/c.webp", ".d.png", ".e/f.png")
    }
    (inbox / "notes.txt").write_text("no picture")
    assert [(file.path, file.sha) for file in list_inbox(inbox, {})] == [
        (name, shas[name]) for name in ("a.png", "b.JPEG", "trip/day 1/c.webp")
    ]


def test_a_file_is_read_again_only_when_it_changed(settings: PhotoSettings) -> None:
    path = settings.inbox / "a.png"
    save(path, small())
    known = {file.path: file for file in list_inbox(settings.inbox, {})}
    times = path.stat()
    path.write_bytes(bytes(times.st_size))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert list_inbox(settings.inbox, known) == list(known.values())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    assert [file.sha for file in list_inbox(settings.inbox, known)] == [sha_of(path)] != [known["a.png"].sha]


def test_one_bad_name_does_not_hide_the_others(settings: PhotoSettings, caplog: pytest.LogCaptureFixture) -> None:
    save(settings.inbox / "a.png", small())
    bad = os.fsencode(settings.inbox) + b"/caf\xe9.png"
    try:
        Path(os.fsdecode(bad)).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (settings.inbox / "broken.png").symlink_to("nowhere.png")
    assert [file.path for file in list_inbox(settings.inbox, {})] == ["a.png"]
    assert ["is not UTF-8" in line for line in caplog.messages] == [True]


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"old", temporary=tmp_path / "tmp")
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(HERE)!r})
from pathlib import Path
from photo_files import write_atomically
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(Path({str(tmp_path / "a")!r}), b"new", temporary=Path({str(tmp_path / "tmp")!r}))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == -signal.SIGKILL
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.read_bytes() for path in (tmp_path / "tmp").iterdir()] == [b"new"]


# The library.


def test_a_photo_is_its_content(settings: PhotoSettings, library: Library, keeper: Keeper) -> None:
    save(settings.inbox / "b.png", small())
    save(settings.inbox / "a.png", small())
    save(settings.inbox / "c.png", small("blue"))
    first = keeper.look()
    assert [photo.path for photo in first] == ["a.png", "c.png"]
    assert keeper.look() == first
    (settings.inbox / "a.png").unlink()
    (settings.inbox / "c.png").rename(settings.inbox / "d.png")
    again = keeper.look()
    assert [photo.path for photo in again] == ["b.png", "d.png"]
    assert [photo.key for photo in again] == [photo.key for photo in first]


def test_a_photo_is_done_once_however_many_jobs_finish_it(
    settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    save(settings.inbox / "a.png", small())
    (photo,) = keeper.look()
    with ThreadPoolExecutor(8) as threads:
        started = list(threads.map(lambda _: library.start(photo.key), range(8)))
        finished = list(threads.map(lambda _: library.finish(photo.key, NO_FACTS), range(8)))
    assert (started.count(True), finished.count(True)) == (8, 1)
    assert not library.start(photo.key)
    library.reject(photo.key, "too late")
    library.forget(photo.key)
    assert library.counts() == Counts(new=0, done=1, rejected=0)
    with closing(sqlite3.connect(settings.database)) as db:
        assert db.execute("SELECT path, state, runs, width, reason FROM photos").fetchall() == [
            ("a.png", "done", 8, 4, None)
        ]
    assert keeper.look() == []


def test_what_was_rejected_is_not_offered_again_but_may_be_retried(
    settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    (settings.inbox / "a.png").write_bytes(b"")
    (photo,) = keeper.look()
    do(settings, library, photo)
    assert (keeper.look(), library.rejected(limit=9)) == ([], [Rejected("a.png", "the file is empty")])
    assert library.start(photo.key)
    assert library.finish(photo.key, NO_FACTS)
    assert library.counts() == Counts(new=0, done=1, rejected=0)


def test_a_half_copied_file_is_another_photo_when_it_is_whole(
    settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    path = settings.inbox / "a.png"
    save(path, Image.radial_gradient("L"))
    whole = path.read_bytes()
    path.write_bytes(whole[:999])
    (half,) = keeper.look()
    do(settings, library, half)
    assert library.counts() == Counts(new=0, done=0, rejected=1)
    path.write_bytes(whole)
    (photo,) = keeper.look()
    do(settings, library, photo)
    assert library.counts() == Counts(new=0, done=1, rejected=0)
    assert library.rejected(limit=9) == []


def test_a_failing_transaction_changes_nothing(library: Library) -> None:
    before = File("a.png", 1, 1, "s")
    assert library.record([before]) == 1
    with pytest.raises(sqlite3.IntegrityError):
        library.record([File("b.png", 1, 1, "t"), File("b.png", 1, 1, "u")])
    assert library.files() == {"a.png": before}
    assert library.shas() == {"s"}


# The clean-up.


def test_clean_up_removes_what_lost_its_original_and_nothing_else(
    settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    colours = {"a.png": "red", "b.png": "green", "c.png": "blue"}
    shas = {name: save(settings.inbox / name, small(colour)) for name, colour in colours.items()}
    for photo in keeper.look():
        do(settings, library, photo)
    (settings.thumbs / "0123456789abcdef-small.jpg").write_bytes(b"of a row that was removed by hand")
    old, fresh = settings.temporary / ".part-old", settings.temporary / ".part-fresh"
    for part in (old, fresh):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert keeper.clean_up() == "0 photos and 1 thumbnails removed"
    assert [path.name for path in settings.temporary.iterdir()] == [".part-fresh"]

    (settings.inbox / "b.png").unlink()
    assert keeper.clean_up() == "1 photos and 3 thumbnails removed"
    assert library.shas() == {shas["a.png"], shas["c.png"]}
    kept = {thumbnail_name(shas[name], size) for name in ("a.png", "c.png") for size in SIZES}
    assert {path.name for path in settings.thumbs.iterdir()} == kept
    assert keeper.clean_up() == "0 photos and 0 thumbnails removed"


def test_a_photo_that_comes_back_is_a_new_one(settings: PhotoSettings, library: Library, keeper: Keeper) -> None:
    save(settings.inbox / "a.png", small())
    (first,) = keeper.look()
    do(settings, library, first)
    content = (settings.inbox / "a.png").read_bytes()
    (settings.inbox / "a.png").unlink()
    keeper.clean_up()
    (settings.inbox / "a.png").write_bytes(content)
    (second,) = keeper.look()
    assert second.sha == first.sha
    assert second.key != first.key
    assert not library.start(first.key)


# The contact sheet.


def test_nothing_that_a_file_says_becomes_html() -> None:
    evil = "<img src=x onerror=\"alert('1')\">$name&.jpg"
    exif = {"Make": "<script>", "Model": "x", "DateTimeOriginal": "<i>", "Position": "<u>"}
    done = DonePhoto(evil, '"><svg onload=x>', Facts(1, 1, "<b>", '"><style>', exif))
    html = render([done], [Rejected(evil, "<marquee>")], Counts(new=0, done=1, rejected=1))
    for tag in ("<img src=x", "<script", "<i>", "<u>", "<svg", "<b><", '"><style', "<marquee"):
        assert tag not in html
    assert html.count("&lt;img src=x onerror=&quot;alert(&#x27;1&#x27;)&quot;&gt;$name&amp;.jpg") == 3
    assert html.count("&lt;script&gt; x") == 1


def test_the_sheet_shows_everything_and_loads_nothing_from_elsewhere(
    settings: PhotoSettings, library: Library, keeper: Keeper, sheet: ContactSheet
) -> None:
    stamp = fill.Stamp("Canon", "Canon EOS 5D", "2021-03-14 15:09:26", (1.5, 2.25))
    shas = [
        save(settings.inbox / "my cat_1.jpg", Image.new("RGB", (60, 40), "#c08040"), "JPEG", exif=fill._exif(stamp)),
        save(settings.inbox / "b.png", small()),
    ]
    (settings.inbox / "bad.jpg").write_bytes(b"")
    for photo in keeper.look():
        do(settings, library, photo)
    assert sheet.write()
    html = settings.report.read_text("utf-8")
    for text in (
        "2 photos · 1 refused", "my cat_<wbr>1.jpg", "60 × 40 · JPEG", "<span>Canon EOS 5D</span>", "2021-03-14 15:09",
        "1.50000, 2.25000", "background:#ff0000", "<b>bad.jpg</b> the file is empty",
    ):  # fmt: skip
        assert html.count(text) == 1, text
    assert "http" not in html
    links = [part.split('"')[0] for part in html.split('src="')[1:] + html.split('href="')[1:]]
    assert sorted(links) == sorted(
        f"thumbs/{thumbnail_name(sha, size)}" for sha in shas for size in ("large", "medium")
    )
    assert all((settings.data / link).is_file() for link in links)


def test_the_sheet_is_written_only_when_it_changed(
    settings: PhotoSettings, library: Library, keeper: Keeper, sheet: ContactSheet
) -> None:
    assert [sheet.write(), sheet.write()] == [True, False]
    assert "No photos yet" in settings.report.read_text("utf-8")
    save(settings.inbox / "a.png", small())
    (photo,) = keeper.look()
    assert [sheet.write(), sheet.write()] == [True, False]
    assert "0 photos · 1 in work" in settings.report.read_text("utf-8")
    do(settings, library, photo)
    assert [sheet.write(), sheet.write()] == [True, False]
    settings.report.unlink()
    assert sheet.write()


def test_a_large_library_says_what_is_left_out() -> None:
    html = render([], [], Counts(new=1, done=LIMIT + 1, rejected=0))
    assert f"{LIMIT + 1} photos · 1 in work · the last {LIMIT} are shown" in html
