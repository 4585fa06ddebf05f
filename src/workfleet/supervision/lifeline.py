"""Ties a worker to its supervisor: it must not outlive it, whatever it is doing, and only it may end it.

Three things end an orphan, each where the one before cannot: the kernel kills the worker's whole process group when
the supervisor's end of the lifeline (a pipe that nobody writes to) closes (Linux; it needs neither the interpreter lock
nor this process's cooperation, and takes along what user code started); `PR_SET_PDEATHSIG` kills the worker alone
(Linux); a thread that waits on the lifeline does it elsewhere. It knows nothing of what a worker does.
"""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import os
import signal
import sys
import threading

from .stacks import EVERY_THREAD, MAIN_THREAD

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LEFT_TO_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def die_with_parent(lifeline: int, parent: int) -> None:
    """Tie this process group to the process `parent`, which holds the other end of `lifeline`."""
    os.set_inheritable(lifeline, False)
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | fcntl.FASYNC)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    else:
        threading.Thread(target=_wait_and_end, args=(lifeline,), name="workfleet-lifeline", daemon=True).start()
    if os.getppid() != parent:  # it died before we were tied to it
        end_group()


def leave_signals_to_parent() -> None:
    """SIGINT, SIGTERM and SIGHUP do nothing here: when everything is signalled, the supervisor decides what follows.

    The handler does nothing, because an *ignored* signal stays ignored in the programs that user code starts: they
    could not be terminated any more. Forked Python processes get the default back.
    """
    for number in _LEFT_TO_PARENT:
        signal.signal(number, _do_nothing)
    # A worker is not the terminal's foreground group: with `stty tostop`, writing a log line would stop it.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.register_at_fork(after_in_child=_restore_signals)


def dump_on_signal(stacks: int | None = None) -> None:
    """SIGUSR2 writes every thread's stack, also while user code holds the interpreter lock: to the descriptor `stacks`
    (see `Stacks`), or to standard error. With `stacks`, SIGURG writes that of the main thread there."""
    if stacks is None:
        faulthandler.register(EVERY_THREAD, all_threads=True)
        return
    os.set_inheritable(stacks, False)
    faulthandler.register(EVERY_THREAD, stacks, all_threads=True)
    # Chained to the default, which does nothing: only then faulthandler gives `errno` back as it was, without which a
    # lock that could not be taken may seem to be taken.
    faulthandler.register(MAIN_THREAD, stacks, all_threads=False, chain=True)
    restart_calls_when_shown()


def restart_calls_when_shown() -> None:
    """System calls that MAIN_THREAD interrupts begin again, also those of code that does not know of that. To be said
    after each dump: a chained one forgets it."""
    signal.siginterrupt(MAIN_THREAD, False)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans (Linux), so that it can wait until they are gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_group() -> None:
    """End this process and everything that it started and that did not leave its process group."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _wait_and_end(lifeline: int) -> None:
    os.read(lifeline, 1)  # nobody writes: it returns when the other end is closed
    end_group()


def _do_nothing(number: int, stack: object) -> None:
    pass


def _restore_signals() -> None:
    for number in _LEFT_TO_PARENT:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
