"""EXIF as plain text, and the three facts that people ask for: camera, date, place.

Cameras and programs write all kinds of nonsense here: whatever cannot be read is left out, never an error.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from datetime import datetime

from PIL import ExifTags, Image, ImageOps

MAX_TEXT = 200
POINTERS = frozenset(int(section) for section in ExifTags.IFD)
"""Tags that only say where in the file another section begins."""
Unreadable = (AttributeError, KeyError, OSError, SyntaxError, TypeError, ValueError, ZeroDivisionError, struct.error)


def read_exif(photo: Image.Image) -> dict[str, str]:
    """Name → text of what is one text or one number. The position is added as `Position`, in degrees."""
    try:
        exif = photo.getexif()
        tags = dict(sorted(_texts({**exif, **exif.get_ifd(ExifTags.IFD.Exif)})))
        position = _position(exif.get_ifd(ExifTags.IFD.GPSInfo))
    except Unreadable:
        return {}
    return tags | ({"Position": position} if position else {})


def turned_upright(photo: Image.Image) -> Image.Image:
    """A camera held upright stores the photo lying down, with a note about it in the EXIF."""
    try:
        return ImageOps.exif_transpose(photo)
    except Unreadable:
        return photo


def camera(exif: Mapping[str, str]) -> str | None:
    """`Canon` + `Canon EOS 5D` is one camera, not two Canons."""
    make, model = exif.get("Make", ""), exif.get("Model", "")
    if make and model.lower().startswith(make.split()[0].lower()):
        return model
    return f"{make} {model}".strip() or None


def taken(exif: Mapping[str, str]) -> str | None:
    """`2021:03:14 15:09:26` → `2021-03-14 15:09`, in the camera's own time: EXIF rarely says which zone that was."""
    text = exif.get("DateTimeOriginal", "")
    try:
        return datetime.fromisoformat(text.replace(":", "-", 2)).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return None


def _texts(tags: Mapping[int, object]) -> Iterator[tuple[str, str]]:
    for tag, value in tags.items():
        name = ExifTags.TAGS.get(tag)
        if name is None or tag in POINTERS or isinstance(value, bytes | tuple | dict):
            continue
        text = "".join(letter for letter in str(value) if letter.isprintable()).strip()
        if text:
            yield name, text[:MAX_TEXT]


def _position(gps: Mapping[int, object]) -> str | None:
    latitude = _degrees(gps.get(ExifTags.GPS.GPSLatitude), gps.get(ExifTags.GPS.GPSLatitudeRef), "S", limit=90)
    longitude = _degrees(gps.get(ExifTags.GPS.GPSLongitude), gps.get(ExifTags.GPS.GPSLongitudeRef), "W", limit=180)
    return None if latitude is None or longitude is None else f"{latitude:.5f}, {longitude:.5f}"


def _degrees(value: object, side: object, negative: str, *, limit: int) -> float | None:
    if not isinstance(value, tuple) or len(value) != 3:
        return None
    degrees, minutes, seconds = (float(part) for part in value)
    total = degrees + minutes / 60 + seconds / 3600
    if not math.isfinite(total) or abs(total) > limit:
        return None
    return -total if side == negative else total
