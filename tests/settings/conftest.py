"""A project folder of its own for each test, and `read` to load settings from it without touching this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from workfleet.errors import ConfigError, Problem
from workfleet.settings import Loaded, load


@dataclass
class Project:
    """A project folder. `environ` is the environment of the last call, as it was left."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def read(
        self, env: Mapping[str, str] | None = None, sections: Mapping[str, type[BaseModel]] | None = None, **kw: Any
    ) -> Loaded:
        self.environ = dict(env or {})
        return load(sections, environ=self.environ, cwd=self.folder, **kw)

    def problems(self, env: Mapping[str, str] | None = None, **kw: Any) -> tuple[Problem, ...]:
        """What is wrong; fails where nothing is."""
        with pytest.raises(ConfigError) as caught:
            self.read(env, **kw)
        return caught.value.problems

    def problem(self, env: Mapping[str, str] | None = None, **kw: Any) -> Problem:
        """The only thing that is wrong."""
        found = self.problems(env, **kw)
        assert len(found) == 1, [str(one) for one in found]
        return found[0]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / ".git").mkdir()
    return Project(tmp_path)
