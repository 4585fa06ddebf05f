"""`workfleet probe live|ready|startup`: judges the supervisor's status file. Standard library only, and little of it.

The file's format, its places and how each check judges are defined at the head of `workfleet/app/status.py`; nothing of
the product but that judgement, and whether the process is there, may be imported here, and neither argparse, pathlib
nor (unless asked for JSON) json, which cost more than the rest together.
"""

from __future__ import annotations

import os
import sys
import time

from workfleet.app.judging import CHECKS, MAX_AGE_MS, health_notes, is_elsewhere, judge, notes, sentence
from workfleet.app.presence import why_gone
from workfleet.supervision.seen import boot

OK, FAILED, USAGE = 0, 1, 2
MARKS = ("workfleet.yaml", "workfleet.yml", "pyproject.toml", ".git")
SUFFIX = ".status.json"
MEMORY_FOLDER = "/dev/shm"
_KIND, _FILE = 0o170000, 0o100000
"""S_IFMT and S_IFREG, without importing `stat`."""

HELP = """\
Usage: workfleet probe live|ready|startup [OPTIONS]

  Judge a running fleet by its status file, for exec probes. Exits 0 when it passes, 1 when not, 2 for wrong usage.

  live      the supervisor runs and makes progress, and no worker is stuck. Never depends on the store
  ready     live, and at least one worker is ready and has reached the store
  startup   the fleet has been ready since it started

Options:
  --status-file PATH  the file (else WORKER_STATUS_FILE, else .workfleet/<app>.status.json in the project)
  --app NAME          which app, where several run in one project
  --max-age DURATION  how old the file may be (15s)
  --json              one JSON document instead of a sentence
  -v, --verbose       what each worker says, too: as lines, with --json whole
  -h, --help          this text"""


class Misuse(Exception):
    """The command was given something that makes no sense."""


class Options:
    """What the command line asks for."""

    def __init__(self) -> None:
        self.check = ""
        self.status_file = os.environ.get("WORKER_STATUS_FILE") or None
        self.app: str | None = None
        self.max_age_ms = MAX_AGE_MS
        self.json = self.verbose = self.help = False


def main(arguments: list[str]) -> int:
    """Run the probe. Returns the exit code; prints one line on standard output, or on standard error for a misuse."""
    try:
        options = parse(arguments)
        if options.help:
            _print(HELP)
            return OK
        places = find(options)
    except Misuse as misuse:
        sys.stderr.write(f"workfleet probe: {misuse}\n")
        return USAGE
    path, status, problem = read(places)
    if status is None:
        return _report(options, path, {}, None, problem, [])
    try:
        here = boot()
        gone = why_gone(status, here)
        age_ms, reason = judge(options.check, status, options.max_age_ms, _monotonic_ms(), here, gone)
        noted = [] if age_ms is None else notes(options.check, status, _monotonic_ms())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return _report(options, path, {}, None, f"{path} is not a status file ({type(error).__name__}: {error})", [])
    return _report(options, path, status, age_ms, reason, noted)


def parse(arguments: list[str]) -> Options:
    """Read the command line. Raises `Misuse`."""
    options, left = Options(), list(arguments)
    while left:
        argument = left.pop(0)
        name, joined, value = argument.partition("=")
        if name in ("--status-file", "--app", "--max-age"):
            if not joined:
                if not left:
                    raise Misuse(f"{name} needs a value")
                value = left.pop(0)
            if name == "--status-file":
                options.status_file = value
            elif name == "--app":
                options.app = value
            else:
                options.max_age_ms = _duration_ms(value)
        elif argument in ("-h", "--help"):
            options.help = True
        elif argument == "--json":
            options.json = True
        elif argument in ("-v", "--verbose"):
            options.verbose = True
        elif argument in CHECKS and not options.check:
            options.check = argument
        else:
            raise Misuse(f"{argument!r} is not understood. Try: workfleet probe --help")
    if not options.check and not options.help:
        raise Misuse("say which check: live, ready or startup")
    return options


def find(options: Options) -> list[str]:
    """Where the status file may be, the wanted place first. Raises `Misuse` when several apps could be meant."""
    if options.status_file:
        return _with_fallbacks(os.path.abspath(options.status_file))
    try:
        folder = os.path.join(project_root(os.getcwd()), ".workfleet")
    except FileNotFoundError:
        raise Misuse("the current folder does not exist any more. Say which file with --status-file") from None
    if options.app:
        kept = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in options.app)
        return _with_fallbacks(os.path.join(folder, kept + SUFFIX))
    names = sorted({*_status_files(folder), *_fallbacks_of(folder)})
    if len(names) > 1:
        apps = ", ".join(name.removesuffix(SUFFIX) for name in names)
        raise Misuse(f"several apps have a status file in {folder}: {apps}. Say which with --app")
    return _with_fallbacks(os.path.join(folder, names[0])) if names else [os.path.join(folder, "<app>" + SUFFIX)]


def read(places: list[str]) -> tuple[str, dict[str, object] | None, str]:
    """The latest file of these places, or why there is none: (path, document, reason)."""
    best: tuple[str, dict[str, object]] | None = None
    problem, here = "", boot()
    for place in places:
        try:
            status = decoded(_content(place))
            if not isinstance(status, dict):
                raise ValueError("no status file")
            written = _written(status, here)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError) as error:
            problem = problem or f"{place} cannot be read ({error})"
            continue
        if best is None or written > _written(best[1], here):
            best = (place, status)
    if best is not None:
        return best[0], best[1], ""
    hint = "is the fleet running? (--status-file and WORKER_STATUS_FILE name another place)"
    return places[0], None, problem or f"there is no status file {places[0]}: {hint}"


