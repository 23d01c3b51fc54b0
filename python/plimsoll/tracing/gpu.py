"""Facts of the GPU whose behaviour is reproduced; the kernels' scratch sizes follow from them."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    name: str = "H200"
    capability: int = 90
    multiprocessors: int = 132
    threads_per_multiprocessor: int = 2048
    # One per cuBLAS handle and stream; PyTorch takes 32 MiB from Hopper on.
    blas_workspace: int = 32 * MIB
    # Bias epilogues go through cuBLASLt, whose workspace is asked for separately.
    blaslt_workspace: int = 1 * MIB


H200 = Gpu()
# What cuDNN asks about a device, as an H200 answers it.
CUDNN_H200 = {
    "deviceName": "NVIDIA H200",
    "deviceVer": 900,
    "driverVer": 13000,
    "cudaDeviceId": 0,
    "pciDeviceId": 0,
    "multiProcessorCount": 132,
    "maxThreadsPerSM": 2048,
    "maxCtasPerSM": 32,
    "maxRegistersPerSM": 65536,
    "maxThreadsPerBlock": 1024,
    "regsPerBlock": 65536,
    "warpSize": 32,
    "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64],
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024,
    "l2CacheSize": 62914560,
    "totalGlobalMem": 150109880320,
    "smClockRateKHz": 1980000,
    "memClockRateKHz": 3201000,
    "isTccDriver": 0,
    "supportCoopLaunch": 1,
}
