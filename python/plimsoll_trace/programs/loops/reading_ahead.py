"""A loader's next batch is read by another process while the program works on this one.

So do the workers of a real run. The process is a fork, and reads one batch ahead. What it read is taken if the program
asks for just that batch. Otherwise it is ended, and the batch is read here, by the same generators: the program gets
the same batches, whether they were read ahead or not.
"""

from __future__ import annotations

import gc
import io
import mmap
import os
import pickle
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from numbers import Integral
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...weak_table import WeakTable
from .. import start

Reads = Callable[[Any], tuple]
# Seconds of the processor after which reading is worth a process.
_SECONDS = 0.5
# So long is waited for a batch: a library whose threads are gone in a fork may wait for them for ever.
_PATIENCE, _TIMES = 5.0, 10.0
_LENGTH = struct.Struct("<Q")
# Data sets whose batches cannot be passed on.
_REFUSED: WeakTable[None] = WeakTable()
_running: dict[int, Callable[[], Any]] = {}
_elsewhere = 0.0


# Batches that another process read, passed on through memory that both see.
#
# Tensors lie in that memory and are not copied again: most are moved to the GPU, where they have no values.

# Where each tensor begins: at a multiple of this.
_ALIGNED = 64
# A part of a tensor that is spread over more than so many times its own size is not passed on.
_LARGEST_SPREAD = 4
# Smaller ones are copied: what a program keeps of a batch would hold all of its memory.
_SMALL = 1 << 20


class NotPassedOn(Exception):
    """Not all of it can be given to another process just as it is."""


def pack(value: Any) -> tuple[bytes, int]:
    """What to send, and the file that its tensors lie in."""
    with _unseen():
        words = io.BytesIO()
        packer = _Packer(words)
        packer.dump(value)
        file = os.memfd_create("batch")
        os.ftruncate(file, packer.size)
        memory = mmap.mmap(file, packer.size)
        for tensor, place, extent in packer.tensors:
            if extent:
                flat = torch.frombuffer(memory, dtype=tensor.dtype, count=extent, offset=place)
                flat.copy_(torch.as_strided(tensor, (extent,), (1,)))
        return words.getvalue(), file


def unpack(words: bytes, file: int) -> Any:
    with _unseen():
        memory = mmap.mmap(file, 0)
        return _Unpacker(io.BytesIO(words), memory).load()


