"""Writes constraints.txt: the newest releases that the ranges in pyproject.toml allow, direct and transitive.

Run it under the oldest supported Python (`make pins` does), because a release may have dropped that one and the pins
serve all. Lines with a marker are kept as they stand: they are for other interpreters and systems than the one that
runs this.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HEAD = """\
# Exact versions of everything that `make` installs, for Python 3.11 to 3.13. Written by `make pins`; users are given
# the ranges in pyproject.toml instead. Lines with a marker are kept by hand.
"""
RESOLVE = [
    "install",
    "--quiet",
    "--dry-run",
    "--ignore-installed",
    "--report",
    "-",
    "--group",
    "test",
    ".[all]",
    "pip",
    "hatchling",
]


def resolve(root: Path) -> dict[str, str]:
    """Name (normalised as PEP 503 says) to version of all that a full environment holds."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *RESOLVE]
    done = subprocess.run(pip, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    found = (item["metadata"] for item in json.loads(done.stdout)["install"])
    pins = {re.sub(r"[-_.]+", "-", data["name"]).lower(): data["version"] for data in found}
    del pins["workfleet"]
    return pins


def main() -> None:
    root = Path(__file__).parent.parent
    target = root / "constraints.txt"
    kept = [line for line in target.read_text().splitlines() if ";" in line and not line.startswith("#")]
    pinned = [f"{name}=={version}" for name, version in resolve(root).items()]
    target.write_text(HEAD + "\n".join(sorted(kept + pinned)) + "\n")


if __name__ == "__main__":
    main()
