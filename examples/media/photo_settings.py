"""The settings of the photo service: section `photos`, so `WORKER_PHOTOS__INBOX=/srv/inbox` moves the inbox."""

from pathlib import Path

from pydantic import BaseModel

HERE = Path(__file__).resolve().parent


class PhotoSettings(BaseModel):
    inbox: Path = HERE / "inbox"
    """Where photos arrive. Subfolders count; hidden files do not."""
    data: Path = HERE / "data"
    """Where everything goes that is made here: it can be deleted and is made again."""

    @property
    def database(self) -> Path:
        return self.data / "media.db"

    @property
    def thumbs(self) -> Path:
        return self.data / "thumbs"

    @property
    def report(self) -> Path:
        return self.data / "report.html"

    @property
    def temporary(self) -> Path:
        return self.data / "tmp"
