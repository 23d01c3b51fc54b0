"""Rules that the command has, too, by the same cases: presets, the forecast, words of out-of-memory."""

import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import torch

from warm import PACKAGE

from plimsoll.failure import Failure
from plimsoll.forecasting import forecaster as asking
from plimsoll.forecasting.forecaster import RISKS, Forecaster, MemoryPoint
from plimsoll.loading.presets import PRESETS, WORKING_SHARE, most_precise, weight_bytes
from plimsoll.memory.out_of_memory import recognise

with open(
    os.path.join(PACKAGE, os.pardir, "test", "fixtures", "preset-rules.json"), encoding="utf-8"
) as file:
    PRESET_RULES = json.load(file)


class Presets(unittest.TestCase):
    def test_the_same_is_chosen_as_in_typescript(self):
        self.assertEqual(WORKING_SHARE, PRESET_RULES["workingShare"])
        for case in PRESET_RULES["choices"]:
            with self.subTest(**case):
                self.assertEqual(
                    most_precise(case["parameters"], case["freeBytes"]), case["preset"]
                )

    def test_weights_take_the_same_bytes_as_in_typescript(self):
        self.assertEqual({case["preset"] for case in PRESET_RULES["weights"]}, set(PRESETS))
        for case in PRESET_RULES["weights"]:
            with self.subTest(**case):
                self.assertEqual(weight_bytes(case["preset"], case["parameters"]), case["bytes"])


ROOT = os.path.dirname(PACKAGE)
MIB = 2**20


def recorded_points(name):
    with open(os.path.join(ROOT, "bench", "truth", "traces", name), encoding="utf-8") as file:
        trace = json.load(file)
    columns = [trace["columns"].index(key) for key in ("seconds", "reserved", "allocated")]
    for row in trace["rows"]:
        seconds, reserved, allocated = (row[column] for column in columns)
        yield MemoryPoint(seconds, trace["capacity"], reserved, allocated)


def risks_of(points):
    forecaster, found = Forecaster(), []
    for point in points:
        forecaster.add(point)
        found.append(forecaster.forecast()["risk"])
    return found


class Forecasts(unittest.TestCase):
    def test_a_leak_is_announced_and_steady_work_is_not(self):
        leak = risks_of(recorded_points("leak-linear-0.json"))
        self.assertIn("critical", leak)
        steady = risks_of(recorded_points("steady-0.json"))
        self.assertFalse({"high", "critical"} & set(steady))
        self.assertLessEqual(set(leak) | set(steady), {*RISKS, "unknown"})

    def test_a_forecast_has_probabilities_and_says_why(self):
        forecaster = Forecaster()
        self.assertEqual(forecaster.forecast()["reason"], "Nothing has been read yet.")
        for second in range(40):
            forecaster.add(MemoryPoint(second * 0.5, 2**30, (100 + 5 * second) * MIB))
        forecast = forecaster.forecast()
        self.assertRegex(forecast["reason"], r"grows by [\d.]+ MiB a second")
        shares = list(forecast["probability"].values())
        self.assertEqual(shares, sorted(shares))
        self.assertEqual(forecast["source"], "estimated")

    def test_each_forecaster_follows_a_series_of_its_own(self):
        level, full = Forecaster(), Forecaster()
        for second in range(10):
            level.add(MemoryPoint(float(second), 2**30, 100 * MIB))
            full.add(MemoryPoint(float(second), 2**30, 2**30))
        self.assertEqual([level.forecast()["risk"], full.forecast()["risk"]], ["none", "critical"])

    def test_without_the_command_the_forecast_is_unknown_and_says_what_to_do(self):
        missing = Failure("no-command", "the command plimsoll was not found", "install the wheel")
        with (
            mock.patch.object(asking, "command", side_effect=missing),
            mock.patch.object(asking, "_asked", None),
        ):
            forecaster = Forecaster()
            forecaster.add(MemoryPoint(0.0, 2**30, MIB))
            forecast = forecaster.forecast()
        self.assertEqual(forecast["risk"], "unknown")
        self.assertIn("install the wheel", forecast["reason"])

    def test_a_command_that_ends_leaves_the_program_running(self):
        with mock.patch.object(asking, "_asked", None):
            forecaster = Forecaster()
            forecaster.add(MemoryPoint(0.0, 2**30, MIB))
            forecaster.forecast()
            asking._asked._process.kill()
            asking._asked._process.wait()
            forecaster.add(MemoryPoint(1.0, 2**30, MIB))
            forecaster.add(MemoryPoint(2.0, 2**30, MIB))
            self.assertEqual(forecaster.forecast()["risk"], "unknown")


