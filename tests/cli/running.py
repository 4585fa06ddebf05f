"""A `workfleet` process that runs, and what it has written to standard error so far."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from .conftest import Project, wait_for


class Running:
    """Lines are collected by a thread, so that a test can wait for one with a deadline."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.seen: list[psutil.Process] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_for(self, text: str, *, after: int = 0) -> int:
        """Wait for a line with that text. Returns how many lines there are up to it."""

        def found() -> int | None:
            return next((n for n, line in enumerate(self.lines[after:], after + 1) if text in line), None)

        try:
            return int(wait_for(found, f"a line with {text!r}"))
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{''.join(self.lines)}") from None

    def family(self) -> list[psutil.Process]:
        """The process and everything below it."""
        process = psutil.Process(self.process.pid)
        self.seen = [process, *process.children(recursive=True)]
        return self.seen

    def end(self) -> tuple[int, str]:
        """Wait for its end. Returns exit code and standard output."""
        code = self.process.wait(30)
        self._reader.join(30)
        assert self.process.stdout is not None
        return code, self.process.stdout.read()


@contextmanager
def running(project: Project, *arguments: str, **environ: str) -> Iterator[Running]:
    """Start a command; when the body has failed, nothing of it is left behind."""
    process = project.start(*arguments, **environ)
    run = Running(process)
    try:
        yield run
    finally:
        if process.poll() is None:
            run.family()
        for one in run.seen:  # an orphan of a process that is gone, too
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait(30)
        run._reader.join(30)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
