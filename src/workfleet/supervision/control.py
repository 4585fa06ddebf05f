"""What a supervisor and its worker say to each other. `link.py` carries it, a line of JSON each, over a socket pair.

The supervisor gives a worker its `WorkerOrder` in the environment. The worker says `Hello` once it knows its settings
(before it claims anything), `Ready` when it works, `Beat` every second, `Measured` at the interval of metrics, `Told`
when an operator wants something of it, `Kept` when it has stored what it was given, and `Bye` before it exits; or
`Refused` when it cannot start for a reason that another try would not cure. The supervisor says `Drain`, `Lost` for
claims that it could not renew, `Recovered` for runs that it took over, and `Counted` for what it has counted itself.
This file knows what is said, not what anybody does about it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import msgspec
from msgspec import Struct

from ..events import JobRecovered
from ..model.fleet import Instruction
from ..model.jobs import Claim
from ..model.ledger import LedgerKeep
from ..ports.metrics import MetricRow, Sample

ORDER_VARIABLE = "WORKFLEET_WORKER"


class WorkerOrder(Struct, kw_only=True):
    """What a worker is told at its start. `config` is what the command line passes on, in the worker's own terms."""

    app: str
    worker_id: str
    index: int
    """From 0. With `restarts` it tells which worker speaks for the fleet in the start log: index 0, restarts 0."""
    processes: int
    restarts: int
    supervisor_pid: int
    board_fd: int
    control_fd: int
    lifeline_fd: int
    stacks_fd: int
    """Where it writes its stacks when it is asked for them."""
    until_idle: bool = False
    queues: tuple[str, ...] | None = None
    """None: all."""
    config: dict[str, Any] = {}


class MetricsOrder(Struct, frozen=True, kw_only=True):
    """What a worker's settings say of metrics."""

    interval_ms: int
    textfile: str | None = None
    """The file in Prometheus' format that the supervisor keeps up to date; None: none."""


class HttpOrder(Struct, frozen=True, kw_only=True):
    """Where the supervisor answers by HTTP. `host` None: on every address of the machine."""

    port: int
    host: str | None = None


class Hello(Struct, kw_only=True, tag="hello"):
    """The worker has read its settings. `store` is the whole URL, with its secrets: it is never shown. So is `locks`,
    the store of the locks where that is another one."""

    worker_id: str
    pid: int
    app: str
    store: str
    locks: str | None = None
    lease_ms: int
    max_crashes: int
    stuck_after_ms: int
    shutdown_timeout_ms: int
    status_file: str | None
    ledger: LedgerKeep | None = None
    """How long the run ledger keeps its rows; None: there is none."""
    metrics: MetricsOrder | None = None
    """None: nothing is measured."""
    http: HttpOrder | None = None
    """None: nothing is answered."""
    logs: dict[str, Any] | None = None
    """The settings of logs, what the application's code gives among them; None: the supervisor's own stand."""


class Ready(Struct, tag="ready"):
    """The worker claims jobs from now on."""


class Beat(Struct, kw_only=True, tag="beat"):
    """How the worker is. `store_ok_ms` is the monotonic instant of its last successful claim round trip."""

    active: int
    completed: int
    failed: int
    loop_lag_ms: int
    store_ok_ms: int | None
    store_error: str | None
    unready: tuple[str, ...] = ()
    """Why the worker is not ready although it runs, a sentence each: a pool that has failed, for example."""
    pools: dict[str, Any] = {}
    details: dict[str, Any] = {}


class Measured(Struct, tag="measured"):
    """All that the worker has measured, as it stands."""

    samples: list[Sample]


class Kept(Struct, tag="kept"):
    """What `Counted` gave is in the metric store, up to this number."""

    number: int


class Told(Struct, tag="told"):
    """What an operator told the worker, in the store; None: he took it back. For "stop" and "recycle" it is drained."""

    instruction: Instruction | None


class Bye(Struct, kw_only=True, tag="bye"):
    """The worker's work is over and it exits. `refused` are services that did not stop in time."""

    completed: int
    failed: int
    given_back: int
    refused: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """What a person should know at the end, a sentence each."""


class Refused(Struct, kw_only=True, tag="refused"):
    """The worker cannot start. The supervisor shows `message`, the worker nothing, and ends with `exit_code`."""

    exit_code: int
    message: str


class Drain(Struct, kw_only=True, tag="drain"):
    """Stop claiming, end what runs within `timeout_ms`, give the rest back, say `Bye` and exit.

    A worker that is still there two seconds later (less, for short timeouts) is killed.
    """

    timeout_ms: int


class Lost(Struct, kw_only=True, tag="lost"):
    """This claim is somebody else's by now: the run behind it should stop. It may have been settled meanwhile."""

    claim: Claim


class Recovered(Struct, kw_only=True, tag="recovered"):
    """The supervisor has taken over this run of a worker that died. The application's listeners are told by a worker,
    because they are code of the user."""

    run: JobRecovered


class Counted(Struct, tag="counted"):
    """What the supervisor has counted: the worker writes it to the metric store as it is, and answers `Kept`. Numbers
    ascend; one that dies without an answer is followed by another one, which is given the same."""

    number: int
    rows: list[MetricRow]


FromWorker = Hello | Ready | Beat | Measured | Kept | Told | Bye | Refused
FromSupervisor = Drain | Lost | Recovered | Counted


def read_order(environ: MutableMapping[str, str]) -> WorkerOrder:
    """Take the order out of the environment, so that nothing that this process starts takes itself for a worker.

    Raises KeyError when there is none.
    """
    return msgspec.json.decode(environ.pop(ORDER_VARIABLE), type=WorkerOrder)
