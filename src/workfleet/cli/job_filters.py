"""The options that say which jobs: for listing them, and for doing something to all that match."""

from __future__ import annotations

from functools import wraps
from typing import Any

import click

from ..model.jobs import JobState
from ..queues.filters import JobFilter
from .instants import age_of
from .options import Command

_STATES = click.Choice([state.value for state in JobState])


def filter_options(command: Command) -> Command:
    """The filters; the command gets `filters`, which is empty when none was given."""

    @click.option("--queue", metavar="NAME", help="Only those of this queue.")
    @click.option("--state", "states", multiple=True, type=_STATES, help="Only those in this state; may be repeated.")
    @click.option("--name", metavar="NAME", help="Only those of this name.")
    @click.option("--tag", metavar="TAG", help="Only those with this tag.")
    @click.option("--group", metavar="GROUP", help="Only those of this group.")
    @click.option(
        "--older-than", metavar="AGE", help="Only those created longer ago, such as 1h, or before an instant."
    )
    @click.option("--newer-than", metavar="AGE", help="Only those created within, such as 1d, or since an instant.")
    @click.option("--text", metavar="TEXT", help="Only those with this text in payload or failure.")
    @wraps(command)
    def with_filters(
        *,
        queue: str | None,
        states: tuple[str, ...],
        name: str | None,
        tag: str | None,
        group: str | None,
        older_than: str | None,
        newer_than: str | None,
        text: str | None,
        **rest: Any,
    ) -> int | None:
        given = JobFilter(
            queue=queue,
            states=[JobState(state) for state in states] or None,
            name=name,
            tag=tag,
            group=group,
            older_than=age_of("--older-than", older_than),
            newer_than=age_of("--newer-than", newer_than),
            text=text,
        )
        filters = JobFilter(**{key: value for key, value in given.items() if value is not None})  # type: ignore[typeddict-item]
        return command(filters=filters, **rest)

    return with_filters
