"""Tells an out-of-memory error from every other error."""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Optional

UNITS = {"B": 1, "BYTES": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "KB": 2**10, "MB": 2**20, "GB": 2**30}


class OutOfMemory(NamedTuple):
    """What an error tells of itself; bytes that it does not tell are None."""

    kind: str
    message: str
    asked_bytes: Optional[int] = None


# Only where the text of a RuntimeError (or one of its kinds) says so; the first that is found counts.
PATTERNS = [
    ("cuda", re.compile(r"CUDA out of memory\.")),
    ("hip", re.compile(r"HIP out of memory\.")),
    ("xpu", re.compile(r"XPU out of memory\.")),
    ("mps", re.compile(r"MPS backend out of memory")),
    ("cublas", re.compile(r"(?:CU|HIP|ROC)BLAS_STATUS_ALLOC_FAILED")),
    ("cudnn", re.compile(r"CUDNN_STATUS_(?:INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED|(?:SUBLIBRARY_)?ALLOC_FAILED)")),
    ("cuda-driver", re.compile(r"(?:CUDA|HIP) (?:driver )?error: (?:out of memory|hipErrorOutOfMemory)", re.I)),
    ("cuda-driver", re.compile(r"(?:CUDA_ERROR|cudaErrorMemoryAllocation|hipError)_?OUT_?OF_?MEMORY", re.I)),
    ("cuda-driver", re.compile(r"Cuda failure (?:2 )?'out of memory'")),
    ("pytorch-cpu", re.compile(r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)")),
    ("pytorch-cpu", re.compile(r"unable to mmap \d+ bytes from file .*: Cannot allocate memory \(12\)")),
    ("pytorch-cpu", re.compile(r"\bstd::bad_alloc\b")),
]
# Libraries that could not get their workspace often say no more than this. Believed on a full device alone.
UNSURE = re.compile(r"CUDNN_STATUS_INTERNAL_ERROR|CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_NOT_INITIALIZED")
FULL = 0.95

ASKED = [
    re.compile(r"[Tt]ried to allocate ([\d.]+) ?(B|bytes|KiB|MiB|GiB|KB|MB|GB)\b"),
    re.compile(r"Unable to allocate ([\d.]+) ?(B|bytes|KiB|MiB|GiB)\b"),
    re.compile(r"unable to mmap (\d+) (bytes)"),
]
# A message goes over a socket and into reports; the longest real one is below this.
LONGEST_MESSAGE = 2000


def recognise(error: BaseException, used_share: Optional[Callable[[], float]] = None) -> Optional[OutOfMemory]:
    """What ran out of memory, or None for any other error.

    >>> recognise(RuntimeError("CUDA error: out of memory")).kind
    'cuda-driver'
    >>> recognise(ValueError("CUDA out of memory.")) is None
    True
    """
    message = str(error)[:LONGEST_MESSAGE]
    if isinstance(error, MemoryError):
        return OutOfMemory("python", message or "MemoryError", asked_bytes(message))
    if not isinstance(error, RuntimeError):
        return None
    for kind, pattern in PATTERNS:
        if pattern.search(message):
            return OutOfMemory(kind, message, asked_bytes(message))
    if type(error).__name__ == "OutOfMemoryError" and type(error).__module__.startswith("torch"):
        return OutOfMemory("cuda", message, asked_bytes(message))
    if used_share is not None and UNSURE.search(message) and _share(used_share) >= FULL:
        return OutOfMemory("cudnn" if "CUDNN" in message else "cublas", message)
    return None


def asked_bytes(message: str) -> Optional[int]:
    for pattern in ASKED:
        found = pattern.search(message)
        if found:
            return int(float(found.group(1)) * UNITS[found.group(2).upper()])
    return None


def _share(used_share: Callable[[], float]) -> float:
    try:
        return used_share()
    except Exception:
        # Asking a broken device must not hide the error that broke it.
        return 0.0
