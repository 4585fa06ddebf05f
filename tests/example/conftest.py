"""The example is run as a file, so its folder is on the path: here as well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "media"))

from photo_keeping import Keeper
from photo_library import Library
from photo_page import ContactSheet
from photo_settings import PhotoSettings


@pytest.fixture
def settings(tmp_path: Path) -> PhotoSettings:
    settings = PhotoSettings(inbox=tmp_path / "inbox", data=tmp_path / "data")
    settings.inbox.mkdir()
    return settings


@pytest.fixture
def library(settings: PhotoSettings) -> Library:
    return Library(settings)


@pytest.fixture
def keeper(library: Library, settings: PhotoSettings) -> Keeper:
    return Keeper(library, settings)


@pytest.fixture
def sheet(library: Library, settings: PhotoSettings) -> ContactSheet:
    return ContactSheet(library, settings)
