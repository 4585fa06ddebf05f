"""Find an application by its locator: `module:attr`, or a file such as `app.py` (attribute `app` unless
`file:attr`)."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from workfleet.errors import ConfigError, Problem

from .app import App
from .locator import is_file, split


def load_app(locator: str) -> App:
    """Import an application. Raises `ConfigError` when it cannot be found; what its own code raises passes through."""
    place, attribute = split(locator)
    module = _from_file(Path(place)) if is_file(place) else _from_module(place)
    found = getattr(module, attribute, None)
    if not isinstance(found, App):
        there = [name for name, value in vars(module).items() if isinstance(value, App)]
        what = f"{place} has no {attribute!r}" if found is None else f"{attribute!r} in {place} is no App but {found!r}"
        advice = f"did you mean {place}:{there[0]}?" if there else f'write `{attribute} = App("…")` in it'
        raise ConfigError(Problem("app", f"{what}: {advice}", locator))
    return found


def _from_module(name: str) -> ModuleType:
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        message = (
            f"the module {name!r} is not found from {Path.cwd()}. An app is `module:attr` or a file such as app.py"
        )
        raise ConfigError(Problem("app", message, name)) from None


def _from_file(path: Path) -> ModuleType:
    """Import a file as a module of its own name, its folder first on the path as `python file.py` would have it."""
    path = path.absolute()
    if not path.is_file():
        raise ConfigError(Problem("app", f"there is no file {path}", str(path)))
    folder, name = str(path.parent), path.stem
    if folder not in sys.path:
        sys.path.insert(0, folder)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(Problem("app", f"{path} is no Python file", str(path)))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
