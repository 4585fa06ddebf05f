"""The contact sheet: one HTML page that a person looks at. Knows no jobs."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

from photo_exif import camera, taken
from photo_files import write_atomically
from photo_images import thumbnail_name
from photo_library import Counts, DonePhoto, Library, Rejected
from photo_settings import PhotoSettings

PAGE = Path(__file__).with_name("contact_sheet.html")
PHOTO = Template("""\
<li class="photo">
<a href="$large"><img src="$medium" loading="lazy" alt="$name"></a>
<div class="about">
<p class="name"><i class="swatch" style="background:$colour" title="average colour $colour"></i>$shown_name</p>
<p class="facts">$about</p>
</div>
</li>""")
LIMIT = 500
"""Nobody looks at more on one page, and the page is made anew each time."""


class ContactSheet:
    def __init__(self, library: Library, settings: PhotoSettings) -> None:
        self._library, self._settings = library, settings

    def write(self) -> bool:
        """Bring the page up to date. Returns whether anything on it has changed."""
        library, page = self._library, self._settings.report
        html = render(library.done(limit=LIMIT), library.rejected(limit=LIMIT), library.counts()).encode()
        if page.exists() and page.read_bytes() == html:
            return False
        write_atomically(page, html, temporary=self._settings.temporary)
        return True


def render(done: Sequence[DonePhoto], rejected: Sequence[Rejected], counts: Counts) -> str:
    """Everything that comes from files is text here: a file may be called `<img src=x onerror=…>`."""
    page = Template(PAGE.read_text("utf-8"))
    return page.substitute(done=counts.done, summary=_summary(counts), sheet=_sheet(done), bad=_bad(rejected))


def _summary(counts: Counts) -> str:
    parts = [f"{counts.done} photos"]
    if counts.new:
        parts.append(f"{counts.new} in work")
    if counts.rejected:
        parts.append(f"{counts.rejected} refused")
    if counts.done > LIMIT:
        parts.append(f"the last {LIMIT} are shown")
    return " · ".join(parts)


def _sheet(done: Sequence[DonePhoto]) -> str:
    if not done:
        return '<p class="none">No photos yet. Drop some into the inbox.</p>'
    photos = "\n".join(_photo(photo) for photo in sorted(done, key=lambda photo: photo.path))
    return f'<ul class="sheet">\n{photos}\n</ul>'


def _photo(photo: DonePhoto) -> str:
    facts = photo.facts
    about = [f"{facts.width} × {facts.height} · {facts.format}", camera(facts.exif), taken(facts.exif)]
    lines = [line for line in (*about, facts.exif.get("Position")) if line]
    return PHOTO.substitute(
        large=quote(f"thumbs/{thumbnail_name(photo.sha, 'large')}"),
        medium=quote(f"thumbs/{thumbnail_name(photo.sha, 'medium')}"),
        name=escape(photo.path),
        shown_name=escape(photo.path).replace("_", "_<wbr>"),
        colour=escape(facts.colour),
        about="".join(f"<span>{escape(line)}</span>" for line in lines),
    )


def _bad(rejected: Sequence[Rejected]) -> str:
    if not rejected:
        return ""
    rows = "\n".join(f"<li><b>{escape(file.path)}</b> {escape(file.reason)}</li>" for file in rejected)
    return f'<h2>Refused</h2>\n<ul class="bad">\n{rows}\n</ul>'
