"""The example's jobs, called as what they are: plain methods of plain objects. No fleet runs here."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from photo_images import Facts
from photo_jobs import Housekeeping, ImageWorker, Photos
from photo_keeping import Keeper
from photo_library import Counts, Library, NewPhoto, Rejected
from photo_page import ContactSheet
from photo_settings import HERE, PhotoSettings
from PIL import Image

from workfleet import Fail, MemoryLimitExceeded
from workfleet.testing import job


@pytest.fixture
def photos(library: Library, settings: PhotoSettings) -> Photos:
    return Photos(ImageWorker(), library, settings)


def add(settings: PhotoSettings, name: str = "a.png") -> Path:
    Image.new("RGB", (30, 20), "red").save(settings.inbox / name)
    return settings.inbox / name


async def test_a_photo_is_done_and_its_second_run_does_nothing(
    photos: Photos, settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    add(settings)
    (new,) = keeper.look()
    assert await photos.photo(job(new)) == "30 × 20, #ff0000"
    assert [photo.facts for photo in library.done(limit=9)] == [Facts(30, 20, "PNG", "#ff0000", {})]
    assert len(list(settings.thumbs.glob("*.jpg"))) == 3
    assert await photos.photo(job(new, attempt=2)) == "nothing to do: done already, or removed"
    assert keeper.look() == []


async def test_what_is_no_photo_fails_at_once_and_is_not_offered_again(
    photos: Photos, settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    (settings.inbox / "text.jpg").write_bytes(b"Shopping list\n")
    (new,) = keeper.look()
    for attempt in (1, 2):  # killed after the first one's note, before its failure was stored
        with pytest.raises(Fail, match=r"^not a photo: it is a text file that begins with “Shopping list”$"):
            await photos.photo(job(new, attempt=attempt))
    assert library.counts() == Counts(new=0, done=0, rejected=1)
    assert keeper.look() == []


async def test_a_photo_that_was_replaced_is_left_to_the_next_scan(
    photos: Photos, settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    path = add(settings)
    content = path.read_bytes()
    (old,) = keeper.look()
    Image.new("RGB", (31, 20), "blue").save(path)
    assert await photos.photo(job(old)) == "a.png was changed after the scan"
    (new,) = keeper.look()
    assert await photos.photo(job(new)) == "31 × 20, #0000ff"
    (settings.inbox / "b.png").write_bytes(content)
    (back,) = keeper.look()
    assert (back.path, back.sha) == ("b.png", old.sha)
    assert back.key != old.key  # the old one's job has ended: an equal id would never run
    assert library.counts() == Counts(new=1, done=1, rejected=0)


class DyingOnce(ImageWorker):
    """A pool whose child is killed in the middle of the first call."""

    def __init__(self) -> None:
        self.calls = 0

    async def thumbnails(self, path: str, sha: str, folder: str, temporary: str) -> None:
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError("the child died")
        await ImageWorker().thumbnails(path, sha, folder, temporary)


async def test_a_child_that_dies_leaves_the_photo_to_the_next_attempt(
    settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    add(settings)
    (new,) = keeper.look()
    photos = Photos(DyingOnce(), library, settings)
    with pytest.raises(ConnectionError):
        await photos.photo(job(new))
    assert keeper.look() == [new]
    assert await photos.photo(job(new, attempt=2)) == "30 × 20, #ff0000"
    assert library.counts() == Counts(new=0, done=1, rejected=0)


class TooLarge(ImageWorker):
    """A pool whose memory limit every photo exceeds."""

    async def inspect(self, path: str, sha: str) -> Facts:  # type: ignore[override] - the pool's methods are awaited
        raise MemoryLimitExceeded("images", "inspect", 600_000_000, 512_000_000)


async def test_a_photo_that_takes_too_much_memory_is_noted_and_not_offered_again(
    settings: PhotoSettings, library: Library, keeper: Keeper
) -> None:
    add(settings)
    (new,) = keeper.look()
    with pytest.raises(MemoryLimitExceeded):
        await Photos(TooLarge(), library, settings).photo(job(new))
    reason = "images.inspect used 600 MB, the limit is 512 MB: its process was killed"
    assert library.rejected(limit=9) == [Rejected("a.png", reason)]
    assert keeper.look() == []


async def test_the_scan_offers_each_photo_under_one_id_until_it_is_done(
    photos: Photos, settings: PhotoSettings, keeper: Keeper, sheet: ContactSheet
) -> None:
    housekeeping = Housekeeping(keeper, sheet)
    add(settings, "a.png")
    add(settings, "copy of a.png")
    first = await housekeeping.scan()
    (new,) = keeper.look()
    assert first == [Photos.photo.job(NewPhoto(new.key, "a.png", new.sha), id=f"photo-{new.key}")]
    assert await housekeeping.scan() == first
    assert not settings.report.exists()
    await photos.photo(job(new))
    assert await housekeeping.scan() == []
    assert "1 photos" in settings.report.read_text("utf-8")
    assert await housekeeping.report() is False


async def test_the_clean_up_runs_as_a_plain_method_too(
    photos: Photos, settings: PhotoSettings, keeper: Keeper, sheet: ContactSheet
) -> None:
    path = add(settings)
    (new,) = keeper.look()
    await photos.photo(job(new))
    path.unlink()
    assert await Housekeeping(keeper, sheet).cleanup() == "1 photos and 3 thumbnails removed"


def load_app() -> ModuleType:
    """As `workfleet run examples/media/app.py` does, but under a name that no other `app.py` of the tests has."""
    spec = spec_from_file_location("media_app", HERE / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_importing_the_application_does_nothing() -> None:
    def there() -> list[str]:
        return sorted(path.name for path in HERE.iterdir() if path.name != "__pycache__")

    before = there()
    assert load_app().app.name == "media"
    assert there() == before


async def test_the_end_of_a_run_says_what_came_of_the_photos(
    photos: Photos,
    settings: PhotoSettings,
    keeper: Keeper,
    sheet: ContactSheet,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add(settings)
    (settings.inbox / "empty.jpg").write_bytes(b"")
    for new in keeper.look():
        if new.path == "a.png":
            await photos.photo(job(new))
        else:
            with pytest.raises(Fail):
                await photos.photo(job(new))
    await load_app().sum_up(keeper, sheet)
    assert capsys.readouterr().out.splitlines() == [
        "Photos: 2 found (2 new), 1 done, 1 failed, 0 waiting",
        "  empty.jpg: the file is empty",
        f"Contact sheet: {settings.report}",
    ]
