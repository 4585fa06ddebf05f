"""Holds the size of files: 400 lines fails, 250 is a smell and is only named. Knows nothing of the product."""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 400
SMELL = 250
FOLDERS = ("src", "tests", "examples", "bench", "tools")


def sizes(root: Path) -> list[tuple[int, Path]]:
    """Line counts of the project's Python files, longest first."""
    files = (path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    counted = ((len(path.read_bytes().splitlines()), path.relative_to(root)) for path in files)
    return sorted(counted, reverse=True)


def main(root: Path) -> int:
    """Prints what is too long or nearly so. Returns the exit code."""
    too_long = False
    for lines, path in sizes(root):
        if lines > LIMIT:
            print(f"{path}: {lines} lines, {LIMIT} at most: split it by what it does")
            too_long = True
        elif lines > SMELL:
            print(f"{path}: {lines} lines (a smell above {SMELL})")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent.parent))
