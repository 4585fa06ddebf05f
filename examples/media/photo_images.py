"""Everything that touches pixels: is it a photo, what does it show, its thumbnails. Runs in the pool's children.

Knows no jobs and no database.
"""

import hashlib
import struct
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from textwrap import shorten

from photo_exif import read_exif, turned_upright
from photo_files import write_atomically
from PIL import Image, ImageStat, UnidentifiedImageError

SIZES = {"large": 1200, "medium": 480, "small": 160}
"""The longest edge of each thumbnail in pixels, falling. Smaller photos are not blown up."""
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""Not all that Pillow knows: some of its decoders start other programs."""
Image.MAX_IMAGE_PIXELS = None  # Pillow's own guard counts pixels; ours, the pool's memory limit, counts what they take


class NotAPhoto(Exception):
    """This content will never be a photo; the message says why. Trying again is no use."""


class PhotoGone(Exception):
    """The file was removed or replaced after the scan saw it."""


@dataclass(frozen=True)
class Facts:
    width: int
    height: int
    """As a person sees the photo: a camera held upright stores it lying down."""
    format: str
    colour: str
    """The average, as #rrggbb."""
    exif: dict[str, str] = field(default_factory=dict)


def inspect(path: Path, sha: str) -> Facts:
    """Read the whole photo, so that one which is damaged anywhere is found out here."""
    photo = _open(path, sha)
    upright = turned_upright(photo)
    red, green, blue = (round(channel) for channel in ImageStat.Stat(_flat(upright)).mean)
    colour = f"#{red:02x}{green:02x}{blue:02x}"
    return Facts(upright.width, upright.height, photo.format or "?", colour, read_exif(photo))


def thumbnail_name(sha: str, size: str) -> str:
    """By content: two files with the same picture share it, and making it again writes the same bytes."""
    return f"{sha[:16]}-{size}.jpg"


def write_thumbnails(path: Path, sha: str, *, folder: Path, temporary: Path) -> None:
    """One JPEG per size, without EXIF: nobody wants their home's position in a public thumbnail."""
    photo = _open(path, sha)
    profile = photo.info.get("icc_profile") if photo.mode == "RGB" else None
    picture = _flat(turned_upright(photo))
    for size, edge in SIZES.items():
        picture.thumbnail((edge, edge), Image.Resampling.LANCZOS)  # the next size is made from this one
        encoded = BytesIO()
        picture.save(encoded, "JPEG", quality=85, optimize=True, progressive=True, icc_profile=profile)
        write_atomically(folder / thumbnail_name(sha, size), encoded.getvalue(), temporary=temporary)


def _open(path: Path, sha: str) -> Image.Image:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise PhotoGone(f"{path.name} was removed after the scan") from None
    if hashlib.sha256(content).hexdigest() != sha:
        raise PhotoGone(f"{path.name} was changed after the scan")
    if not content:
        raise NotAPhoto("the file is empty")
    try:
        photo = Image.open(BytesIO(content), formats=FORMATS)
        photo.load()
    except UnidentifiedImageError:
        raise NotAPhoto(_what_it_is(content)) from None
    except MemoryError:
        raise NotAPhoto("the picture is too large: no memory here would hold it") from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error) as damage:  # what Pillow's decoders raise
        raise NotAPhoto(f"the picture is damaged or cut off: {str(damage).split(' (')[0]}") from None
    return photo


def _what_it_is(content: bytes) -> str:
    head = content[:60]
    if all(byte >= 0x20 or byte in b"\t\r\n" for byte in head):
        beginning = shorten(head.decode("utf-8", "replace"), 40, placeholder=" …")
        return f"it is a text file that begins with “{beginning}”"
    return f"it is none of the formats that we take ({', '.join(FORMATS)})"


def _flat(picture: Image.Image) -> Image.Image:
    """In RGB, with white where it is transparent. Large photos are copied no more often than they have to be."""
    if picture.mode == "RGB" and not picture.has_transparency_data:
        return picture
    if picture.mode.startswith("I"):  # 16 bits: Pillow's own conversion would clip everything above 255 to white
        return picture.convert("I").point(lambda value: value * (1 / 256)).convert("L").convert("RGB")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return picture.convert("RGB")
