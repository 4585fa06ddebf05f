"""The section of process pools: what each pool inherits, and what an operator changes of one by its name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from workfleet.units import Duration, Size

from .kinds import ByName, Count, CountOrZero, NotBool, Span, Text, Tick, Wait, at_least_size, between, said

_FROZEN = ConfigDict(extra="forbid", frozen=True)

Memory: TypeAlias = Annotated[Size, at_least_size("16MB")]
Age: TypeAlias = Annotated[Duration, between("1s", "365d")]
Children: TypeAlias = Annotated[int, Field(ge=1, le=1024), NotBool]
Isolation: TypeAlias = Literal["process", "thread", "inline"]
Supervision: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]
Cores: TypeAlias = Annotated[float, Field(ge=0.01, le=1024), NotBool]


class RestartBackoff(BaseModel):
    """The growing wait before a child is started again."""

    model_config = _FROZEN

    initial: Wait = Field(Duration("1s"), description="First wait.")
    max: Wait = Field(Duration("30s"), description="Longest wait.")
    factor: float = Field(2.0, ge=1, le=100, description="Growth from one wait to the next.")


class RestartPolicy(BaseModel):
    """When a pool's child that died is started again."""

    model_config = _FROZEN

    enabled: bool = Field(True, description="Start children again that died.")
    max_restarts: CountOrZero = Field(
        3,
        description="Deaths within the window, no call completed in between, that the pool survives: times its size, "
        "with one_for_all in all.",
    )
    window: Span = Field(Duration("60s"), description="The window in which they are counted.")
    delay: Wait = Field(Duration("1s"), description="Least time between two starts of a child.")
    backoff: RestartBackoff = Field(default_factory=RestartBackoff, description="Wait before the next ones.")


class HealthCheck(BaseModel):
    """How the children of a pool are asked whether they live."""

    model_config = _FROZEN

    interval: Tick | None = Field(Duration("5s"), description="How often an idle child is asked; none: never.")
    timeout: Span = Field(Duration("2s"), description="How long it may take to answer.")


class Monitoring(BaseModel):
    """What is told of a pool's calls."""

    model_config = _FROZEN

    metrics: bool = Field(True, description="Count and measure calls, and what children use.")
    tracing: bool = Field(False, description="A span for every call.")


class PoolOverride(BaseModel):
    """What an operator changes of one pool by its name. Only what `given()` returns was said."""

    model_config = _FROZEN

    size: Children | Literal["auto"] | None = Field(
        None, description="Children of the pool; auto: one for each processor."
    )
    min_size: Children | None = Field(None, description="Fewest children of a pool that scales itself.")
    max_size: Children | Literal["auto"] | None = Field(None, description="Most children of such a pool.")
    isolation: Isolation | None = Field(None, description="What runs the calls.")
    memory: Memory | None = Field(None, description="Memory limit of a child; none: no limit.")
    soft_memory: Memory | None = Field(None, description="Memory above which a child is replaced after its call.")
    address_space: Memory | None = Field(None, description="Address space of a child; none: no limit.")
    cpu: Cores | None = Field(None, description="Cores of a child; none: no limit.")
    cpu_time: Span | None = Field(None, description="Processor time of a call; none: no limit.")
    call_timeout: Span | None = Field(None, description="Longest call; none: no limit.")
    startup_timeout: Span | None = Field(None, description="Longest start of a child.")
    graceful_timeout: Wait | None = Field(None, description="Time for calls to end when the pool stops.")
    stuck_after: Span | None = Field(None, description="Longest time without progress of a call; none: no limit.")
    max_queue: CountOrZero | None = Field(None, description="Calls that may wait for a free child.")
    max_calls: Count | None = Field(None, description="Calls after which a child is replaced; none: never.")
    max_age: Age | None = Field(None, description="Age at which a child is replaced; none: never.")
    strategy: Literal["least_busy", "round_robin", "power_of_two", "consistent_hash"] | None = Field(
        None, description="Which child gets a call."
    )
    hash_key: Text | None = Field(None, description="Template of the key of `consistent_hash`.")
    supervision: Supervision | None = Field(None, description="Which children are replaced with one that died.")
    restart_policy: RestartPolicy | None = Field(None, description="Restarts.")
    health_check: HealthCheck | None = Field(None, description="Health checks.")
    sweep_interval: Tick | None = Field(None, description="How often dead and stuck children are looked for.")
    monitoring: Monitoring | None = Field(None, description="What is told of its calls.")

    def given(self) -> dict[str, Any]:
        """The overrides by option name, groups as what was said of them. None switches off a limit; elsewhere it says
        nothing."""
        return {
            name: value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
            for name, value in said(self, _CAN_BE_OFF).items()
        }


_CAN_BE_OFF = {
    "memory",
    "soft_memory",
    "address_space",
    "cpu",
    "cpu_time",
    "call_timeout",
    "stuck_after",
    "max_calls",
    "max_age",
}


class PoolsSettings(BaseModel):
    """Pools of child processes."""

    model_config = _FROZEN

    size: Children | Literal["auto"] = Field("auto", description="Children; auto: one for each processor.")
    isolation: Isolation = Field(
        "process", description="What runs the calls: child processes, threads of the worker, or its own event loop."
    )
    restart_policy: RestartPolicy = Field(default_factory=RestartPolicy, description="Restarts.")
    memory: Memory | None = Field(None, description="Memory limit of a child; none: no limit.")
    soft_memory: Memory | None = Field(
        None, description="Memory above which a child is replaced after its call; none: 80 % of `memory`."
    )
    address_space: Memory | None = Field(None, description="Address space of a child; none: no limit.")
    cpu: Cores | None = Field(None, description="Cores of a child, a fraction by cgroup only; none: no limit.")
    cpu_time: Span | None = Field(None, description="Processor time of a call; none: no limit.")
    call_timeout: Span | None = Field(Duration("60s"), description="Longest call; none: no limit.")
    startup_timeout: Span = Field(Duration("30s"), description="Longest start of a child.")
    graceful_timeout: Wait = Field(Duration("30s"), description="Time for calls to end when the pool stops.")
    stuck_after: Span | None = Field(
        Duration("10m"), description="Longest time without progress of a call; none: no limit."
    )
    health_check: HealthCheck = Field(default_factory=HealthCheck, description="Health checks.")
    sweep_interval: Tick = Field(Duration("5s"), description="How often dead and stuck children are looked for.")
    max_queue: CountOrZero = Field(100, description="Calls that may wait for a free child.")
    max_calls: Count | None = Field(None, description="Calls after which a child is replaced; none: never.")
    max_age: Age | None = Field(None, description="Age at which a child is replaced; none: never.")
    strategy: Literal["least_busy", "round_robin", "power_of_two"] = Field(
        "least_busy", description="Which child gets a call."
    )
    supervision: Supervision = Field("one_for_one", description="Which children are replaced with one that died.")
    monitoring: Monitoring = Field(default_factory=Monitoring, description="What is told of calls.")
    overrides: Annotated[dict[str, PoolOverride], ByName(beside=True)] = Field(
        default_factory=dict, description="Overrides of pools by name."
    )

    def inherited(self) -> dict[str, Any]:
        """What each pool inherits, by option name."""
        return self.model_dump(exclude={"overrides"})
