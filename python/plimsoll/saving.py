"""`plimsoll.checkpointing`: all that a training needs to go on, saved while it runs, and taken up again."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Callable

from .arguments import BadType, mapping, samples, shown, whole
from .arguments import model as torch_model
from .arguments import optimizer as torch_optimizer
from .arguments import path as file_path
from .arguments import seconds as waited
from .bridge import connection
from .failure import Failure
from .recovery.restore import RandomState

log = logging.getLogger("plimsoll")

SCHEMA = 1


# The folder of a training's checkpoints: each file is whole or not there, and the newest few are kept.
#
# A file is named after its step and its SHA-256, so that one rename makes it known together with its check.

NAME = re.compile(r"checkpoint-(\d{12})-([0-9a-f]{64})\.pt")
UNFINISHED = re.compile(r"checkpoint-\d{12}\.tmp")
READ_BYTES = 2**20


class CheckpointFolder:
    """One process at a time has it."""

    def __init__(self, path: str, keep: int) -> None:
        self.path = path
        self._keep = keep
        try:
            os.makedirs(path, exist_ok=True)
            self._lock = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _unwritable(path, error) from error
        _take(self._lock, path)
        for name in os.listdir(path):
            if UNFINISHED.fullmatch(name):
                os.remove(os.path.join(path, name))
        self._remove_old()

    def write(self, step: int, write: Callable[[Any], None]) -> str:
        """When it returns, the checkpoint is on the disk; until then the one before it is the newest."""
        unfinished = os.path.join(self.path, f"checkpoint-{step:012d}.tmp")
        try:
            with open(unfinished, "wb") as file:
                checked = _Checked(file)
                write(checked)
                file.flush()
                os.fsync(file.fileno())
            path = os.path.join(self.path, f"checkpoint-{step:012d}-{checked.digest()}.pt")
            os.replace(unfinished, path)
            self._sync()
            self._remove_old()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
            raise _unwritable(self.path, error) from error
        return path

    def newest(self) -> Iterator[tuple[int, str]]:
        """(step, file) of those that are as they were written, the newest first."""
        for step, path in sorted(self._files(), reverse=True):
            named = NAME.fullmatch(os.path.basename(path))
            if named is not None and _digest_of(path) == named[2]:
                yield step, path

    def count(self) -> int:
        return len(self._files())

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _files(self) -> list[tuple[int, str]]:
        names = ((NAME.fullmatch(name), name) for name in os.listdir(self.path))
        return [(int(found[1]), os.path.join(self.path, name)) for found, name in names if found]

    def _remove_old(self) -> None:
        for _, old in sorted(self._files(), reverse=True)[self._keep :]:
            os.remove(old)

    def _sync(self) -> None:
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class _Checked:
    """A file that is written from its start to its end, and its digest."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return int(self._file.write(data))

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return self._hash.hexdigest()


