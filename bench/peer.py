"""What a peer is: another program that is measured beside us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .bench import Subject
from .environments import Environment


@dataclass(frozen=True)
class Peer:
    """`subjects` are by the name of the bench they take part in. `options` says, for the page, how it is set up."""

    name: str
    options: str
    environment: Environment
    subjects: Mapping[str, Subject]
