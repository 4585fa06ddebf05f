"""A small photo service. Photos that arrive in `inbox/` get thumbnails, a row in a database and a place on a page.

    python examples/media/fill.py             # some photos to begin with
    workfleet run examples/media/app.py       # until Ctrl-C; with --until-idle: until all is done

Read on in photo_jobs.py.
"""

from asyncio import to_thread

from dishka import Provider, Scope, provide
from photo_jobs import Arrivals, Housekeeping, ImageWorker, Photos
from photo_keeping import Keeper
from photo_library import Library
from photo_page import ContactSheet
from photo_settings import PhotoSettings

from workfleet import App, Module


class PhotoProvider(Provider):
    """One of each for the whole process; their constructors say what they need."""

    scope = Scope.APP
    library = provide(Library)
    keeper = provide(Keeper)
    sheet = provide(ContactSheet)


photos = Module(
    "photos",
    providers=[PhotoProvider()],
    jobs=[Photos, Arrivals, Housekeeping, ImageWorker],
    settings=PhotoSettings,
)
app = App("media", modules=[photos])


@photos.on_bootstrap
async def open_inbox(settings: PhotoSettings) -> None:
    settings.inbox.mkdir(parents=True, exist_ok=True)


@photos.on_shutdown
async def sum_up(keeper: Keeper, sheet: ContactSheet) -> None:
    await to_thread(sheet.write)
    print(await to_thread(keeper.summary), flush=True)
