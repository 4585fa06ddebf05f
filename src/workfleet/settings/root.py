"""Where a project begins. Reads no file's content."""

from __future__ import annotations

import os
from pathlib import Path

CONFIG_NAMES = ("workfleet.yaml", "workfleet.yml")
_MARKS = (*CONFIG_NAMES, "pyproject.toml", ".git")


def project_root(cwd: Path) -> Path:
    """The nearest folder at or above `cwd` that holds workfleet.yaml, pyproject.toml or .git; else `cwd`. Absolute."""
    here = cwd.absolute()
    for folder in (here, *here.parents):
        # os.path.exists answers False where Path.exists raises, such as below a folder that may not be read.
        if any(os.path.exists(folder / mark) for mark in _MARKS):
            return folder
    return here
