"""The service's housekeeping as plain functions: look into the inbox, clean up, sum up. Knows no jobs."""

import time
from collections.abc import Iterable
from pathlib import Path

from photo_files import list_inbox
from photo_images import SIZES, thumbnail_name
from photo_library import Library, NewPhoto
from photo_settings import PhotoSettings

LEFTOVER_AFTER_S = 3600


class Keeper:
    def __init__(self, library: Library, settings: PhotoSettings) -> None:
        self._library, self._settings = library, settings
        self._new = 0

    def look(self) -> list[NewPhoto]:
        """Bring the library's list of files up to date; returns the photos that are still to be done."""
        self._new += self._library.record(list_inbox(self._settings.inbox, self._library.files()))
        return self._library.waiting()

    def clean_up(self) -> str:
        """Remove what lost its original, and what killed processes left half written."""
        self.look()
        photos = self._library.forget_lost()
        kept = {thumbnail_name(sha, size) for sha in self._library.shas() for size in SIZES}
        thumbs = _remove(path for path in self._settings.thumbs.glob("*.jpg") if path.name not in kept)
        _remove(path for path in self._settings.temporary.glob(".part-*") if _is_old(path))
        return f"{photos} photos and {thumbs} thumbnails removed"

    def summary(self) -> str:
        """What a person wants to read at the end of a run."""
        counts = self._library.counts()
        found = counts.done + counts.rejected + counts.new
        states = f"{counts.done} done, {counts.rejected} failed, {counts.new} waiting"
        bad = [f"  {file.path}: {file.reason}" for file in self._library.rejected(limit=20)]
        lines = [f"Photos: {found} found ({self._new} new), {states}", *bad, f"Contact sheet: {self._settings.report}"]
        return "\n".join(lines)


def _remove(paths: Iterable[Path]) -> int:
    removed = 0
    for path in paths:
        path.unlink(missing_ok=True)
        removed += 1
    return removed


def _is_old(path: Path) -> bool:
    try:
        return path.stat().st_mtime < time.time() - LEFTOVER_AFTER_S
    except FileNotFoundError:
        return False
