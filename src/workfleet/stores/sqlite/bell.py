"""Wakes other processes on the same file: a datagram socket for each, in a folder beside the file.

A hint, nothing more: a message can be lost, so whoever waits polls as well. Where there are no Unix datagram sockets,
nobody is woken and polling is all there is.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

_PATH_LIMIT = 100
"""macOS allows 104 bytes for a socket's path with its NUL, Linux 108."""
_NAME_LENGTH = 21
_MESSAGE_LIMIT = 1_500
"""macOS refuses datagrams above 2 KiB."""
_BIND_TRIES = 10
_FAMILY: int | None = getattr(socket, "AF_UNIX", None)


class Ring(Struct, frozen=True, array_like=True):
    """A message: which topics of an app changed. None: too many to say."""

    app: str
    topics: tuple[str, ...] | None


_rings = msgspec.json.Decoder(Ring)


def folder_for(path: Path) -> Path:
    """Where a file's sockets are: beside it, or in the temporary folder where that path would be too long."""
    beside = Path(f"{path}.wake")
    if len(os.fsencode(beside)) + 1 + _NAME_LENGTH <= _PATH_LIMIT:
        return beside
    digest = hashlib.blake2b(os.fsencode(path.absolute()), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"workfleet-{digest}.wake"


class Bell:
    """One store's end: hears what other processes ring, and rings them."""

    def __init__(self, path: Path, app: str) -> None:
        self._folder, self._app = folder_for(path), app
        self._ear: socket.socket | None = None
        self._mouth: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own = f"{secrets.token_hex(8)}.sock"
        self._given_up = False
        self._ringing = threading.Lock()
        """What has a mouth is in the writer's thread; closing it is in the loop."""
        self._closed = False

    def listen(self, heard: Callable[[Ring], None]) -> None:
        """Call `heard` in this event loop for every message to our app, from now on. Once is enough."""
        if self._ear is not None or self._given_up:
            return
        self._given_up = True
        if _FAMILY is None:
            return
        try:
            ear = self._bound(_FAMILY)
        except OSError:
            self._given_up = False  # too many open files, say: the next one who looks tries again
            return
        if ear is None:
            return
        try:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(ear.fileno(), self._hear, ear, heard)
        except (OSError, NotImplementedError):
            ear.close()
            return
        self._ear = ear

    def ring(self, topics: Iterable[str]) -> None:
        """Tell every other listener, without waiting for any. Called from the writer's thread. Raises `OSError` where
        there can be no socket."""
        if _FAMILY is None:
            return
        try:
            names = [name for name in os.listdir(self._folder) if name != self._own and name.endswith(".sock")]
        except OSError:
            return
        if not names:
            return
        message = msgspec.json.encode(Ring(self._app, tuple(topics)))
        if len(message) > _MESSAGE_LIMIT:
            message = msgspec.json.encode(Ring(self._app, None))
        with self._ringing:
            if self._closed:
                return
            if self._mouth is None:
                self._mouth = socket.socket(_FAMILY, socket.SOCK_DGRAM)
                self._mouth.setblocking(False)
            for name in names:
                _send(self._mouth, message, self._folder / name)

    def close(self) -> None:
        """Stop listening. To be called in the loop that listens; nobody is rung any more."""
        if self._ear is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._ear.fileno())
            self._ear.close()
            (self._folder / self._own).unlink(missing_ok=True)
            self._ear = None
            self._remove_folder()
        with self._ringing:
            self._closed = True
            if self._mouth is not None:
                self._mouth.close()
                self._mouth = None
        self._given_up = True

    def _bound(self, family: int) -> socket.socket | None:
        """A socket in the folder. Whoever closes last may remove that just before this one is in it: then once more.
        Raises `OSError` where none can be made."""
        for _ in range(_BIND_TRIES):
            if not self._folder_is_ours():
                return None
            ear = socket.socket(family, socket.SOCK_DGRAM)
            try:
                ear.setblocking(False)
                ear.bind(str(self._folder / self._own))
            except FileNotFoundError:
                ear.close()
            except OSError:
                ear.close()
                return None
            else:
                return ear
        return None

    def _remove_folder(self) -> None:
        """Leave nothing behind, if no other process listens: the sockets of killed ones go first."""
        if _FAMILY is None:
            return
        try:
            with socket.socket(_FAMILY, socket.SOCK_DGRAM) as probe:
                probe.setblocking(False)
                for name in os.listdir(self._folder):
                    # A listener takes an empty message for garbage.
                    _send(probe, b"", self._folder / name)
            self._folder.rmdir()
        except OSError:
            pass  # somebody listens, or was faster

    def _hear(self, ear: socket.socket, heard: Callable[[Ring], None]) -> None:
        while True:
            try:
                message = ear.recv(65_536)
            except OSError:
                return
            try:
                ring = _rings.decode(message)
            except msgspec.MsgspecError:
                continue  # from a newer release: the poll will find what it was about
            if ring.app == self._app:
                heard(ring)

    def _folder_is_ours(self) -> bool:
        """Make the folder. One that somebody else has put in our place is not used."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            facts = self._folder.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077


def _send(by: socket.socket, message: bytes, to: Path) -> None:
    try:
        by.sendto(message, str(to))
    except ConnectionRefusedError:
        with suppress(OSError):
            to.unlink()  # its process was killed
    except OSError:
        pass  # its buffer is full, so it has enough to wake up for, or it has just gone
