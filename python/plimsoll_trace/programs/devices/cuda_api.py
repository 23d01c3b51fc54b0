"""`torch.cuda` and `torch.accelerator` as a program finds them on a machine with the pretended card.

One table a module, each name with what is answered. What is not listed stays PyTorch's own, and says
by itself that it needs a GPU.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from typing import Any, Callable

import torch
import torch.accelerator
import torch.backends.cuda
import torch.cuda.amp.common
import torch.cuda.nvtx
import torch.cuda.profiler

from ...gpu import GIB, MIB, Gpu, cudnn_properties
from ...standins.patches import Patches
from .. import reserved
from ..places import Places, is_cuda

# Calls that go past PyTorch to the driver or a library of CUDA: the runtime, marks for profilers, caches of plans.
#
# None of them asks the allocator for memory, so each answers as where all went well.

_SUCCESS = 0
_OWN_POOL = "the program takes memory from a pool of its own (torch.cuda.MemPool); it is counted with all others"


def install_driver_calls(
    patches: Patches, free_and_total: Callable[[], Any], note: Callable[[str], Any]
) -> None:
    runtime = Runtime(free_and_total)
    patches.set(torch.cuda, "cudart", lambda: runtime)
    patches.set(torch.cuda, "check_error", lambda _: None)
    for owner, names in _SILENT:
        for name in names:
            if hasattr(owner, name):
                patches.set(owner, name, _answering(_SUCCESS))
    patches.set(torch.backends.cuda, "cufft_plan_cache", PlanCache())
    if hasattr(torch.cuda, "MemPool"):
        patches.set(torch.cuda, "MemPool", _pools(note))
        patches.set(torch.cuda, "use_mem_pool", UsePool)
        patches.set(torch.cuda.memory, "MemPool", torch.cuda.MemPool)
        patches.set(torch.cuda.memory, "use_mem_pool", UsePool)


class Runtime:
    """`torch.cuda.cudart()`: functions that answer whether they worked."""

    def __init__(self, free_and_total: Callable[[], Any]) -> None:
        self._free_and_total = free_and_total

    def cudaMemGetInfo(self, _device: int = 0) -> Any:
        return self._free_and_total()

    def cudaGetErrorString(self, _error: Any) -> str:
        return "no error"

    def __getattr__(self, name: str) -> Any:
        if name == "cudaError":
            return _Errors
        if not name.startswith("cuda"):
            raise AttributeError(name)
        return _answering(_SUCCESS)


class _Errors:
    success = _SUCCESS


class UsePool:
    """A context that changes nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class PlanCache:
    """Plans of Fourier transforms, with what they take from the driver: none of it is the allocator's."""

    size = 0
    max_size = 4096

    def __getitem__(self, _device: Any) -> PlanCache:
        return self

    def clear(self) -> None:
        pass


def _pools(note: Callable[[str], Any]) -> type:
    class MemPool:
        def __init__(self, *_: Any, **__: Any) -> None:
            note(_OWN_POOL)
            self.id = (0, id(self))
            self.allocator = None

        def use_count(self) -> int:
            return 1

        def snapshot(self, *_: Any, **__: Any) -> list:
            return []

    return MemPool


def _answering(value: Any) -> Callable:
    return lambda *_, **__: value


# Marks in the record of a profiler, its start and end, and waiting for nothing.
_SILENT: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (torch.cuda.nvtx, ("range_push", "range_pop", "range_start", "range_end", "mark")),
    (torch.cuda.profiler, ("start", "stop", "init")),
    (torch.cuda, ("_sleep", "current_blas_handle")),
)


_CLEAR_WORKSPACES = "_cuda_clearCublasWorkspaces"


# What CUDA itself takes of a card; 630 to 762 MiB on an H200.
_CONTEXT = 700 * MIB
_MAX_SOURCE_BYTES = 4 * 2**20
# Found in a handler that is for this error. The last two are those of accelerate and of Lightning.
_NAMES = ("OutOfMemoryError", "out of memory", "should_reduce_batch_size", "is_oom_error")
_NOTE = (
    "The memory of the {} ran out at {}, and the program handles this itself: counted is what it does then, "
    "which may differ on another card"
)