REAL = [
    (
        torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which "
            "135.14 GiB is free. Including non-PyTorch memory, this process has 4.65 GiB memory in use. "
            "4.00 GiB allowed;"
        ),
        "cuda",
        96 * 2**20,
    ),
    (
        RuntimeError(
            "CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 10.76 GiB total capacity)"
        ),
        "cuda",
        2684354560,
    ),
    (RuntimeError("HIP out of memory. Tried to allocate 20.00 MiB."), "hip", 20 * 2**20),
    (
        RuntimeError(
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"
        ),
        "cuda-driver",
        None,
    ),
    (RuntimeError("CUDA driver error: out of memory"), "cuda-driver", None),
    (
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        "cublas",
        None,
    ),
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
    (
        MemoryError("Unable to allocate 7.45 GiB for an array with shape (1000000000,)"),
        "python",
        int(7.45 * 2**30),
    ),
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

with open(
    os.path.join(PACKAGE, os.pardir, "test", "fixtures", "out-of-memory-messages.json"),
    encoding="utf-8",
) as file:
    # The same file is read by src/run/recognise/messages.test.ts.
    MESSAGES = [message for message in json.load(file)["messages"] if message["type"]]

CONVOLUTION = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import torch
from plimsoll.memory.gauge import HostGauge
from plimsoll.memory.host import process_status
from plimsoll.memory.out_of_memory import recognise
torch.set_num_threads(1)
x, w = torch.randn(8, 32, 64, 64), torch.randn(64, 32, 3, 3)
figure = 'VmSize' if sys.argv[2] == 'RLIMIT_AS' else 'VmData'
which = getattr(resource, sys.argv[2])
hard = resource.getrlimit(which)[1]
resource.setrlimit(which, (process_status()[figure], hard))
try:
    torch.nn.functional.conv2d(x, w, padding=1)
except RuntimeError as error:
    kept = error
    found = recognise(error, HostGauge().used_share)
resource.setrlimit(which, (resource.RLIM_INFINITY, hard))
print(kept, found and found.kind, recognise(kept, HostGauge().used_share), sep='|')
"""


def error_of(message):
    """An error of the type that raised it: by its bases, which are what a program could see of it."""
    name = message["type"]
    base = MemoryError if name.startswith(("numpy", "cupy.cuda")) else RuntimeError
    module, _, short = name.rpartition(".")
    return type(short, (base,), {"__module__": module or "builtins"})(message["text"])


class Recognise(unittest.TestCase):
    def test_what_libraries_say_when_memory_is_short(self):
        for message in MESSAGES:
            with self.subTest(message["from"]):
                error = error_of(message)
                short = recognise(error, lambda: 0.97, lambda: 0.97)
                self.assertEqual(short.kind if short else None, message["kind"])
                self.assertEqual(short.asked_bytes if short else None, message["askedBytes"])
                for share in (None, lambda: 0.5):
                    known = message["kind"] if message["when"] == "always" else None
                    found = recognise(error, share, share)
                    self.assertEqual(found.kind if found else None, known)

    def test_a_library_of_the_host_goes_by_the_hosts_memory(self):
        error = RuntimeError("could not create a primitive")
        self.assertIsNone(recognise(error, lambda: 0.99, lambda: 0.5))
        self.assertEqual(recognise(error, lambda: 0.1, lambda: 0.99).kind, "onednn")

    def test_a_convolution_under_a_real_limit(self):
        """oneDNN says no more than that it could not create a primitive: out of memory under a limit that is
        near, and an ordinary error otherwise."""
        for limit in ("RLIMIT_AS", "RLIMIT_DATA"):
            with self.subTest(limit):
                done = subprocess.run(
                    [sys.executable, "-c", CONVOLUTION, PACKAGE, limit],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(
                    done.stdout.split("|"),
                    ["could not create a primitive", "onednn", "None\n"],
                    done.stderr,
                )

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