def _written(status: dict[str, object], here: str) -> tuple[bool, int]:
    """Greater for a document that was written later. On this boot the monotonic clock tells, which nobody sets back.
    Raises ValueError for what is no status document."""
    wall, mono = status.get("written_ms"), status.get("written_mono_ms")
    if not isinstance(wall, int):
        raise ValueError("no status file")
    return (True, mono) if here and isinstance(mono, int) and not is_elsewhere(status, here) else (False, wall)


def _content(place: str) -> bytes:
    """A file's content. Raises OSError, and ValueError for what is no file: opening a pipe would wait for a writer."""
    with open(place, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
        if os.fstat(file.fileno()).st_mode & _KIND != _FILE:
            raise ValueError("it is no file")
        return file.read()


class _Scanning:
    """What the interpreter's JSON scanner is told: nothing unusual."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def decoded(document: bytes) -> object:
    """A JSON document. Raises ValueError or RecursionError.

    `json` costs as much as starting Python (it imports `re`, and that `enum`), its scanner in C nothing. Whatever the
    scanner does not take at once, `json` judges: white space, an error, or another Python that has no such scanner.
    """
    text = document.decode()
    try:
        from _json import make_scanner

        value, end = make_scanner(_Scanning)(text, 0)  # type: ignore[arg-type]
        if end == len(text):
            return value
    except (ImportError, SystemError, TypeError, StopIteration, ValueError):
        pass  # a SystemError is its way to say that it has an error for which `json` would have to be there
    import json

    return json.loads(text)


def project_root(cwd: str) -> str:
    """The nearest folder at or above `cwd` that is marked as a project's, else `cwd`."""
    folder = cwd
    while True:
        if any(os.path.exists(os.path.join(folder, mark)) for mark in MARKS):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return cwd
        folder = above


def _report(
    options: Options, path: str, status: dict[str, object], age_ms: int | None, reason: str, noted: list[str]
) -> int:
    passed = not reason
    workers = status.get("workers")
    workers = workers if isinstance(workers, list) else []
    if options.json:
        import json

        document = {
            "check": options.check,
            "ok": passed,
            "reason": reason,
            "notes": noted,
            "app": status.get("app"),
            "state": status.get("state"),
            "age_ms": age_ms,
            "status_file": path,
        }
        _print(json.dumps(document | ({"workers": workers} if options.verbose else {})))
        return OK if passed else FAILED
    _print(f"{options.check}: {sentence(reason, noted)}")
    if options.verbose:
        _print(f"  app {status.get('app', '?')}, {path}, {'?' if age_ms is None else age_ms} ms old")
        for worker in workers:
            for line in _worker_lines(worker) if isinstance(worker, dict) else ():
                _print(line)
    return OK if passed else FAILED


def _worker_lines(worker: dict[str, object]) -> list[str]:
    """A worker for people: where it runs, what it has done, when it was heard of, and a line for each thing to say."""
    process = "no process" if worker.get("pid") is None else f"process {worker['pid']}"
    did = ", ".join(f"{name} {worker.get(name, '?')}" for name in ("active", "completed", "failed", "restarts"))
    up = _seconds(worker.get("uptime_ms"))
    heard, reached = _ago(worker.get("beat_age_ms")), _ago(worker.get("store_ok_age_ms"))
    lines = [
        f"  worker {worker.get('index')}: {worker.get('state')}, {process}, up {up}, {did}",
        f"    heard of {heard}, store reached {reached}, event loop late by {worker.get('loop_lag_ms', '?')} ms",
    ]
    told = {
        "told to": worker.get("instruction"),
        "runs": worker.get("running"),
        "not ready": worker.get("unready"),
        "store": worker.get("store_error"),
        "before": worker.get("last_exit"),
    }
    for name, value in told.items():
        each = value if isinstance(value, list) else [value]
        lines += [f"    {name}: {' '.join(str(one).split())}" for one in each if one]
    return lines + [f"    {note}" for note in health_notes(worker)]


def _ago(age_ms: object) -> str:
    return f"{_seconds(age_ms)} before" if isinstance(age_ms, int) else "not yet"


def _seconds(ms: object) -> str:
    return f"{ms / 1000:.1f} s" if isinstance(ms, int) else "?"


def _with_fallbacks(path: str) -> list[str]:
    name = _fallback_name(path)
    return [path, *(os.path.join(folder, name) for folder in _fallback_folders())]


def _fallbacks_of(folder: str) -> list[str]:
    """Names of this project's status files in the fallback folders, as they would be in `folder`."""
    found = []
    for name in [name for each in _fallback_folders() for name in _status_files(each)]:
        _, _, plain = name.partition("-")
        if name == _fallback_name(os.path.join(folder, plain)):
            found.append(plain)
    return found


def _fallback_folders() -> list[str]:
    folders = [os.environ.get("TMPDIR") or "/tmp", MEMORY_FOLDER]
    return list(filter(_is_own, [os.path.join(folder, f"workfleet-{os.getuid()}") for folder in folders]))


def _is_own(folder: str) -> bool:
    """Whether a folder is there and nobody else's: everybody may write to those that they are in."""
    try:
        return os.lstat(folder).st_uid == os.getuid()
    except OSError:
        return False


def _fallback_name(path: str) -> str:
    from binascii import crc32

    return f"{crc32(os.fsencode(path)):08x}-{os.path.basename(path)}"


def _status_files(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(SUFFIX) and not name.startswith(".")]
    except OSError:
        return []


def _duration_ms(text: str) -> int:
    for unit, factor in (("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)):
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdigit() and number.isascii():
            return round(float(number) * factor)
    raise Misuse(f"--max-age: {text!r} is no duration such as 15s, 500ms or 2m")


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1000)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
