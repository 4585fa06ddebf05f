"""Every key name of the Redis store. Queues are laid out as BullMQ v6 does it; what is ours alone has names that none
of its maintenance calls touches. Knows names only: no command, no connection."""

from __future__ import annotations

from workfleet.errors import ConfigError, Problem


class Layout:
    """The names of one app's keys. `prefix` is the app's name unless the queues are shared with others.

    In a cluster everything of an app is in one slot, by the hash tag that is the prefix's, or else the whole prefix.
    """

    def __init__(self, app: str, *, prefix: str | None = None, cluster: bool = False) -> None:
        self.prefix = prefix or app
        owner = app
        if cluster:
            tag = _tag(self.prefix)
            if tag is None:
                tag, self.prefix = self.prefix, f"{{{self.prefix}}}"
            if not tag or "}" in tag or "{" in tag:
                raise ConfigError(
                    Problem("queue_prefix", "a cluster needs a hash tag of one pair of braces", self.prefix)
                )
            owner = f"{{{tag}}}" if tag == app else f"{{{tag}}}:{app}"
        self._owner = owner

    def queue(self, name: str, suffix: str) -> str:
        """A key of BullMQ's own: wait, active, delayed, prioritized, completed, failed, meta, events, id, marker…"""
        return f"{self.prefix}:{name}:{suffix}"

    def base(self, name: str) -> str:
        """What every key of a queue begins with, its last colon included."""
        return f"{self.prefix}:{name}:"

    def job(self, queue: str, job_id: str) -> str:
        """A job's hash."""
        return f"{self.prefix}:{queue}:{job_id}"

    def ours(self, queue: str, kind: str) -> str:
        """A key of ours beside a queue's. `kind` is none of BullMQ's suffixes."""
        return f"{self.prefix}:{queue}:wf:{kind}"

    def app(self, kind: str) -> str:
        """A key of ours of the whole app."""
        return f"wf:{self._owner}:{kind}"

    def named(self, kind: str, name: str) -> str:
        """A key of ours for a name that somebody chose. It ends in no name: tools take what ends in :id for a queue."""
        return f"wf:{self._owner}:{kind}:{name}:v"


def _tag(name: str) -> str | None:
    """The hash tag in a name, as a cluster reads it: what is between the first brace and the next closing one."""
    _, brace, rest = name.partition("{")
    tag, closed, _ = rest.partition("}")
    return tag if brace and closed and tag else None
