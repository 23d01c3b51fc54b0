"""A terminal as standard input: programs ask for its size, to draw bars as wide as the screen."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_ROWS, _COLUMNS = 24, 80
# Control-D: a program that reads finds the end of the input, this many times.
_ENDS = b"\x04" * 64


@contextmanager
def as_in_a_terminal() -> Iterator[None]:
    """Traces have no terminal. The program gets a pseudo-terminal, into which nothing is typed."""
    try:
        import fcntl
        import pty
        import termios

        before = os.dup(0)
    except (ImportError, OSError):
        # Not on this system, or started without a standard input.
        yield
        return
    try:
        controller, terminal = pty.openpty()
    except OSError:
        os.close(before)
        yield
        return
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    os.write(controller, _ENDS)
    os.dup2(terminal, 0)
    os.close(terminal)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(controller)
