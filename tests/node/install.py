"""Node's packages for the tests: exactly those of the lock file, installed once, outside the source tree's files."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".pytest_cache" / "node"
"""Ignored by git and by pytest's own collection, removed by `make clean`."""
_OLDEST_NODE = 20
_TIMEOUT_S = 300
_UNREACHABLE = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED")


class NoNode(Exception):
    """Node's packages cannot be had on this machine. The text says why."""


def node_modules(source: Path = HERE) -> Path:
    """The folder that holds `node_modules` of a package.json with its lock file. Installs them when they are not there;
    other processes wait meanwhile. Raises `NoNode`."""
    _check_node()
    locked = (source / "package.json").read_bytes() + (source / "package-lock.json").read_bytes()
    folder = CACHE / hashlib.sha256(locked).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(source / name, folder / name)
            _install(folder)
            done.touch()
    return folder


def _check_node() -> None:
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        raise NoNode(f"no {' and no '.join(missing)} on this machine")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < _OLDEST_NODE:
        raise NoNode(f"Node {version} is older than {_OLDEST_NODE}, which bull-board needs")


def _install(folder: Path) -> None:
    # Without scripts: what one of them would build is an optional accelerator.
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoNode(f"npm did not install the packages within {_TIMEOUT_S} s") from None
    if ended.returncode == 0:
        return
    said = (ended.stderr + ended.stdout).strip()
    if _UNREACHABLE.search(said):
        raise NoNode(
            f"npm reaches no registry ({_UNREACHABLE.findall(said)[0]}), and the packages were never installed"
        )
    raise AssertionError(f"npm ci failed:\n{said}")
