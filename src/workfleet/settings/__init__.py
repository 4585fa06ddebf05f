"""Settings: all sources, their precedence, and one message for everything that is wrong.

This is the only place that reads environment variables and settings files. It knows no module's behaviour and connects
to nothing; what a setting means is for whoever reads it.
"""

from __future__ import annotations

from .core import DatabaseSettings, JobOverride, Settings
from .given import Origin, SettingPath, Source
from .health import HealthSettings
from .load import CORE, load
from .loaded import Loaded
from .pools import PoolOverride, PoolsSettings, RestartPolicy
from .redis import RedisSettings, check_redis_url
from .root import project_root
from .sections import (
    BUILT_IN,
    DefaultJobOptions,
    LockSettings,
    LogSettings,
    MetricsSettings,
    SchedulerSettings,
)
from .store import default_store, sqlite_path, sqlite_url, store_scheme

__all__ = [
    "BUILT_IN",
    "CORE",
    "DatabaseSettings",
    "DefaultJobOptions",
    "HealthSettings",
    "JobOverride",
    "Loaded",
    "LockSettings",
    "LogSettings",
    "MetricsSettings",
    "Origin",
    "PoolOverride",
    "PoolsSettings",
    "RedisSettings",
    "RestartPolicy",
    "SchedulerSettings",
    "SettingPath",
    "Settings",
    "Source",
    "check_redis_url",
    "default_store",
    "load",
    "project_root",
    "sqlite_path",
    "sqlite_url",
    "store_scheme",
]
