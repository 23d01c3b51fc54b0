"""The recogniser: real messages, and look-alikes that are none."""

import unittest

import sdk  # noqa: F401 - puts the package on the path
import torch

from plimsoll.memory.out_of_memory import recognise

REAL = [
    (
        torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which "
            "135.14 GiB is free. Including non-PyTorch memory, this process has 4.65 GiB memory in use. 4.00 GiB allowed;"
        ),
        "cuda",
        96 * 2**20,
    ),
    (RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 10.76 GiB total capacity)"), "cuda", 2684354560),
    (RuntimeError("HIP out of memory. Tried to allocate 20.00 MiB."), "hip", 20 * 2**20),
    (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), "cuda-driver", None),
    (RuntimeError("CUDA driver error: out of memory"), "cuda-driver", None),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "cublas", None),
    (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "cudnn", None),
    (
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
            "allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)"
        ),
        "pytorch-cpu",
        4294967296,
    ),
    (MemoryError(), "python", None),
    (MemoryError("Unable to allocate 7.45 GiB for an array with shape (1000000000,)"), "python", int(7.45 * 2**30)),
]
NONE = [
    ValueError("CUDA out of memory. Tried to allocate 96.00 MiB."),
    KeyError("out of memory"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("out of resource: shared memory, Required: 264192, Hardware limit: 232448"),
    RuntimeError("Expected all tensors to be on the same device"),
    RuntimeError("the job before this one ran out of memory"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    OSError(28, "No space left on device"),
    KeyboardInterrupt(),
]


class Recognise(unittest.TestCase):
    def test_real_messages(self):
        for error, kind, asked in REAL:
            with self.subTest(str(error)[:60]):
                found = recognise(error)
                self.assertIsNotNone(found)
                self.assertEqual((found.kind, found.asked_bytes), (kind, asked))

    def test_look_alikes(self):
        for error in NONE:
            with self.subTest(repr(error)[:60]):
                self.assertIsNone(recognise(error, lambda: 0.99))

    def test_a_library_without_words_is_believed_on_a_full_device_alone(self):
        error = RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR")
        self.assertIsNone(recognise(error))
        self.assertIsNone(recognise(error, lambda: 0.6))
        self.assertEqual(recognise(error, lambda: 0.97).kind, "cudnn")

    def test_a_device_that_cannot_be_asked_does_not_hide_the_error(self):
        def broken():
            raise RuntimeError("CUDA error: unspecified launch failure")

        self.assertIsNone(recognise(RuntimeError("CUDNN_STATUS_INTERNAL_ERROR"), broken))

    def test_the_real_cpu_allocator(self):
        with self.assertRaises(RuntimeError) as caught:
            torch.empty(2**60, dtype=torch.uint8)
        self.assertEqual(recognise(caught.exception).kind, "pytorch-cpu")


if __name__ == "__main__":
    unittest.main()