class OutOfMemory:
    """The card's memory runs out where a program has code for it: one that looks for the largest batch, say.

    Any other program gets all that it asks for, and the answer says that it does not fit.
    """

    def __init__(self, observer: Any, places: Places) -> None:
        self._observer, self._places = observer, places
        self.allow(1.0)

    def allow(self, share: float) -> None:
        """So much of the card, as `torch.cuda.set_per_process_memory_fraction` says."""
        self._share = share
        self._observer.ledger.limit = self._limit()
        self._observer.ledger.over_limit = self._over

    def _limit(self) -> int:
        # What lies on several cards is counted as on one.
        whole = self._observer.gpu.memory * max(1, self._places.cards)
        return min(int(whole * self._share), whole - _CONTEXT)

    def _over(self, size: int) -> None:
        ledger = self._observer.ledger
        # How many cards there are is known later than the limit is set.
        ledger.limit = self._limit()
        if ledger.live_bytes + size <= ledger.limit:
            return
        where = _handled_at(sys._getframe(1))
        if where is None:
            # A real run would end here; all that it asks for is counted.
            ledger.limit = sys.maxsize
            return
        gpu = self._observer.gpu
        self._observer.notes.add(_NOTE.format(gpu.name, where))
        free = max(0, ledger.limit - ledger.live_bytes)
        raise torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size / GIB:.2f} GiB. GPU 0 has a total capacity of "
            f"{gpu.memory / GIB:.2f} GiB of which {free / GIB:.2f} GiB is free."
        )


def _handled_at(frame: Any) -> str | None:
    """The line that runs now inside of a `try` for this error; None where there is none."""
    while frame is not None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        if any(first <= line <= last for first, last in _tries(path)):
            return f"{path}:{line}"
        frame = frame.f_back
    return None


@functools.cache
def _tries(path: str) -> tuple[tuple[int, int], ...]:
    """The first and last lines of what is tried in a file, by each `try` that handles this error."""
    try:
        with open(path, "rb") as file:
            source = file.read(_MAX_SOURCE_BYTES)
        if not any(name.encode() in source for name in _NAMES):
            return ()
        tree = ast.parse(source, path)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return ()
    return tuple(_ranges(tree))


def _ranges(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_is_for_it, node.handlers)):
            yield node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno


def _is_for_it(handler: ast.ExceptHandler) -> bool:
    text = ast.unparse(handler)
    return any(name in text for name in _NAMES)


class Within:
    """A context that changes nothing: which device."""

    def __init__(self, device: Any = None, *_: Any, **__: Any) -> None:
        self.idx = device if isinstance(device, int) else getattr(device, "index", None) or 0
        self.prev_idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        return None


class Properties:
    def __init__(self, gpu: Gpu):
        self.name = gpu.name
        self.major, self.minor = divmod(gpu.capability, 10)
        self.total_memory = gpu.memory
        self.multi_processor_count = gpu.multiprocessors
        self.max_threads_per_multi_processor = gpu.threads_per_multiprocessor
        facts = cudnn_properties(gpu)
        self.warp_size = facts["warpSize"]
        self.max_threads_per_block = facts["maxThreadsPerBlock"]
        self.regs_per_multiprocessor = facts["maxRegistersPerSM"]
        self.shared_memory_per_block = facts["maxSharedMemoryPerBlock"]
        self.shared_memory_per_block_optin = facts["maxSharedMemoryPerBlockOptin"]
        self.L2_cache_size = facts["l2CacheSize"]
        self.clock_rate, self.memory_clock_rate = facts["smClockRateKHz"], facts["memClockRateKHz"]
        self.pci_bus_id = self.pci_device_id = self.pci_domain_id = 0
        self.is_integrated = self.is_multi_gpu_board = False
        self.gcnArchName = ""
        self.uuid = "00000000-0000-0000-0000-000000000000"

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count})"
        )


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _constant(value: Any) -> Callable:
    return lambda *_, **__: value


def _seed_state(*_: Any, **__: Any) -> Any:
    # Of the size of CUDA's: a seed and an offset.
    return torch.zeros(16, dtype=torch.uint8, device="cpu")


