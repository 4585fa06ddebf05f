"""What the HTTP port shows: the three probes, judged as `workfleet probe` does it, and the metrics of all workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from workfleet.app.judging import CHECKS, MAX_AGE_MS, judge, notes, sentence
from workfleet.app.status import Status
from workfleet.observe.metrics.exposition import CONTENT_TYPE, exposition
from workfleet.ports.metrics import Sample

from .http_port import Answer, Page

_PATHS: Final = {"live": "/livez", "ready": "/readyz", "startup": "/startupz"}


def pages_of(status: Callable[[], Status], samples: Callable[[], Iterable[Sample]]) -> dict[str, Page]:
    """The pages by their paths. Probes answer 200 or 503 with a sentence; `?verbose` adds the status document."""

    def probe(check: str) -> Page:
        def page(query: str) -> Answer:
            now = status()
            # As a reader of the file gets it: values of another kind would be judged otherwise.
            told = msgspec.json.decode(msgspec.json.encode(now))
            _, reason = judge(check, told, MAX_AGE_MS, now.written_mono_ms)
            text = f"{check}: {sentence(reason, notes(check, told, now.written_mono_ms))}\n"
            if "verbose" in query.split("&"):
                text += msgspec.json.format(msgspec.json.encode(now), indent=2).decode() + "\n"
            return Answer(503 if reason else 200, text)

        return page

    def metrics(query: str) -> Answer:
        return Answer(200, exposition(samples()), CONTENT_TYPE)

    return {**{_PATHS[check]: probe(check) for check in CHECKS}, "/metrics": metrics}
