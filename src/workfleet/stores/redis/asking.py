"""How the parts that are about jobs ask a script: the names that every one of them needs, and what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .scripts import Script
from .session import Session

_encoder = msgspec.msgpack.Encoder()


class Asking:
    """Runs scripts that begin with `parts/names.lua`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keys = (session.layout.app("queues"),)
        self._names = (session.layout.prefix, session.layout.app(""))

    async def ask(self, script: Script, asked: Mapping[str, Any]) -> Any:
        """Run a script and return its answer."""
        return await self._session.run(script, self._keys, (*self._names, _encoder.encode(asked)))

    async def change(self, script: Script, asked: Mapping[str, Any]) -> Any:
        """Run a script that answers with the topics that woke, last; wake who waits here; return the rest."""
        *answer, topics = await self.ask(script, asked)
        self._session.announce(topics)
        return answer[0]
