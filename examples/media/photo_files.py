"""The inbox as a list of files with their content hashes, and safe writing. Knows no pictures, jobs or database."""

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
log = logging.getLogger("media.inbox")


@dataclass(frozen=True)
class File:
    path: str
    """Relative to the inbox, with forward slashes."""
    size: int
    mtime_ns: int
    sha: str


def list_inbox(inbox: Path, known: Mapping[str, File]) -> list[File]:
    """Every picture file there is. A file whose size and time are those in `known` is not read again."""
    return [file for path in _pictures(inbox) if (file := _look_at(inbox, path, known)) is not None]


def _pictures(inbox: Path) -> Iterator[str]:
    for folder, subfolders, names in os.walk(inbox):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES:
                yield (Path(folder) / name).relative_to(inbox).as_posix()


def _look_at(inbox: Path, path: str, known: Mapping[str, File]) -> File | None:
    """One bad file must not stop the others from being found, so it is named in the log and left out."""
    try:
        path.encode()
        facts = (inbox / path).stat()
        before = known.get(path)
        if before is not None and (before.size, before.mtime_ns) == (facts.st_size, facts.st_mtime_ns):
            return before
        with (inbox / path).open("rb") as content:
            sha = hashlib.file_digest(content, "sha256").hexdigest()
    except FileNotFoundError:
        return None  # removed since it was listed
    except UnicodeEncodeError:
        log.warning("left out: the name of %r is not UTF-8; rename the file", path)
        return None
    except OSError as problem:
        log.warning("left out: %s cannot be read: %s", path, problem.strerror)
        return None
    return File(path, facts.st_size, facts.st_mtime_ns, sha)


def write_atomically(path: Path, content: bytes, *, temporary: Path) -> None:
    """The file appears whole or not at all, whenever this process is killed. `temporary`: a folder on the same disk."""
    for folder in (path.parent, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=temporary, prefix=".part-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # or a power cut leaves an empty file under the final name
        os.chmod(part, 0o644)  # mkstemp lets only the owner read
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
