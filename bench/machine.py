"""What a figure was measured on: processor, memory, system, versions and the day. Names no host and no path."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import apsw
import psutil


def _processor() -> str:
    """The processor's name as the system tells it, else its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def facts() -> dict[str, str]:
    """Name to value, in the order in which the page shows them."""
    versions = {
        "workfleet": version("workfleet"),
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
    }
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
