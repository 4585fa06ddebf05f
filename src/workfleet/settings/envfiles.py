"""`.env.local` and `.env` of the working directory: read into the environment, never over a variable that exists.

The grammar is python-dotenv's (comments, quotes, `export`, `${VAR}` and `${VAR:-default}`); unlike there, `${VAR}` in
single quotes is left alone, as in a shell. Knows no setting.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from dotenv.parser import Binding, parse_stream
from dotenv.variables import Variable, parse_variables

from .given import Findings, Origin, Source

_FILES = ((".env.local", Source.ENV_LOCAL), (".env", Source.ENV_FILE))
_SINGLE_QUOTED = re.compile(r"\s*(?:export[^\S\r\n]+)?(?:'[^']+'|[^=\s]+)[^\S\r\n]*=[^\S\r\n]*'")


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    literal: bool
    origin: Origin


def read_env_files(cwd: Path, environ: MutableMapping[str, str], findings: Findings) -> Mapping[str, Origin]:
    """Add what the two files say to `environ`. Returns where each variable was written that has its value from them.

    A variable that has the same value already counts as read from the file: a child inherits it from its parent, and
    its messages should name the file.
    """
    lines: dict[str, _Line] = {}
    for name, source in _FILES:
        for key, line in _read(cwd / name, source, findings).items():
            lines.setdefault(key, line)
    values = _Expansion(lines, dict(environ), findings)
    origins: dict[str, Origin] = {}
    for key, line in lines.items():
        value = values.of(key)
        if "\0" in value or "=" in key:
            findings.problem(key, "a variable cannot hold that: a NUL character, or '=' in its name", None, line.origin)
        elif environ.setdefault(key, value) == value:
            origins[key] = line.origin
    return origins


def _read(path: Path, source: Source, findings: Findings) -> dict[str, _Line]:
    # A folder named .env is a virtual environment.
    if not path.exists() or path.is_dir():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        findings.problem(path.name, f"cannot be read: {reason}")
        return {}
    lines: dict[str, _Line] = {}
    for binding in parse_stream(io.StringIO(text)):
        place = f"{path.name}:{_first_line(binding)}"
        if binding.error:
            findings.problem(place, "this line cannot be read: write NAME=value, and close every quote")
        elif binding.key is not None and binding.value is not None:
            literal = _SINGLE_QUOTED.match(binding.original.string) is not None
            lines[binding.key] = _Line(binding.value, literal, Origin(source, place, binding.key))
    return lines


def _first_line(binding: Binding) -> int:
    """The parser counts blank lines before a binding as part of it."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


class _Expansion:
    """Resolves `${VAR}` from the environment first, then from both files together."""

    def __init__(self, lines: Mapping[str, _Line], environ: Mapping[str, str], findings: Findings) -> None:
        self._lines, self._environ, self._findings = lines, environ, findings
        self._open: set[str] = set()

    def of(self, key: str) -> str:
        line = self._lines[key]
        if line.literal:
            return line.text
        self._open.add(key)
        parts = [
            self._lookup(atom, line) if isinstance(atom, Variable) else atom.resolve({})
            for atom in parse_variables(line.text)
        ]
        self._open.discard(key)
        return "".join(parts)

    def _lookup(self, variable: Variable, line: _Line) -> str:
        name = variable.name
        if name in self._environ:
            return self._environ[name]
        # A variable that holds itself, over any number of steps, has no value.
        if name in self._lines and name not in self._open:
            return self.of(name)
        if variable.default is None:
            self._findings.warn(f"{line.origin}: ${{{name}}} is not set, so nothing stands in its place")
        return variable.default or ""
