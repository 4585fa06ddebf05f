"""The memory indicator: how near the process is to being killed for memory."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.ports.metrics import ProcessReader

from .cgroup import CgroupMemory, read_cgroup_memory
from .indication import Indication, judged


class MemoryIndicator:
    """The share of the control group's limit that is used, by its working set or by this process, whichever is more.

    The kernel kills by the group's use, children included. Without a limit: this process's share of the machine.
    """

    name = "memory"

    def __init__(
        self,
        read: ProcessReader,
        host_bytes: int,
        *,
        cgroup: Callable[[], CgroupMemory | None] = read_cgroup_memory,
        degraded_from: float = 0.8,
        unhealthy_from: float = 0.95,
        critical: bool = False,
    ) -> None:
        self._read, self._host_bytes, self._cgroup = read, host_bytes, cgroup
        self._degraded_from, self._unhealthy_from = degraded_from, unhealthy_from
        self.critical = critical

    async def check(self) -> Indication:
        rss, group = self._read().rss_bytes, self._cgroup()
        if group is not None and group.limit < self._host_bytes:
            used, limit, whose = max(rss, group.used), group.limit, "the memory limit"
        else:
            used, limit, whose = rss, self._host_bytes, "the machine's memory"
        share = used / limit
        status = judged(share, self._degraded_from, self._unhealthy_from)
        reason = "" if status == "healthy" else f"{share:.0%} of {whose} is used ({used} of {limit} bytes)"
        return Indication(status, {"rss_bytes": rss, "used_bytes": used, "limit_bytes": limit, "share": share}, reason)
