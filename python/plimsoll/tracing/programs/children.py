"""Other Python programs that a program starts: they run as they are, and are not traced."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import Any

from ...failure import Failure
from ..standins.patches import Patches

_LAUNCHERS = ("python", "torchrun", "accelerate", "deepspeed")


class Children:
    def __init__(self) -> None:
        self.started: list[str] = []

    def install(self, patches: Patches) -> None:
        start = subprocess.Popen.__init__

        def __init__(process: Any, args: Any, *rest: Any, **options: Any) -> None:
            self._learn(args)
            start(process, args, *rest, **options)

        patches.set(subprocess.Popen, "__init__", __init__)
        run = os.system

        def system(command: Any) -> int:
            self._learn(command)
            return run(command)

        patches.set(os, "system", system)

    def _learn(self, args: Any) -> None:
        text = args if isinstance(args, str) else ""
        try:
            words = shlex.split(text) if text else [os.fsdecode(word) for word in args]
        except (TypeError, ValueError):
            return
        if words and os.path.basename(words[0]).startswith(_LAUNCHERS):
            self.started.append(shlex.join(words)[:200])

    def check(self, uses_gpu: bool) -> None:
        """A program that put nothing on the GPU has no answer."""
        if uses_gpu:
            return
        if self.started:
            raise Failure(
                "program-starts-others",
                f"the program used no GPU itself; it started: {self.started[-1]}",
                "estimate that command instead",
            )
        raise Failure(
            "program-without-gpu",
            "the program ended and put nothing on the GPU",
            "check its arguments: it may choose the CPU, or end before it trains",
        )
