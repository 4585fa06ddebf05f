"""Environments that peers are installed into, each under `.venvs/`, made on first use and when its pins change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .bench import BenchError

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".venvs"
_STAMP = ".installed"
_INSTALL_WITHIN_S = 900
_NPM_NOISE = ("npm error code", "npm error A complete log")
_SHOWN = 300


class Unavailable(BenchError):
    """A peer cannot be had on this machine. The message is the reason."""


@dataclass(frozen=True)
class Pip:
    """Packages from PyPI, pinned as `name==version`, in a virtual environment. `python` None: the version that runs
    the bench; else a version such as "3.12"."""

    name: str
    packages: tuple[str, ...]
    python: str | None = None

    def install(self, home: Path) -> None:
        made = [_interpreter(self.python), "-m", "venv", "--clear", str(home)]
        _done(made, f"making an environment for {self.name}")
        installer = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q"]
        _done([*installer, "install", *self.packages], f"installing {', '.join(self.packages)}")


@dataclass(frozen=True)
class Npm:
    """Packages for Node, pinned as `name@version`, in a folder of their own."""

    name: str
    packages: tuple[str, ...]

    def install(self, home: Path) -> None:
        for tool in ("node", "npm"):
            if shutil.which(tool) is None:
                raise Unavailable(f"it needs {tool}, which is not installed")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        command = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--loglevel=error"]
        _done([*command, *self.packages], f"installing {', '.join(self.packages)}")


Environment = Pip | Npm


def installed(environment: Environment) -> Path:
    """The folder of an environment that has everything in it. Raises Unavailable."""
    home = HOME / f"bench-{environment.name}"
    stamp, wanted = home / _STAMP, repr(environment)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"installing {', '.join(environment.packages)} into .venvs/{home.name}", file=sys.stderr, flush=True)
        environment.install(home)
        stamp.write_text(wanted, encoding="utf-8")
    return home


def _interpreter(version: str | None) -> str:
    """An interpreter of that version, as the other make targets find it."""
    if version is None:
        return sys.executable
    found = subprocess.run(
        [str(ROOT / "tools" / "env.sh"), "--find", version], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        raise Unavailable(f"it needs Python {version}, which is not installed")
    return found.stdout.strip()


def _done(command: list[str], what: str) -> None:
    """Run an installer to its end. Raises Unavailable with the last thing that it said."""
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_INSTALL_WITHIN_S,
            env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{what} failed: {error}") from None
    if ran.returncode != 0:
        raise Unavailable(f"{what} failed: {_problem(ran.stderr or ran.stdout)}")


def _problem(said: str) -> str:
    """The line of an installer's output that says what is wrong: pip's last error, npm's first that is no code."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    of_pip = [line for line in lines if line.startswith("ERROR:")]
    of_npm = [line for line in lines if line.startswith("npm error") and not line.startswith(_NPM_NOISE)]
    told = of_pip[-1:] or of_npm[:1] or lines[-1:] or ["it said nothing"]
    return told[0][:_SHOWN]
