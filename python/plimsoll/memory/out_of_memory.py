"""Tells an out-of-memory error from every other error."""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from ..arguments import BadType, function, shown

UNITS = {
    "B": 1,
    "BYTES": 1,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "KB": 2**10,
    "MB": 2**20,
    "GB": 2**30,
}


class OutOfMemory(NamedTuple):
    """What an error tells of itself; bytes that it does not tell are None."""

    kind: str
    message: str
    asked_bytes: int | None = None


# Only where the text of a RuntimeError (or one of its kinds) says so; the first that is found counts.
PATTERNS = [
    ("cuda", re.compile(r"CUDA out of memory\.")),
    ("hip", re.compile(r"HIP out of memory\.")),
    ("xpu", re.compile(r"XPU out of memory\.")),
    ("mps", re.compile(r"MPS backend out of memory")),
    ("cublas", re.compile(r"(?:CU|HIP|ROC)BLAS_STATUS_ALLOC_FAILED")),
    (
        "cudnn",
        re.compile(
            r"CUDNN_STATUS_(?:INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED|(?:SUBLIBRARY_)?ALLOC_FAILED)"
        ),
    ),
    (
        "cuda-driver",
        re.compile(
            r"(?:CUDA|HIP) (?:driver )?error: (?:out of memory|hipErrorOutOfMemory)", re.IGNORECASE
        ),
    ),
    (
        "cuda-driver",
        re.compile(
            r"(?:CUDA_ERROR|cudaErrorMemoryAllocation|hipError)_?OUT_?OF_?MEMORY", re.IGNORECASE
        ),
    ),
    ("cuda-driver", re.compile(r"Cuda failure (?:\d+ )?'out of memory'")),
    ("cuda-driver", re.compile(r"Triton Error \[(?:CUDA|HIP)\]: out of memory")),
    ("cufft", re.compile(r"(?:CU|HIP)FFT_ALLOC_FAILED")),
    ("cusolver", re.compile(r"CUSOLVER_STATUS_ALLOC_FAILED")),
    ("cusparse", re.compile(r"(?:CU|HIP)SPARSE_STATUS_ALLOC_FAILED")),
    ("jax", re.compile(r"RESOURCE_EXHAUSTED: .*[Oo]ut of memory")),
    ("mkl", re.compile(r"\bMKL\b.*(?:Not enough memory|[Ii]nsufficient memory)")),
    (
        "pytorch-cpu",
        re.compile(r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)"),
    ),
    (
        "pytorch-cpu",
        re.compile(r"unable to mmap \d+ bytes from file .*: Cannot allocate memory \(12\)"),
    ),
    ("pytorch-cpu", re.compile(r"\bstd::bad_alloc\b")),
]
# Libraries that could not get their workspace often say no more than this. Believed where memory is short alone:
# above the load line.
UNSURE = [
    ("cudnn", re.compile(r"CUDNN_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED)")),
    ("cublas", re.compile(r"CUBLAS_STATUS_NOT_INITIALIZED")),
    ("cusolver", re.compile(r"CUSOLVER_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED)")),
    ("cufft", re.compile(r"CUFFT_INTERNAL_ERROR")),
]
# The same of the host's memory, whatever device the program uses.
UNSURE_ON_HOST = [
    (
        "onednn",
        re.compile(
            r"could not (?:create|execute) an? (?:[\w-]+ ){0,10}?(?:primitive|memory object)"
        ),
    )
]
FULL = 0.9

ASKED = [
    re.compile(r"[Tt]ried to allocate ([\d.]+) ?(B|bytes|KiB|MiB|GiB|KB|MB|GB)\b"),
    re.compile(r"Unable to allocate ([\d.]+) ?(B|bytes|KiB|MiB|GiB|TiB)\b"),
    re.compile(r"Out of memory allocating ([\d,]+) (bytes)"),
    re.compile(r"[Oo]ut of memory while trying to allocate ([\d.]+) ?(B|bytes|KiB|MiB|GiB|TiB)\b"),
    re.compile(r"unable to mmap (\d+) (bytes)"),
]
# A message goes over a socket and into reports; the longest real one is below this.
LONGEST_MESSAGE = 2000


def recognise(
    error: BaseException,
    used_share: Callable[[], float] | None = None,
    host_share: Callable[[], float] | None = None,
) -> OutOfMemory | None:
    """What ran out of memory, or None for any other error.

    >>> recognise(RuntimeError("CUDA error: out of memory")).kind
    'cuda-driver'
    >>> recognise(ValueError("CUDA out of memory.")) is None
    True
    """
    if not isinstance(error, BaseException):
        raise BadType(f"error must be an exception, not {shown(error)}", "pass what was caught")
    function("used_share", used_share)
    function("host_share", host_share)
    message = str(error)[:LONGEST_MESSAGE]
    if isinstance(error, MemoryError):
        kind = "cupy" if type(error).__module__.startswith("cupy") else "python"
        return OutOfMemory(kind, message or "MemoryError", asked_bytes(message))
    if not isinstance(error, RuntimeError):
        return None
    for kind, pattern in PATTERNS:
        if pattern.search(message):
            return OutOfMemory(kind, message, asked_bytes(message))
    if type(error).__name__ == "OutOfMemoryError" and type(error).__module__.startswith("torch"):
        return OutOfMemory("cuda", message, asked_bytes(message))
    for unsure, share in ((UNSURE, used_share), (UNSURE_ON_HOST, host_share or used_share)):
        meant = next((kind for kind, pattern in unsure if pattern.search(message)), None)
        if meant is not None and share is not None and _share(share) >= FULL:
            return OutOfMemory(meant, message)
    return None


def asked_bytes(message: str) -> int | None:
    for pattern in ASKED:
        found = pattern.search(message)
        if found:
            return int(float(found.group(1).replace(",", "")) * UNITS[found.group(2).upper()])
    return None


def _share(used_share: Callable[[], float]) -> float:
    try:
        return used_share()
    except Exception:
        # Asking a broken device must not hide the error that broke it.
        return 0.0
