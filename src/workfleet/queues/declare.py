"""`@queue` and `@handler`: they record, and give the plain function or class back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from workfleet.model.declared import bare_decorator, inherit_guards, mark, marked, unwrap
from workfleet.model.jobtypes import Job, JobType
from workfleet.model.options import HandlerOptions
from workfleet.model.queue import Queue, QueueOptions, payload_bytes
from workfleet.payloads.hints import LazyHint, is_method

P = TypeVar("P")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
Q = ParamSpec("Q")
C = TypeVar("C", bound=type[Any])

_UNKNOWN_OPTION = "{where}: unknown option {name!r}; there are {known}"


@dataclass(frozen=True)
class HandlerSpec:
    """What `@handler` recorded. `fixed` is the job type that was given instead of a name."""

    job: JobType[Any, Any]
    options: HandlerOptions
    fixed: bool


class FunctionHandler(Protocol[P, Q, T_co, R]):
    """A decorated function: itself, and `.job`, its job type."""

    @property
    def job(self) -> JobType[P, R]: ...
    def __call__(self, job: Job[P], /, *args: Q.args, **kwargs: Q.kwargs) -> T_co: ...


class MethodHandler(Protocol[P, Q, T_co, R]):
    """A decorated method: itself, and `.job`, its job type."""

    @property
    def job(self) -> JobType[P, R]: ...
    def __call__(self, owner: Any, job: Job[P], /, *args: Q.args, **kwargs: Q.kwargs) -> T_co: ...
    @overload
    def __get__(self, obj: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, obj: object, owner: type[Any]) -> FunctionHandler[P, Q, T_co, R]: ...


class HandlerDecorator(Protocol):
    """The decorator that takes payload and result types from the function."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Job[P], Q], Coroutine[Any, Any, R]], /
    ) -> FunctionHandler[P, Q, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Any, Job[P], Q], Coroutine[Any, Any, R]], /
    ) -> MethodHandler[P, Q, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job[P], Q], R], /) -> FunctionHandler[P, Q, R, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, Job[P], Q], R], /) -> MethodHandler[P, Q, R, R]: ...


class TypedHandlerDecorator(Protocol[P, R]):
    """As `HandlerDecorator`, with payload and result fixed by a job type."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Job[P], Q], Coroutine[Any, Any, R]], /
    ) -> FunctionHandler[P, Q, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Any, Job[P], Q], Coroutine[Any, Any, R]], /
    ) -> MethodHandler[P, Q, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Job[P], Q], R], /) -> FunctionHandler[P, Q, R, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Any, Job[P], Q], R], /) -> MethodHandler[P, Q, R, R]: ...


@overload
def handler(name: JobType[P, R], /, **options: Unpack[HandlerOptions]) -> TypedHandlerDecorator[P, R]: ...
@overload
def handler(name: str | None = None, /, **options: Unpack[HandlerOptions]) -> HandlerDecorator: ...
def handler(name: Any = None, /, **options: Unpack[HandlerOptions]) -> Any:
    """Declare a function or method as the handler of the jobs of a name, by default its own.

    Its first parameter is `job: Job[P]`; all others are injected by type. Raises TypeError for an unknown option.
    """
    if name is not None and not isinstance(name, str | JobType):
        raise TypeError(bare_decorator("handler", name))
    check_options("handler", options, HandlerOptions.__optional_keys__)

    def record(fn: Any) -> Any:
        plain = unwrap(fn)
        if isinstance(name, JobType):
            job = name.on(options["queue"]) if "queue" in options else name
        else:
            _require_job_parameter(plain)
            # Types of a decorated function are read when they are needed: its module is not complete yet.
            payload: Any = LazyHint(plain, "payload")
            result: Any = LazyHint(plain, "result")
            job = JobType(name or plain.__name__, payload, result, queue=options.get("queue"))
        plain.job = job
        mark(plain, HandlerSpec(job, options, fixed=isinstance(name, JobType)))
        return plain

    return record


def queue(name: str, /, **options: Unpack[QueueOptions]) -> Callable[[C], C]:
    """Bind the handlers of a class to a queue, and say how it is worked off. A handler that names a queue itself keeps
    it.

    `concurrency` is how many of its jobs one worker process runs at once (default: `WORKER_CONCURRENCY`, 10), `weight`
    its share where `WORKER_MAX_JOBS` is less than all queues want. What holds across the fleet: `fleet_concurrency`,
    `rate_limit` ("100/1m"), `group` for every group and `groups` for some, and `max_payload` ("16MB"), the largest
    payload, result and progress. Raises TypeError for an unknown option, ValueError for what cannot be right."""
    if not isinstance(name, str):
        raise TypeError(bare_decorator("queue", name))
    check_options("queue", options, QueueOptions.__optional_keys__)
    said = Queue(name.strip(), **options)

    def record(cls: C) -> C:
        mark(cls, said)
        for attribute in dir(cls):
            _bind(cls, attribute, said)
        return cls

    return record


def _bind(cls: type[Any], attribute: str, queue: Queue) -> None:
    """Give a handler's job the queue. What is inherited becomes the class's own: others inherit it too, for theirs."""
    candidates = (vars(base).get(attribute) for base in cls.__mro__)
    declared = next((fn for fn in candidates if marked(fn, HandlerSpec) is not None), None)
    spec = marked(declared, HandlerSpec)
    if spec is None or spec.job.queue not in (None, queue.name):
        return
    limit = None if queue.max_payload is None else payload_bytes("max_payload", queue.max_payload)
    if spec.job.queue is not None and (limit is None or spec.job.payload_limit is not None):
        return
    fn: Any = inspect.getattr_static(cls, attribute)
    if not inspect.isfunction(fn):
        return  # an override that takes the handler away, or one that the discovery complains about
    inherit_guards(fn, declared)
    if attribute not in vars(cls):
        fn = _copy(fn)
        setattr(cls, attribute, fn)
    # What the job type itself says of its size is kept: its producers may know no more.
    fn.job = spec.job.on(queue.name, payload_limit=spec.job.payload_limit or limit)
    mark(fn, replace(spec, job=fn.job))


def _copy(fn: FunctionType) -> FunctionType:
    copy = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__, copy.__annotations__, copy.__doc__ = fn.__kwdefaults__, fn.__annotations__, fn.__doc__
    copy.__qualname__, copy.__module__ = fn.__qualname__, fn.__module__
    copy.__dict__.update(fn.__dict__)
    return copy


def check_options(where: str, options: object, known: frozenset[str]) -> None:
    """Raise TypeError for a keyword that is no option: a type checker is not always there to say so."""
    assert isinstance(options, dict)
    for name in options:
        if name not in known:
            raise TypeError(_UNKNOWN_OPTION.format(where=where, name=name, known=", ".join(sorted(known))))


def _require_job_parameter(fn: Callable[..., Any]) -> None:
    parameters = list(inspect.signature(fn).parameters.values())[1 if is_method(fn) else 0 :]
    first = str(parameters[0].annotation) if parameters else ""
    if "Job[" not in first and not first.rstrip("'\"").endswith("Job"):
        raise TypeError(f"{fn.__qualname__}: a handler's first parameter is `job: Job[…]` with the payload's type")