@contextmanager
def _unseen() -> Iterator[None]:
    """None of this is the program's own work."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


class _Packer(pickle.Pickler):
    def __init__(self, words: io.BytesIO) -> None:
        super().__init__(words, pickle.HIGHEST_PROTOCOL)
        self.size = _ALIGNED
        self.tensors: list[tuple[Any, int, int]] = []
        # By the `id` of a tensor, all of which are held.
        self._places: dict[int, tuple[int, int]] = {}

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, (torch.UntypedStorage, torch.TypedStorage, torch.nn.Module)):
            raise NotPassedOn
        if not isinstance(value, torch.Tensor):
            return None
        if id(value) not in self._places:
            self._add(value)
        place, extent = self._places[id(value)]
        return place, extent, tuple(value.shape), value.stride(), value.dtype

    def _add(self, tensor: torch.Tensor) -> None:
        if type(tensor) is not torch.Tensor or not tensor.is_cpu or vars(tensor):
            raise NotPassedOn
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.requires_grad:
            raise NotPassedOn
        if tensor.is_conj() or tensor.is_neg():
            raise NotPassedOn
        last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
        extent = last + 1 if tensor.numel() else 0
        if extent > max(_ALIGNED, _LARGEST_SPREAD * tensor.numel()):
            raise NotPassedOn
        place = self.size
        self._places[id(tensor)] = (place, extent)
        self.tensors.append((tensor, place, extent))
        # Each has a place of its own, also one without numbers.
        room = max(1, extent * tensor.element_size())
        self.size = place + -(-room // _ALIGNED) * _ALIGNED


class _Unpacker(pickle.Unpickler):
    def __init__(self, words: io.BytesIO, memory: mmap.mmap) -> None:
        super().__init__(words)
        self._memory = memory
        self._made: dict[int, torch.Tensor] = {}

    def persistent_load(self, form: Any) -> torch.Tensor:
        place, extent, shape, stride, dtype = form
        if place not in self._made:
            self._made[place] = self._tensor(place, extent, shape, stride, dtype)
        return self._made[place]

    def _tensor(self, place: int, extent: int, shape: Any, stride: Any, dtype: Any) -> Any:
        if not extent:
            return torch.empty_strided(shape, stride, dtype=dtype)
        flat = torch.frombuffer(self._memory, dtype=dtype, count=extent, offset=place)
        if flat.numel() * flat.element_size() <= _SMALL:
            flat = flat.clone()
        # No view of another: a program may ask.
        return torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), 0, shape, stride)


def seconds() -> float:
    """Of the processor, as `time.process_time`, with those that batches took which were read ahead."""
    return time.process_time() + _elsewhere


def end_all() -> None:
    for end in list(_running.values()):
        end()


class ReadingAhead:
    """For the workers of one loader, who pass on how they read: what gives a batch for a question, and the states of
    the generators after it. That is not held, so that the process ends with the workers."""

    def __init__(self, dataset: Any, observer: Any) -> None:
        self._dataset = dataset
        self._observer = observer
        self._spent = self._longest = 0.0
        self._process: _Process | None = None
        self._asked: Any = None

    def take(self, question: Any) -> tuple | None:
        """The batch, and the states of generators after it, where it was read ahead."""
        global _elsewhere
        if self._process is None:
            return None
        expected, self._asked = question == self._asked, None
        found = self._process.answer(_PATIENCE + _TIMES * self._longest) if expected else None
        if found is None:
            if expected:
                self._refuse()
            self._process.end()
            self._process, self._spent = None, 0.0
            return None
        host_ops, spent, batch, states = found
        _elsewhere += spent
        self._observer.count_host_ops(host_ops)
        return batch, states

    def read(self, question: Any, read: Reads) -> tuple:
        """In this process."""
        started = time.process_time()
        found = read(question)
        took = time.process_time() - started
        self._spent += took
        self._longest = max(self._longest, took)
        return found

    def ask(self, question: Any, read: Reads) -> None:
        """The program is likely to ask for this next."""
        if not _is_plain(question):
            return
        if self._process is None and self._spent >= _SECONDS and self._can_start():
            self._process = _Process(partial(self._answer, read))
        if self._process is not None:
            self._process.ask(question)
            # The program may change a list of places.
            self._asked = pickle.loads(pickle.dumps(question))

    def _can_start(self) -> bool:
        able = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")
        if not able or self._dataset in _REFUSED or len(os.sched_getaffinity(0)) < 2:
            return False
        # A lock that another thread holds would stay locked in a fork.
        return threading.active_count() == 1

    def _answer(self, read: Reads, question: Any) -> tuple:
        """In the other process. What would do more than read is left to the program's own."""
        observer = self._observer
        observer.on_op = None
        ops, host_ops, notes = observer.ops, observer.host_ops, len(observer.notes)
        started = time.process_time()
        batch, states = read(question)
        spent = time.process_time() - started
        if observer.ops - ops != observer.ticks_of_host(host_ops) or len(observer.notes) != notes:
            raise NotPassedOn
        return observer.host_ops - host_ops, spent, batch, states

    def _refuse(self) -> None:
        # A list cannot be remembered.
        with suppress(TypeError):
            _REFUSED.add(self._dataset, None)


def _is_plain(question: tuple[int, Any]) -> bool:
    """Whether it asks for places that are numbers: to compare others may be work of the program's."""
    index = question[1]
    return isinstance(index, list) and all(isinstance(one, Integral) for one in index)


class _Process:
    def __init__(self, answer: Callable[[Any], Any]) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _serve(theirs, answer, parent)
        theirs.close()
        self.end = weakref.finalize(self, _end, pid, self._socket, parent)
        _running[pid] = self.end

    def ask(self, question: Any) -> None:
        with suppress(OSError):
            _send(self._socket, pickle.dumps(question))

    def answer(self, patience: float) -> Any:
        """None where there is none, or none after so many seconds."""
        file = -1
        self._socket.settimeout(patience)
        try:
            _, files, _, _ = socket.recv_fds(self._socket, 1, 1)
            if not files:
                return None
            file = files[0]
            return unpack(_receive(self._socket), file)
        except Exception:
            return None
        finally:
            if file >= 0:
                os.close(file)


def _end(pid: int, connection: socket.socket, parent: int) -> None:
    _running.pop(pid, None)
    connection.close()
    if os.getpid() != parent:
        # In another fork of the program's.
        return
    start.end(pid)


def _serve(connection: socket.socket, answer: Callable[[Any], Any], parent: int) -> None:
    """In the fork: never returns."""
    try:
        start.belong_to(parent)
        # The threads that PyTorch computes with did not come along; its own workers do without them, too.
        torch.set_num_threads(1)
        # What the program holds is not looked at, so that its memory stays shared.
        gc.freeze()
        while True:
            question = pickle.loads(_receive(connection))
            words, file = pack(answer(question))
            sys.stdout.flush()
            socket.send_fds(connection, [b"+"], [file])
            os.close(file)
            _send(connection, words)
    except BaseException:
        # The other end sees that the connection ends, and reads the batch itself.
        pass
    finally:
        os._exit(0)


def _send(connection: socket.socket, words: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(words)) + words)


def _receive(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(1 << 20, length - len(parts)))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
