"""What workfleet runs: the scan, the handler of one photo, the pool that decodes it, the clean-up and the report.

Each is a few lines over plain classes that know nothing of jobs.
"""

from asyncio import to_thread
from pathlib import Path

import photo_images
from photo_images import Facts, NotAPhoto, PhotoGone
from photo_keeping import Keeper
from photo_library import Library, NewPhoto
from photo_page import ContactSheet
from photo_settings import PhotoSettings

from workfleet import (
    Fail,
    Job,
    MemoryLimitExceeded,
    NewJob,
    Pool,
    exponential,
    handler,
    locked,
    process,
    public,
    queue,
    schedule,
)


@process("images", size=2, memory="512MB")
class ImageWorker:
    """Runs in child processes: decoding pictures takes time, memory and now and then the whole process.

    The limit is enough for photos of some fifty megapixels. A small file that unfolds to gigabytes is over before it
    has filled the machine, and takes no other photo along.
    """

    @public
    def inspect(self, path: str, sha: str) -> Facts:
        return photo_images.inspect(Path(path), sha)

    @public
    def thumbnails(self, path: str, sha: str, folder: str, temporary: str) -> None:
        photo_images.write_thumbnails(Path(path), sha, folder=Path(folder), temporary=Path(temporary))


@queue("photos", concurrency=4)
class Photos:
    def __init__(self, images: Pool[ImageWorker], library: Library, settings: PhotoSettings) -> None:
        self._images, self._library, self._settings = images, library, settings

    @handler(
        "photo",
        attempts=3,
        backoff=exponential("1s", cap="10s"),
        retry={MemoryLimitExceeded: None},  # it would only be too large again
        timeout="2m",
    )
    async def photo(self, job: Job[NewPhoto]) -> str:
        """May run twice: after a crash nobody knows how far the first run came. What it does counts once."""
        new = job.data
        if not await to_thread(self._library.start, new.key):
            return "nothing to do: done already, or removed"
        try:
            return await self._develop(new)
        except NotAPhoto as problem:
            await to_thread(self._library.reject, new.key, str(problem))
            raise Fail(f"not a photo: {problem}") from problem  # no more attempts
        except MemoryLimitExceeded as problem:
            await to_thread(self._library.reject, new.key, str(problem))
            raise
        except PhotoGone as gone:
            await to_thread(self._library.forget, new.key)
            return str(gone)

    async def _develop(self, new: NewPhoto) -> str:
        path = str(self._settings.inbox / new.path)
        facts = await self._images.inspect(path, new.sha)
        await self._images.thumbnails(path, new.sha, str(self._settings.thumbs), str(self._settings.temporary))
        await to_thread(self._library.finish, new.key, facts)  # last: this row says that everything else is there
        return f"{facts.width} × {facts.height}, {facts.colour}"


@queue("photos")
class Arrivals:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    @handler("arrived", attempts=3)
    async def arrived(self, job: Job[str]) -> list[NewJob[str]]:
        """Another program, in whatever language, has put a photo into the inbox: see examples/node."""
        waiting = await to_thread(self._keeper.look)
        return [Photos.photo.job(new, id=f"photo-{new.key}") for new in waiting if new.path == job.data]


class Housekeeping:
    def __init__(self, keeper: Keeper, sheet: ContactSheet) -> None:
        self._keeper, self._sheet = keeper, sheet

    @schedule("scan", every="10s", run_on_start=True, description="Look for new photos in the inbox")
    async def scan(self) -> list[NewJob[str]]:
        """One job for each photo that is not done.

        The photo's key is the job's id, so what is waiting, running or failed already is not enqueued again.
        """
        waiting = await to_thread(self._keeper.look)
        if not waiting:
            await to_thread(self._sheet.write)
        return [Photos.photo.job(new, id=f"photo-{new.key}") for new in waiting]

    @schedule("report", every="1h", description="Write the contact sheet")
    async def report(self) -> bool:
        return await to_thread(self._sheet.write)

    @schedule("cleanup", cron="0 3 * * *", timezone="Europe/Berlin", description="Remove what lost its original")
    @locked("media:cleanup", ttl="10m")
    async def cleanup(self) -> str:
        return await to_thread(self._keeper.clean_up)