def _digest_of(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(READ_BYTES):
                digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()


def _take(lock: int, path: str) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise Failure(
            "checkpoints-in-use",
            f"another process writes checkpoints to {path}",
            "name another folder, or end that process",
        ) from error


def _unwritable(path: str, error: OSError) -> Failure:
    return Failure(
        "checkpoints-unwritable",
        f"{path}: {error.strerror or error}",
        "name a folder that can be written to, on a disk with room",
    )


class Checkpointing:
    """Made by `plimsoll.checkpointing`. `steps` counts the batches that are done; `resumed` says whether it went on."""

    def __init__(
        self,
        folder: CheckpointFolder,
        parts: dict[str, Any],
        every: int,
        seconds: float | None,
    ) -> None:
        self.steps = 0
        self.epoch = 0
        self.resumed = False
        self._folder = folder
        self._parts = parts
        self._every = every
        self._seconds = seconds
        self._saved_at = time.monotonic()
        self._saved_steps = 0
        # Of the pass over the data that runs: batches done, and the random numbers that it began with.
        self._done = 0
        self._began: Any = None
        self._bridge = connection.current()
        if self._bridge is not None:
            self._bridge.declare(["checkpoint"], self._bridge.rank, self._bridge.world)

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs that are still to do, the interrupted one first."""
        whole("count", count, 0)
        return self._epochs(count)

    def _epochs(self, count: int) -> Iterator[int]:
        while self.epoch < count:
            yield self.epoch
            self.epoch += 1
            self._done, self._began = 0, None

    def batches(self, data: Any) -> Iterator[Any]:
        """The batches of one pass that are still to do. One is done when the next is asked for; then it is saved.

        An interrupted pass begins with the random numbers that it began with, so that a shuffled loader gives the
        same order; batches that were done are read and skipped.
        """
        return self._batches(samples("data", data))

    def _batches(self, data: Any) -> Iterator[Any]:
        skipped = self._done if self._began is not None else 0
        now = RandomState()
        if self._began is None:
            self._began, self._done = now.as_plain(), 0
        else:
            RandomState.from_plain(self._began).restore()
        running = iter(data)
        if skipped:
            read = sum(1 for _ in islice(running, skipped))
            if read < skipped:
                raise Failure(
                    "position-of-another-dataset",
                    f"the checkpoint was made after {skipped} batches of a pass, but the data has {read}",
                    "use the data that it was saved with, or another folder for checkpoints",
                )
            now.restore()
        for batch in running:
            yield batch
            self._done += 1
            self.step()
        self._done, self._began = 0, None

    def step(self) -> None:
        """A step is done: for loops that do not take their batches from here. Saves when it is time."""
        self.steps += 1
        late = self._seconds is not None and time.monotonic() - self._saved_at >= self._seconds
        if late or self.steps - self._saved_steps >= self._every:
            self.save()

    def save(self) -> str:
        """Writes a checkpoint now; the name of its file. Older ones than the last few are removed."""
        import torch

        state = {
            "schema": SCHEMA,
            "steps": self.steps,
            "epoch": self.epoch,
            "done": self._done,
            "began": self._began,
            "random": RandomState().as_plain(),
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
        }
        path = self._folder.write(self.steps, lambda file: torch.save(state, file))
        self._saved_at, self._saved_steps = time.monotonic(), self.steps
        if self._bridge is not None:
            self._bridge.send({"type": "saved", "steps": self.steps})
        return path

    def resume(self) -> bool:
        """Takes up the newest checkpoint that is whole; False where there is none."""
        import torch

        for _, path in self._folder.newest():
            try:
                state = torch.load(path, map_location="cpu", weights_only=True)
            except Exception as error:
                raise _unusable(path, str(error).splitlines()[0] if str(error) else "") from error
            self._take(path, state)
            log.info("plimsoll: goes on after step %d, from %s", self.steps, path)
            return True
        if self._folder.count():
            fact = f"no checkpoint in {self._folder.path} is as it was written"
            next_step = "restore one from a backup, or remove the folder to start anew"
            raise Failure("checkpoints-damaged", fact, next_step)
        return False

    def close(self) -> None:
        """Another process may have the folder now. Nothing is saved."""
        self._folder.close()

    def __enter__(self) -> Checkpointing:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _take(self, path: str, state: Any) -> None:
        if not isinstance(state, dict) or state.get("schema") != SCHEMA:
            raise _unusable(path, "it was written by another version")
        saved = state["parts"]
        if set(saved) != set(self._parts):
            names = ", ".join(sorted(saved))
            raise _unusable(path, f"it holds {names}; this program has {', '.join(self._parts)}")
        for name, part in self._parts.items():
            try:
                part.load_state_dict(saved[name])
            except (RuntimeError, ValueError, KeyError, TypeError) as error:
                raise _unusable(path, f"{name}: {str(error).splitlines()[0]}") from error
        self.steps = self._saved_steps = state["steps"]
        self.epoch, self._done, self._began = state["epoch"], state["done"], state["began"]
        RandomState.from_plain(state["random"]).restore()
        self.resumed = True


def checkpointing(
    folder: str,
    model: Any,
    optimizer: Any = None,
    *,
    scheduler: Any = None,
    scaler: Any = None,
    also: dict[str, Any] | None = None,
    every: int = 100,
    seconds: float | None = None,
    keep: int = 2,
) -> Checkpointing:
    """Saves a training while it runs, and goes on from the newest checkpoint when it is started again.

        saved = plimsoll.checkpointing("checkpoints", model, optimizer, scheduler=scheduler)
        for epoch in saved.epochs(10):
            for batch in saved.batches(loader):
                step(batch)

    A checkpoint holds the model, the optimizer, `scheduler`, `scaler`, what `also` names (anything with
    `state_dict` and `load_state_dict`), every generator of random numbers and the position in the data.
    One is written after `every` batches, or after `seconds`; the last `keep` stay. Call it when all of
    these are made, right before the loop.
    """
    torch_model("model", model)
    torch_optimizer("optimizer", optimizer)
    whole("every", every, 1)
    whole("keep", keep, 1)
    if seconds is not None:
        waited("seconds", seconds)
    place = file_path("folder", folder, "checkpoints")
    named = mapping("also", also, '{"ema": ema}')
    given = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, **named}
    parts = {"model": model, **{name: part for name, part in given.items() if part is not None}}
    for name, part in parts.items():
        if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
            fact = f"{name} must have state_dict and load_state_dict; {shown(part)} has not"
            raise BadType(fact, "pass an object that can be saved, or leave it out")
    if _ranks() > 1:
        raise Failure(
            "checkpoints-of-ranks",
            f"this program has {_ranks()} ranks, and each has random numbers and data of its own",
            "save with torch.distributed.checkpoint; plimsoll.checkpointing is for one process",
        )
    made = Checkpointing(CheckpointFolder(place, keep), parts, every, seconds)
    try:
        made.resume()
    except BaseException:
        made.close()
        raise
    return made


def _ranks() -> int:
    import torch.distributed as ranks

    return ranks.get_world_size() if ranks.is_available() and ranks.is_initialized() else 1


def _unusable(path: str, why: str) -> Failure:
    return Failure(
        "checkpoint-unusable",
        f"the checkpoint {path} cannot be used: {why}",
        "start the program that wrote it, or name another folder for checkpoints",
    )