def cuda_table(
    gpu: Gpu, places: Places, ledger: Any, streams: dict[str, Any], memory: OutOfMemory
) -> dict[str, Any]:
    properties = Properties(gpu)

    def choose(device: Any) -> None:
        index = device if isinstance(device, int) else torch.device(device).index
        places.current = index or 0

    fraction = {"set": 1.0}

    def set_fraction(share: float, device: Any = None) -> None:
        fraction["set"] = share
        memory.allow(share)

    return {
        # The card.
        "is_available": _constant(True),
        "is_initialized": _constant(True),
        "device_count": lambda: places.cards,
        "current_device": lambda: places.current,
        "set_device": choose,
        "get_device_name": _constant(gpu.name),
        "get_device_capability": _constant(divmod(gpu.capability, 10)),
        "get_device_properties": _constant(properties),
        "get_arch_list": lambda: [f"sm_{gpu.capability}"],
        "can_device_access_peer": _constant(True),
        "is_bf16_supported": _constant(gpu.capability >= 80),
        "is_tf32_supported": _constant(gpu.capability >= 80),
        "utilization": _constant(0),
        "memory_usage": _constant(0),
        "temperature": _constant(40),
        # Milliwatts and MHz.
        "power_draw": _constant(100_000),
        "clock_rate": _constant(properties.clock_rate // 1000),
        "init": _nothing,
        "_lazy_init": _nothing,
        "_lazy_call": _nothing,
        "_is_in_bad_fork": _constant(False),
        # Memory: from the record of this trace, since programs branch on it.
        **reserved.table(ledger, gpu.memory),
        "reset_accumulated_memory_stats": _nothing,
        "set_per_process_memory_fraction": set_fraction,
        "get_per_process_memory_fraction": lambda device=None: fraction["set"],
        "empty_cache": ledger.program_empties_cache,
        "ipc_collect": _nothing,
        # A program that records its allocations finds none here.
        "_record_memory_history": _nothing,
        "_snapshot": lambda *_, **__: {"segments": [], "device_traces": []},
        "_dump_snapshot": _nothing,
        "memory_snapshot": lambda *_, **__: [],
        # Order of work: that of the program.
        **streams,
        "device": Within,
        "device_of": Within,
        "_DeviceGuard": Within,
        "is_current_stream_capturing": _constant(False),
        # Random numbers: none are drawn.
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "seed": _nothing,
        "seed_all": _nothing,
        "initial_seed": _constant(0),
        "get_rng_state": _seed_state,
        "get_rng_state_all": lambda: [_seed_state() for _ in range(places.cards)],
        "set_rng_state": _nothing,
        "set_rng_state_all": _nothing,
    }


def accelerator_table(cuda: dict[str, Any]) -> dict[str, Any]:
    return {
        "is_available": _constant(True),
        "device_count": cuda["device_count"],
        "current_accelerator": _constant(torch.device("cuda")),
        "current_device_index": cuda["current_device"],
        "current_device_idx": cuda["current_device"],
        "set_device_index": cuda["set_device"],
        "set_device_idx": cuda["set_device"],
        "device_index": Within,
        "current_stream": cuda["current_stream"],
        "set_stream": cuda["set_stream"],
        "synchronize": cuda["synchronize"],
        "empty_cache": cuda["empty_cache"],
        "memory_stats": cuda["memory_stats"],
        "memory_allocated": cuda["memory_allocated"],
        "max_memory_allocated": cuda["max_memory_allocated"],
        "memory_reserved": cuda["memory_reserved"],
        "max_memory_reserved": cuda["max_memory_reserved"],
        "reset_peak_memory_stats": cuda["reset_peak_memory_stats"],
        "reset_accumulated_memory_stats": _nothing,
        "get_memory_info": cuda["mem_get_info"],
        "get_device_capability": cuda["get_device_capability"],
    }


def install_cuda_api(
    patches: Patches, observer: Any, places: Places, streams: dict[str, Any]
) -> None:
    memory = OutOfMemory(observer, places)
    table = cuda_table(observer.gpu, places, observer.ledger, streams, memory)
    _replace(patches, torch.cuda, table)
    # The same functions under the names by which PyTorch's own modules call them.
    for module in (torch.cuda.memory, torch.cuda.random, torch.cuda.graphs):
        _replace(patches, module, table)
    for module in (torch.accelerator, getattr(torch.accelerator, "memory", None)):
        if module is not None:
            _replace(patches, module, accelerator_table(table))
    install_driver_calls(patches, table["mem_get_info"], observer.notes.add)
    _devices_of_any_kind(patches, streams)
    _replace(patches, torch.backends.cudnn, {"is_available": _constant(True)})
    # As Lightning does at the end of each fit and test; PyTorch for the host alone does not have it.
    put = patches.set if hasattr(torch._C, _CLEAR_WORKSPACES) else patches.add
    put(torch._C, _CLEAR_WORKSPACES, _own(observer.give_back_workspaces))
    # For each seed PyTorch writes down where it was set, for cards of other makers that are not there.
    for name in ("xpu", "mtia"):
        if hasattr(torch, name):
            _replace(patches, getattr(torch, name), {"manual_seed_all": _nothing})
    _default_device(patches, places)
    _generators(patches, places)
    _profiler(patches)


def _profiler(patches: Patches) -> None:
    """No kernel runs on a card: the profiler would complain of each."""
    profile = torch.autograd.profiler.profile
    make = profile.__init__

    def __init__(self: Any, *args: Any, **settings: Any) -> None:
        settings.pop("use_cuda", None)
        settings.pop("use_device", None)
        make(self, *args, **{**settings, "use_cpu": True})

    patches.set(profile, "__init__", __init__)


def _replace(patches: Patches, module: Any, table: dict[str, Any]) -> None:
    for name, answer in table.items():
        if hasattr(module, name):
            patches.set(module, name, _own(answer))


def _own(answer: Any) -> Any:
    """A function of its own for each name: `torch._dynamo` refuses one object with two names."""
    if isinstance(answer, type):
        return answer
    return lambda *args, **kwargs: answer(*args, **kwargs)


def _devices_of_any_kind(patches: Patches, streams: dict[str, Any]) -> None:
    """`torch.Stream` and `torch.Event`: those of the GPU, unless another device is named."""
    for name in ("Stream", "Event"):
        patches.set(torch, name, _of_any_device(getattr(torch, name), streams[name]))


def _of_any_device(own: type, of_gpu: Any) -> type:
    class OfAnyDevice(of_gpu):
        def __new__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
            if device is None or is_cuda(device):
                return super().__new__(cls)
            return own(device, *args, **kwargs)

    OfAnyDevice.__name__ = own.__name__
    return OfAnyDevice


def _default_device(patches: Patches, places: Places) -> None:
    """PyTorch puts the default device below every mode, where no one can rename it any more."""
    set_default = torch.set_default_device
    named = {"device": None}

    def set_default_device(device: Any) -> None:
        named["device"] = device
        cuda = device is not None and torch.device(device).type == "cuda"
        set_default("meta" if cuda else device)

    get_default = torch.get_default_device

    def get_default_device() -> Any:
        device = named["device"]
        if device is not None and torch.device(device).type == "cuda":
            return torch.device("cuda", places.current)
        return get_default()

    patches.set(torch, "set_default_device", set_default_device)
    patches.set(torch, "get_default_device", get_default_device)


def _generators(patches: Patches, places: Places) -> None:
    make = torch.Generator

    class Generator(torch.Generator):
        """Draws on the GPU need none here; one of the host takes its place, and says that it is on the GPU."""

        def __new__(cls, device: Any = "cpu") -> Any:
            named = (
                torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
            )
            drawn = make.__new__(cls, "cpu" if named.type == "cuda" else device)
            drawn.named = named
            return drawn

        @property
        def device(self) -> Any:
            on_gpu = self.named.type == "cuda" and self.named.index is None
            return torch.device("cuda", places.current) if on_gpu else self.named

    patches.set(torch, "Generator", Generator)
    patches.set(torch.cuda, "default_generators", (torch.default_generator,))
