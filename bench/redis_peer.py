"""What peers on Redis have in common: a Valkey of its own for every turn, a program that fills it, a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from .bench import Figures, Subject, Trial, each_turn
from .environments import Pip
from .peer import Peer
from .running import clean_environment, number, run, started
from .valkey import Valkey, serving

CONCURRENCY = 100
"""How many jobs each worker, ours and the peers', may run at once."""
THROUGHPUT = "throughput-redis"


@dataclass(frozen=True)
class Setup:
    """What the programs of a turn get: how much, a folder, the server, and the environment they are installed in."""

    trial: Trial
    server: Valkey

    @property
    def home(self) -> Path:
        assert self.trial.home is not None
        return self.trial.home

    @property
    def environ(self) -> dict[str, str]:
        return clean_environment(
            BENCH_FOLDER=str(self.trial.folder),
            BENCH_SIZE=str(self.trial.size),
            BENCH_REDIS=self.server.url,
            BENCH_REDIS_PORT=str(self.server.port),
            BENCH_CONCURRENCY=str(CONCURRENCY),
            BENCH_HOME=str(self.home),
        )


Commands = Callable[[Setup], Sequence[str]]
"""The command that starts a program of a peer."""


@contextmanager
def setup(trial: Trial, share: float = 1.0) -> Iterator[Setup]:
    """A turn's server, and its part of our jobs: a slow peer gets fewer, so that it works for some seconds too."""
    with serving(trial.folder) as server:
        yield Setup(replace(trial, size=max(round(trial.size * share), 1)), server)


def throughput(fill: Commands, work: Commands, share: float) -> Subject:
    """Jobs a second from the first job's start to the end of the last one, filled in before."""

    def turn(trial: Trial) -> Figures:
        with setup(trial, share) as turned:
            folder = trial.folder
            run(fill(turned), folder, turned.environ)
            with started(work(turned), folder, turned.environ) as worker:
                begun_s = worker.wait_for_file("first")
                ended_s = worker.wait_for_file("last")
        return {"jobs_per_s": turned.trial.size / (ended_s - begun_s)}

    return each_turn(turn)


def enqueue(fill: Commands) -> Subject:
    """Jobs a second that the filling program has enqueued, by its own account."""

    def turn(trial: Trial) -> Figures:
        with setup(trial) as turned:
            said = run(fill(turned), trial.folder, turned.environ)
        return {"jobs_per_s": number(said, "the peer's producer")}

    return each_turn(turn)


def python_peer(
    name: str,
    options: str,
    packages: Sequence[str],
    program: str,
    worker: Sequence[str],
    *,
    share: float,
    python: str | None = None,
    more: Mapping[str, Subject] | None = None,
) -> Peer:
    """A peer in Python. `program` is a module of `bench/programs`: run as a script it fills the queue; `worker` is the
    command that works it off, from the environment's `bin`."""

    def fill(turned: Setup) -> Sequence[str]:
        return [str(turned.home / "bin" / "python"), "-m", f"bench.programs.{program}"]

    def work(turned: Setup) -> Sequence[str]:
        return [str(turned.home / "bin" / worker[0]), *worker[1:]]

    subjects = {THROUGHPUT: throughput(fill, work, share), **(more or {})}
    return Peer(name, options, Pip(name, tuple(packages), python), subjects)
