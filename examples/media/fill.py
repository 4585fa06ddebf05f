"""Fill the inbox: the pictures that scikit-image ships, some stamped with EXIF, and three files that are no photos.

    python fill.py [--bomb] [FOLDER]

Adds what is missing and nothing else: no file is overwritten, and what was added once and then removed stays away. The
bytes are the same each time. The cameras, dates and places in the EXIF are invented. With --bomb there is also
`bomb.png`, a file of 110 KB that unfolds to gigabytes.
"""

import importlib.util
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from photo_files import write_atomically
from photo_settings import PhotoSettings
from PIL import ExifTags, Image

ADDED = ".added-by-fill"
"""In the inbox: the names that were added before."""


@dataclass(frozen=True)
class Stamp:
    make: str
    model: str
    taken: str
    place: tuple[float, float] | None = None
    lying: bool = False
    """Stored lying down, as by a camera that was held upright."""


@dataclass(frozen=True)
class NewFile:
    name: str
    content: bytes
    taken: datetime


PHOTOS: dict[str, Stamp | None] = {
    "astronaut.png": Stamp("Hasselblad", "500 EL/M", "1992-05-14 10:20:00", (29.55163, -95.09814)),
    "brick.png": None,
    "camera.png": Stamp("NIKON CORPORATION", "NIKON F3", "1978-09-30 15:42:10", (42.36009, -71.09416)),
    "cell.png": None,
    "chelsea.png": Stamp("Canon", "Canon EOS 60D", "2013-03-09 18:05:31", (-33.92487, 18.42406)),
    "clock_motion.png": None,
    "coffee.png": Stamp("FUJIFILM", "X100S", "2014-11-02 09:12:45", (52.52001, 13.40495), lying=True),
    "coins.png": None,
    "grass.png": None,
    "gravel.png": None,
    "hubble_deep_field.jpg": None,
    "ihc.png": None,
    "microaneurysms.png": None,
    "moon.png": None,
    "motorcycle_left.png": Stamp("Point Grey", "Flea2", "2014-07-21 13:30:00"),
    "motorcycle_right.png": Stamp("Point Grey", "Flea2", "2014-07-21 13:30:00"),
    "page.png": Stamp("Apple", "iPhone 5", "2013-06-17 21:48:02", lying=True),
    "retina.jpg": None,
    "rocket.jpg": None,
    "text.png": Stamp("Panasonic", "DMC-LX5", "2011-02-08 16:00:59"),
}
RENAMED = {"text.png": "handwriting.jpg"}  # text.jpg is one of the bad files
DRAWINGS = ("color.png", "horse.png", "logo.png", "no_time_for_that_tiny.gif", "phantom.png")
"""Kept as they are: transparency, a palette, an animation."""


BOMB_EDGE = 30_000


def main(inbox: Path, *, bomb: bool = False) -> None:
    source = shipped_pictures()
    before = set(_lines(inbox / ADDED))
    good = [file for file in pictures(source) if file.name not in before]
    bad = [file for file in bad_files() if file.name not in before]
    added = [sum(_add(inbox, file) for file in files) for files in (good, bad)]
    if good or bad:
        names = "\n".join(sorted(before.union(file.name for file in good + bad))) + "\n"
        write_atomically(inbox / ADDED, names.encode(), temporary=inbox)
    present = sum(1 for path in inbox.iterdir() if not path.name.startswith("."))
    print(f"Inbox: {added[0]} pictures of scikit-image and {added[1]} bad files added, {present} files in {inbox}")
    if bomb:
        there = _add(inbox, NewFile("bomb.png", photo_bomb(), _time(None)))
        print(f"Inbox: bomb.png {'added' if there else 'is there already'}")


def _add(inbox: Path, file: NewFile) -> bool:
    if (inbox / file.name).exists():
        return False
    write_atomically(inbox / file.name, file.content, temporary=inbox)
    os.utime(inbox / file.name, (file.taken.timestamp(), file.taken.timestamp()))
    return True


def shipped_pictures() -> Path:
    """The folder in the installed package; nothing is downloaded."""
    spec = importlib.util.find_spec("skimage")  # does not import it
    if spec is None or spec.origin is None:
        sys.exit("fill.py needs scikit-image, whose pictures it takes: pip install scikit-image (`make run` does it)")
    return Path(spec.origin).parent / "data"


def pictures(source: Path) -> Iterator[NewFile]:
    """One that this version of scikit-image does not ship is left out."""
    for name, stamp in PHOTOS.items():
        if (source / name).exists():
            yield NewFile(RENAMED.get(name, f"{Path(name).stem}.jpg"), _as_jpeg(source / name, stamp), _time(stamp))
    for name in DRAWINGS:
        if (source / name).exists():
            yield NewFile(name, (source / name).read_bytes(), _time(None))


def bad_files() -> Iterator[NewFile]:
    encoded = BytesIO()
    Image.radial_gradient("L").save(encoded, "JPEG")
    jpeg = encoded.getvalue()
    yield NewFile("corrupt.jpg", jpeg[: len(jpeg) // 2], _time(None))
    yield NewFile("empty.jpg", b"", _time(None))
    yield NewFile("text.jpg", b"Shopping list: film, batteries, a new tripod.\n", _time(None))


def photo_bomb() -> bytes:
    """A PNG of 30,000 × 30,000 black pixels: 110 KB as a file, 900 MB decoded, and 3.6 GB more as colours."""
    rows = zlib.compressobj(9)
    row = bytes(1 + BOMB_EDGE // 8)
    packed = b"".join(rows.compress(row) for _ in range(BOMB_EDGE)) + rows.flush()
    header = struct.pack(">IIBBBBB", BOMB_EDGE, BOMB_EDGE, 1, 0, 0, 0, 0)  # one bit a pixel, grey
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", packed), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _as_jpeg(path: Path, stamp: Stamp | None) -> bytes:
    if stamp is None and path.suffix == ".jpg":
        return path.read_bytes()
    picture = Image.open(path)
    encoded = BytesIO()
    if stamp is None:
        picture.save(encoded, "JPEG", quality=92)
    else:
        turned = picture.transpose(Image.Transpose.ROTATE_90) if stamp.lying else picture
        turned.save(encoded, "JPEG", quality=92, exif=_exif(stamp))
    return encoded.getvalue()


def _exif(stamp: Stamp) -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = stamp.make, stamp.model
    exif[ExifTags.Base.Orientation] = 6 if stamp.lying else 1
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = stamp.taken.replace("-", ":")
    if stamp.place:
        latitude, longitude = stamp.place
        exif.get_ifd(ExifTags.IFD.GPSInfo).update(
            {
                ExifTags.GPS.GPSLatitudeRef: "S" if latitude < 0 else "N",
                ExifTags.GPS.GPSLatitude: _degrees(latitude),
                ExifTags.GPS.GPSLongitudeRef: "W" if longitude < 0 else "E",
                ExifTags.GPS.GPSLongitude: _degrees(longitude),
            }
        )
    return exif


def _degrees(angle: float) -> tuple[float, float, float]:
    """Degrees, minutes, seconds."""
    whole = round(abs(angle) * 3600, 2)
    return float(whole // 3600), float(whole % 3600 // 60), round(whole % 60, 2)


def _time(stamp: Stamp | None) -> datetime:
    return datetime.fromisoformat(stamp.taken if stamp else "2020-01-01 12:00:00").replace(tzinfo=UTC)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if argument != "--bomb"]
    main(Path(folders[0]).resolve() if folders else PhotoSettings().inbox, bomb="--bomb" in sys.argv)
