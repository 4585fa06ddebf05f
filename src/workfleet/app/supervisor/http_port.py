"""The optional HTTP port of a supervisor: probes and metrics, for those that ask by HTTP. Off unless a port is set.

A very small part of HTTP/1.1 (RFC 9112): GET and HEAD, no body is read, each connection is closed after its answer.
However many connections others open and keep, who asks is answered: a probe that fails for them would end the fleet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from workfleet.events import Event, HttpListening, HttpUnavailable
from workfleet.ports.clock import Clock
from workfleet.supervision.control import HttpOrder

from .run import Run

_AGAIN_S: Final = 5.0
_REQUEST_S: Final = 5.0
"""How long a request may take to arrive, and its answer to be taken."""
_LARGEST_HEAD: Final = 16 * 1024
_MOST_AT_ONCE: Final = 64
_SLOW_S: Final = 0.5
"""One who has not been answered for so long gives his place to a newer one where there are too many."""
_MOST_AT_ALL: Final = 512
_LARGEST_REST: Final = 1024 * 1024
_CHUNK: Final = 64 * 1024


class Answer(NamedTuple):
    """What a page says."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Page = Callable[[str], Answer]
"""Makes the answer; it is given the query (what follows the question mark)."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class HttpPort:
    """A Service. It opens the port once a worker has told the settings, and again when it could not be opened."""

    name = "http port"

    def __init__(self, run: Run, pages: dict[str, Page], *, clock: Clock, publish: Callable[[Event], None]) -> None:
        self._run, self._pages, self._clock, self._publish = run, pages, clock, publish
        self._answering: dict[asyncio.Task[None], float] = {}
        """Since when each is there; the oldest first."""
        self._ill = False

    async def serve(self) -> None:
        order = await self._order()
        if order is None:
            return
        while True:
            try:
                server = await asyncio.start_server(self._answer, order.host, order.port, limit=_LARGEST_HEAD)
            except OSError as error:
                self._tell(HttpUnavailable(port=order.port, reason=error.strerror or str(error)))
                await self._clock.sleep(_AGAIN_S)
                continue
            self._ill = False
            self._publish(HttpListening(address=f"{order.host or '*'}:{server.sockets[0].getsockname()[1]}"))
            try:
                await server.serve_forever()
            finally:
                server.close()
                for task in self._answering:
                    task.cancel()

    async def _order(self) -> HttpOrder | None:
        await self._run.met.wait()
        return self._run.hello.http if self._run.hello is not None else None

    def _tell(self, event: HttpUnavailable) -> None:
        if not self._ill:
            self._publish(event)
        self._ill = True

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._make_room()
        self._answering[task] = self._clock.monotonic()
        try:
            # One who sends nothing, or takes nothing, must not hold a place for ever.
            async with asyncio.timeout(_REQUEST_S):
                method, answer = await self._read(reader)
                writer.write(_message(answer, head_only=method == "HEAD"))
                writer.write_eof()
                # To close with something unread would be a reset, which takes the answer along.
                for _ in range(_LARGEST_REST // _CHUNK):
                    if not await reader.read(_CHUNK):
                        break
        except (OSError, TimeoutError):
            pass
        except asyncio.CancelledError:  # closed, or for a newer one; asyncio would log a cancelled handler as an error
            pass
        finally:
            self._answering.pop(task, None)
            writer.transport.abort()

    def _make_room(self) -> None:
        """An answer is made at once when the request is there: the oldest has sent none, or does not take its own."""
        if len(self._answering) < _MOST_AT_ONCE:
            return
        oldest, since = next(iter(self._answering.items()))
        if self._clock.monotonic() - since >= _SLOW_S or len(self._answering) >= _MOST_AT_ALL:
            del self._answering[oldest]
            oldest.cancel()

    async def _read(self, reader: asyncio.StreamReader) -> tuple[str, Answer]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return "", Answer(431, "the request is too long\n")
        except asyncio.IncompleteReadError:
            return "", Answer(400, "the request is not whole\n")
        # Empty lines before the request are ignored (RFC 9112, 2.2).
        method, _, rest = head.lstrip(b"\r\n").split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/1."):
            return "", Answer(400, "that is no HTTP/1 request\n")
        if target.startswith("http://"):  # as to a proxy (RFC 9112, 3.2.2)
            target = f"/{target.removeprefix('http://').partition('/')[2]}"
        path, _, query = target.partition("?")
        page = self._pages.get(path)
        if page is None:
            return method, Answer(404, f"there are {', '.join(self._pages)}\n")
        if method not in ("GET", "HEAD"):
            return method, Answer(405, "ask with GET or HEAD\n")
        return method, page(query)


def _message(answer: Answer, *, head_only: bool) -> bytes:
    body = answer.text.encode()
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET, HEAD"] if answer.status == 405 else []),
    ]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head if head_only else head + body
