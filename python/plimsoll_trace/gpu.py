"""Facts of the GPU whose behaviour is reproduced; the kernels' scratch sizes follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class Gpu:
    name: str = "NVIDIA H200"
    capability: int = 90
    multiprocessors: int = 132
    threads_per_multiprocessor: int = 2048
    # What CUDA reports as the whole.
    memory: int = 150109880320
    # One per cuBLAS handle and stream; PyTorch takes 32 MiB from Hopper on.
    blas_workspace: int = 32 * MIB
    # Bias epilogues go through cuBLASLt, whose workspace is asked for separately.
    blaslt_workspace: int = 1 * MIB

    @property
    def cache(self) -> int:
        """Bytes of the second level cache."""
        return _ARCHITECTURES[_nearest(self.capability) or 90][4]


H200 = Gpu()

# By compute capability, from CUDA's programming guide: threads and blocks that a multiprocessor holds,
# bytes of shared memory that a block may ask for, then typical of such cards: multiprocessors, second
# level cache, clocks of core and memory in kHz.
_ARCHITECTURES = {
    70: (2048, 32, 98304, 80, 6 * MIB, 1530000, 877000),
    75: (1024, 16, 65536, 40, 4 * MIB, 1590000, 5001000),
    80: (2048, 32, 166912, 108, 40 * MIB, 1410000, 1215000),
    86: (1536, 16, 101376, 84, 6 * MIB, 1800000, 7501000),
    89: (1536, 24, 101376, 128, 72 * MIB, 2520000, 10501000),
    90: (2048, 32, 232448, 132, 60 * MIB, 1980000, 3201000),
    100: (2048, 32, 232448, 148, 126 * MIB, 1965000, 3996000),
    120: (1536, 24, 101376, 84, 64 * MIB, 2617000, 14001000),
}


def gpu_of(
    name: str | None,
    capability: int | None,
    multiprocessors: int | None,
    memory: int | None,
) -> Gpu:
    """A card as its facts describe it; the H200 where no facts are given, or no kernels of it are known."""
    nearest = None if capability is None else _nearest(capability)
    if capability is None or nearest is None:
        return H200
    threads, _, _, usual = _ARCHITECTURES[nearest][:4]
    return Gpu(
        name=name or "a GPU",
        capability=capability,
        multiprocessors=multiprocessors or usual,
        threads_per_multiprocessor=threads,
        memory=memory or 16 * GIB,
    )


def _nearest(capability: int) -> int | None:
    """The newest architecture that is known and not newer."""
    return max((known for known in _ARCHITECTURES if known <= capability), default=None)


def cudnn_properties(gpu: Gpu) -> dict[str, Any]:
    """What cuDNN asks about a device, as this one answers it."""
    _, blocks, shared, _, cache, clock, memory_clock = _ARCHITECTURES[
        _nearest(gpu.capability) or 90
    ]
    return {
        "deviceName": gpu.name,
        "deviceVer": gpu.capability * 10,
        "driverVer": 13000,
        "cudaDeviceId": 0,
        "pciDeviceId": 0,
        "multiProcessorCount": gpu.multiprocessors,
        "maxThreadsPerSM": gpu.threads_per_multiprocessor,
        "maxCtasPerSM": blocks,
        "maxRegistersPerSM": 65536,
        "maxThreadsPerBlock": 1024,
        "regsPerBlock": 65536,
        "warpSize": 32,
        "maxGridSize": [2147483647, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64],
        "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": shared,
        "reservedSharedMemoryPerBlock": 1024,
        "l2CacheSize": cache,
        "totalGlobalMem": gpu.memory,
        "smClockRateKHz": clock,
        "memClockRateKHz": memory_clock,
        "isTccDriver": 0,
        "supportCoopLaunch": 1,
    }
