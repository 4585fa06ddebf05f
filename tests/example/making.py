"""What the tests of the example share: small pictures, and doing a photo as its job does."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from photo_images import NotAPhoto, inspect, write_thumbnails
from photo_library import Library, NewPhoto
from photo_settings import PhotoSettings
from PIL import Image


def save(path: Path, picture: Image.Image, format: str = "PNG", **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, format, **options)
    return sha_of(path)


def sha_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def small(colour: str | tuple[int, ...] = "red") -> Image.Image:
    return Image.new("RGB", (4, 3), colour)


def do(settings: PhotoSettings, library: Library, photo: NewPhoto) -> None:
    path = settings.inbox / photo.path
    assert library.start(photo.key)
    try:
        facts = inspect(path, photo.sha)
        write_thumbnails(path, photo.sha, folder=settings.thumbs, temporary=settings.temporary)
    except NotAPhoto as problem:
        library.reject(photo.key, str(problem))
    else:
        assert library.finish(photo.key, facts)


def tree(folder: Path) -> dict[str, tuple[str, int]]:
    return {path.name: (sha_of(path), path.stat().st_mtime_ns) for path in folder.iterdir()}
