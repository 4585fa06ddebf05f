"""`workfleet version`."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import click

from .. import __version__
from .options import json_option
from .output import write_facts, write_json

_OTHERS = {
    "redis": "redis",
    "hiredis": "hiredis",
    "psycopg": "psycopg",
    "opentelemetry": "opentelemetry-api",
    "otel sdk": "opentelemetry-sdk",
}
"""What decides how it behaves, by the name under which it is shown."""


@click.command("version")
@json_option
def version(*, as_json: bool) -> int:
    """Versions of what is installed: what a bug report needs.

    \b
    Example:
      workfleet version
    """
    facts = {
        "workfleet": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "sqlite": _sqlite(),
        **{name: _installed(package) or "not installed" for name, package in _OTHERS.items()},
        "platform": platform.platform(),
    }
    if as_json:
        write_json(facts)
    else:
        write_facts(facts.items())
    return 0


def _sqlite() -> str:
    """APSW bundles the SQLite of its own number; the last part is its own release."""
    apsw = _installed("apsw")
    return f"{'.'.join(apsw.split('.')[:3])} (apsw {apsw})" if apsw else "missing"


def _installed(package: str) -> str | None:
    try:
        return installed(package)
    except PackageNotFoundError:
        return None
