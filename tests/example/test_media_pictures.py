"""The example's pixels and EXIF: facts, thumbnails, and why something is no photo."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import fill
import pytest
from photo_exif import camera, read_exif, taken
from photo_images import SIZES, Facts, NotAPhoto, PhotoGone, inspect, thumbnail_name, write_thumbnails
from PIL import ExifTags, Image, ImageFile, ImageStat

from tests.example.making import save, sha_of, small, tree


def reason(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(NotAPhoto) as caught:
        inspect(path, sha_of(path))
    return str(caught.value)


# Pictures.


def test_dimensions_and_average_colour(tmp_path: Path) -> None:
    picture = Image.new("RGB", (30, 20), (200, 100, 0))
    picture.paste((0, 100, 200), (15, 0, 30, 20))
    sha = save(tmp_path / "a.png", picture)
    assert inspect(tmp_path / "a.png", sha) == Facts(30, 20, "PNG", "#646464", {})


@pytest.mark.parametrize(
    ("picture", "format", "colour"),
    [
        (Image.new("RGBA", (4, 4), (255, 0, 0, 0)), "PNG", "#ffffff"),
        (Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "PNG", "#7f7f7f"),
        (Image.new("L", (4, 4), 90), "PNG", "#5a5a5a"),
        (Image.new("1", (4, 4), 1), "BMP", "#ffffff"),
        (Image.new("I;16", (4, 4), 0x8000), "TIFF", "#808080"),
        (Image.new("I;16", (4, 4), 0x4000), "PNG", "#404040"),
        (Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "TIFF", "#ff0000"),
        (Image.new("P", (4, 4), 0), "GIF", "#000000"),
        (Image.new("RGB", (4, 4), (0, 0, 255)), "WEBP", "#0000ff"),
    ],
)
def test_every_format_and_mode_becomes_plain_colour(
    tmp_path: Path, picture: Image.Image, format: str, colour: str
) -> None:
    path = tmp_path / "picture.any"
    sha = save(path, picture, format, **({"lossless": True} if format == "WEBP" else {}))
    facts = inspect(path, sha)
    assert (facts.width, facts.height, facts.format, facts.colour) == (4, 4, format, colour)
    write_thumbnails(path, sha, folder=tmp_path / "thumbs", temporary=tmp_path / "tmp")
    with Image.open(tmp_path / "thumbs" / thumbnail_name(sha, "small")) as thumb:
        assert (thumb.size, thumb.mode) == ((4, 4), "RGB")


def test_three_thumbnails_of_which_none_is_blown_up(tmp_path: Path) -> None:
    sha = save(tmp_path / "a.png", Image.linear_gradient("L").resize((900, 600)))
    thumbs = tmp_path / "thumbs"
    write_thumbnails(tmp_path / "a.png", sha, folder=thumbs, temporary=tmp_path / "tmp")
    sizes = {}
    for size in SIZES:
        with Image.open(thumbs / thumbnail_name(sha, size)) as thumb:
            thumb.load()
            sizes[size] = (thumb.format, *thumb.size)
    assert sizes == {"large": ("JPEG", 900, 600), "medium": ("JPEG", 480, 320), "small": ("JPEG", 160, 107)}
    assert len(list(thumbs.iterdir())) == 3
    assert list((tmp_path / "tmp").iterdir()) == []
    before = tree(thumbs)
    write_thumbnails(tmp_path / "a.png", sha, folder=thumbs, temporary=tmp_path / "tmp")
    assert {name: sha for name, (sha, _) in tree(thumbs).items()} == {name: sha for name, (sha, _) in before.items()}


def test_a_photo_stored_lying_down_stands_up_and_its_place_stays_private(tmp_path: Path) -> None:
    upright = Image.new("RGB", (20, 40), "white")
    upright.paste("black", (0, 0, 20, 20))  # the upper half
    path = tmp_path / "a.jpg"
    stamp = fill.Stamp("Canon", "Canon EOS 5D", "2021-03-14 15:09:26", (-33.5, 18.25), lying=True)
    sha = save(path, upright.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=fill._exif(stamp))
    facts = inspect(path, sha)
    assert (facts.width, facts.height) == (20, 40)
    write_thumbnails(path, sha, folder=tmp_path, temporary=tmp_path)
    with Image.open(tmp_path / thumbnail_name(sha, "medium")) as thumb:
        assert thumb.size == (20, 40)
        assert ImageStat.Stat(thumb.crop((0, 0, 20, 16))).mean[0] < 30
        assert ImageStat.Stat(thumb.crop((0, 24, 20, 40))).mean[0] > 225
        assert dict(thumb.getexif()) == {}


def test_what_is_no_photo_says_why(tmp_path: Path) -> None:
    whole = BytesIO()
    Image.radial_gradient("L").save(whole, "JPEG")
    jpeg = whole.getvalue()
    png = BytesIO()
    Image.radial_gradient("L").save(png, "PNG")
    path = tmp_path / "x.jpg"
    formats = "it is none of the formats that we take (JPEG, PNG, WEBP, GIF, BMP, TIFF)"
    assert reason(path, b"") == "the file is empty"
    assert reason(path, jpeg[: len(jpeg) // 2]) == "the picture is damaged or cut off: image file is truncated"
    assert reason(path, png.getvalue()[:500]).startswith("the picture is damaged or cut off: ")
    assert (
        reason(path, b"Dear all,\r\nhere is the list")
        == "it is a text file that begins with “Dear all, here is the list”"
    )
    assert (
        reason(path, "Grüße, ".encode() * 9)
        == "it is a text file that begins with “Grüße, Grüße, Grüße, Grüße, Grüße, …”"
    )
    assert reason(path, b"%PDF-1.7\n\x00\x01\x02") == formats
    assert reason(path, b"\x00\x00\x00\x18ftypheic") == formats


def test_a_picture_that_no_memory_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(self: object) -> None:
        raise MemoryError

    path = tmp_path / "large.png"
    small().save(path)
    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    assert reason(path, path.read_bytes()) == "the picture is too large: no memory here would hold it"


def test_a_file_that_was_removed_or_replaced_after_the_scan_is_gone_not_bad(tmp_path: Path) -> None:
    sha = save(tmp_path / "a.png", small())
    save(tmp_path / "a.png", small("blue"))
    with pytest.raises(PhotoGone, match=r"a\.png was changed after the scan"):
        inspect(tmp_path / "a.png", sha)
    (tmp_path / "a.png").unlink()
    with pytest.raises(PhotoGone, match=r"a\.png was removed after the scan"):
        write_thumbnails(tmp_path / "a.png", sha, folder=tmp_path, temporary=tmp_path)


# EXIF.


def test_exif_becomes_text(tmp_path: Path) -> None:
    stamp = fill.Stamp("NIKON CORPORATION", "NIKON F3", "1978-09-30 15:42:10", (-33.92487, 18.42406))
    sha = save(tmp_path / "a.jpg", small(), "JPEG", exif=fill._exif(stamp))
    exif = inspect(tmp_path / "a.jpg", sha).exif
    assert exif == {
        "DateTimeOriginal": "1978:09:30 15:42:10",
        "Make": "NIKON CORPORATION",
        "Model": "NIKON F3",
        "Orientation": "1",
        "Position": "-33.92487, 18.42406",
    }
    assert (camera(exif), taken(exif)) == ("NIKON F3", "1978-09-30 15:42")


@pytest.mark.parametrize(
    ("exif", "expected"),
    [
        ({}, None),
        ({"Make": "Canon", "Model": "Canon EOS 5D"}, "Canon EOS 5D"),
        ({"Make": "FUJIFILM", "Model": "X100S"}, "FUJIFILM X100S"),
        ({"Make": "Apple"}, "Apple"),
        ({"Model": "DMC-LX5"}, "DMC-LX5"),
    ],
)
def test_camera(exif: dict[str, str], expected: str | None) -> None:
    assert camera(exif) == expected


@pytest.mark.parametrize("date", ["", "0000:00:00 00:00:00", "2021:13:01 00:00:00", "    :  :     :  :  ", "yesterday"])
def test_a_date_that_is_none_is_left_out(date: str) -> None:
    assert taken({"DateTimeOriginal": date}) is None


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")  # Pillow tells; it must not stop the photo
def test_nonsense_in_exif_is_left_out(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "Can\x00on\x07 <b>"
    exif[ExifTags.Base.ImageDescription] = "x" * 1000
    exif[0xFDE9] = "unknown tag"
    exif.get_ifd(ExifTags.IFD.GPSInfo).update(
        {ExifTags.GPS.GPSLatitude: (95.0, 0.0, 0.0), ExifTags.GPS.GPSLongitude: (8.0, 0.0, 0.0)}
    )
    save(tmp_path / "a.jpg", small(), "JPEG", exif=exif)
    with Image.open(tmp_path / "a.jpg") as photo:
        found = read_exif(photo)
    assert "Position" not in found
    assert found["ImageDescription"] == "x" * 200
    assert found["Make"].isprintable()
    assert set(found) == {"Make", "ImageDescription"}
    garbage = save(tmp_path / "b.jpg", small(), "JPEG", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\x7f")
    assert inspect(tmp_path / "b.jpg", garbage).exif == {}
