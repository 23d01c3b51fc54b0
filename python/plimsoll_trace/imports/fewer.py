"""Imports for one trace in a process of its own: fewer where that is safe, all of them where it failed."""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from plimsoll.failure import Failure

from . import torch_parts, transformers_parts

# Set for the second try, which imports everything.
_ALL = "PLIMSOLL_ALL_IMPORTS"
# Facts about a file, which stay the same however much is imported.
_ABOUT_THE_FILE = frozenset(
    ("config-unreadable", "config-not-json", "config-too-large", "config-no-model-type")
)


@contextmanager
def fewer_imports(options: Namespace) -> Iterator[None]:
    """While entered, torch may be imported; what fails runs once more with all imports.

    A script is the user's own code and may want anything, so it always gets everything; so does
    sharding, which needs most of torch.
    """
    if options.script or options.parallel or os.environ.get(_ALL) or os.name == "nt":
        yield
        return
    torch_parts.substitute()
    if options.config:
        transformers_parts.substitute()
    try:
        yield
    except Exception as error:
        if isinstance(error, Failure) and error.code in _ABOUT_THE_FILE:
            raise
        os.environ[_ALL] = "1"
        sys.stdout.flush()
        sys.stderr.flush()
        # Python 3.9 does not keep how it was called.
        again = [sys.executable, "-m", "plimsoll_trace", *sys.argv[1:]]
        os.execv(sys.executable, getattr(sys, "orig_argv", again))


@contextmanager
def uncollected() -> Iterator[None]:
    """Imports make much and throw away little; looking for garbage meanwhile takes a tenth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
