"""Makes PyTorch, seen from Python, treat the meta device as it would treat CUDA."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
import torch.cuda.amp.common
import torch.fx.experimental._config
import torch.jit._builtins
import torch.utils._device
import torch.utils._foreach_utils
import torch.utils.checkpoint

from .. import small_values
from . import attention, recurrent, short_gradients
from .attention import attention_on
from .autocast import Autocast
from .functions import ctc_loss, dropout, linear, log_softmax, one_hot, rms_norm, softmax
from .imports import when_imported
from .patches import Patches

_ATEN = torch.ops.aten
# Ops that CUDA runs in other steps than the meta device.
_OPS = {
    "dropout": dropout,
    "linear": linear,
    "rms_norm": rms_norm,
    "softmax.int": softmax,
    "log_softmax.int": log_softmax,
    "binary_cross_entropy_with_logits": short_gradients.loss_of_logits,
    "ctc_loss.Tensor": ctc_loss,
    "one_hot": one_hot,
    "prod": short_gradients.product,
    "prod.dim_int": short_gradients.product_along,
    "cumprod": short_gradients.running_product,
    "gru_cell": recurrent.gru_cell,
    "lstm_cell": recurrent.lstm_cell,
}
# Kernels that only CUDA has, or that ask for memory in another order there; autograd knows them.
_KERNELS = {
    _ATEN._thnn_fused_gru_cell.default: recurrent.fused_gru,
    _ATEN._thnn_fused_gru_cell_backward.default: recurrent.fused_gru_backward,
    _ATEN._thnn_fused_lstm_cell.default: recurrent.fused_lstm,
    _ATEN._thnn_fused_lstm_cell_backward_impl.default: recurrent.fused_lstm_backward,
}


# TorchScript knows functions by their number in memory, for good: another function must not get it.
_REGISTERED: list[Any] = []


# Detectors of torchvision learn from so many boxes of a picture, and from so many at most that hold something.


def _install_box_samplers(patches: Patches, observer: Any) -> None:
    when_imported(
        "torchvision.models.detection._utils",
        lambda module: _box_sampler(patches, observer, module),
    )


def _box_sampler(patches: Patches, observer: Any, module: Any) -> None:
    sampler = getattr(module, "BalancedPositiveNegativeSampler", None)
    if sampler is None:
        return
    sample = sampler.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        size = self.batch_size_per_image
        observer.chosen.samples[size] = int(size * self.positive_fraction)
        return sample(self, *args, **kwargs)

    patches.set(sampler, "__call__", __call__)


# Layers that models of transformers leave out at random in training (layerdrop).
#
# A trace must not be luck, and a long training has steps that run them all: so does a trace. What a real run
# reserves is settled by the layers of its first steps, and stays: on an H200 two speech encoders held after 60
# steps what they held after five.

_ALL = (
    "layers that the model leaves out at random (layerdrop) were all run; "
    "a real run reserves less or more, by those that its first steps leave out"
)
_DRAWN = "the program leaves out layers at random (layerdrop): with another seed it reserves less or more"
_MODELS = "transformers.models."
# How many frames up the model's own line is looked for: PyTorch's modes lie in between.
_FRAMES = 12


class LayerDraws:
    """Answers a model that asks whether to leave out a layer."""

    def __init__(self, observer: Any, by_program: bool):
        self._observer = observer
        # A program draws by its own seed.
        self._by_program = by_program

    def draw(self) -> Any | None:
        """What `torch.rand([])` gives where it decides on a layer; None where it is to be drawn."""
        if not _may_leave_out(_drawing()):
            return None
        self._observer.facts.skips_layers = True
        self._observer.notes.add(_DRAWN if self._by_program else _ALL)
        return None if self._by_program else torch.ones((), device="cpu")


def _drawing() -> Any | None:
    """The module whose forward pass draws; None where that is none of transformers'."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return None
        if str(frame.f_globals.get("__name__")).startswith(_MODELS):
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _may_leave_out(module: Any | None) -> bool:
    """Models keep their chance themselves, or in their config, where it has more than one name."""
    if not getattr(module, "training", False):
        return False
    own = getattr(module, "layerdrop", None)
    if own is not None:
        return bool(own)
    config = vars(getattr(module, "config", object))
    return any(chance for name, chance in config.items() if name.endswith("layerdrop"))


@contextmanager
def cuda_like(observer: Any, names: Any, builds_on_gpu: bool = True) -> Iterator[None]:
    """While entered, ops and settings on the meta device take CUDA's ways; undone on leaving.

    A program builds its models where it likes; all others are built on the GPU.
    """
    patches = Patches()
    autocast = observer.autocast = Autocast()
    observer.layer_draws = LayerDraws(observer, by_program=not builds_on_gpu)
    library = torch.library.Library("aten", "IMPL")
    stand_ins: dict[Any, Any] = dict(_KERNELS)
    try:
        of_card = {
            "scaled_dot_product_attention": attention_on(observer.gpu.capability),
            **attention.layers_on(observer.gpu.capability),
            **recurrent.layers(observer.gpu),
        }
        for name, function in {**_OPS, **of_card}.items():
            library.impl(name, function, "AutogradMeta")
            # In inference mode there is no autograd; the observer meets these ops whole.
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            stand_ins[op] = function
        observer.put_in_place(stand_ins)
        recurrent.flatten_weights(patches)
        _autocast_state(patches, autocast)
        _optimizers(patches)
        _checkpointing(patches)
        when_imported("transformers.utils.generic", lambda m: _transformers_autocast(patches, m))
        if builds_on_gpu:
            when_imported("transformers.modeling_utils", lambda m: _transformers_device(patches, m))
        _install_box_samplers(patches, observer)
        _item_assignment(patches, observer)
        _module_calls(patches, names)
        _literals(patches)
        _choices(patches)
        with _unchecked(), _same_numbers():
            yield
    finally:
        patches.undo()
        autocast.close()
        library._destroy()


def _as_cuda(device_type):
    return "cuda" if device_type == "meta" else device_type


def _autocast_state(patches: Patches, autocast: Autocast) -> None:
    patches.set(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    patches.set(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"):
        original = getattr(torch, name)
        patches.set(
            torch,
            name,
            lambda *args, original=original: original(*(_as_cuda(a) for a in args)),
        )
    set_enabled = torch.set_autocast_enabled

    def set_autocast_enabled(*args):
        set_enabled(*(_as_cuda(a) for a in args))
        autocast.refresh()

    patches.set(torch, "set_autocast_enabled", set_autocast_enabled)
    clear = torch.clear_autocast_cache

    def clear_autocast_cache():
        clear()
        autocast.clear()

    patches.set(torch, "clear_autocast_cache", clear_autocast_cache)
    initialise = torch.autocast.__init__

    def __init__(self, device_type, *args, **kwargs):
        initialise(self, _as_cuda(device_type), *args, **kwargs)

    patches.set(torch.autocast, "__init__", __init__)


def _optimizers(patches: Patches) -> None:
    tools = torch.utils._foreach_utils
    for name in ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices"):
        devices = [*getattr(tools, name)(), "meta"]
        for module in list(sys.modules.values()):
            held = getattr(module, "__dict__", {}).get(name)
            if held is getattr(tools, name) and module is not tools:
                patches.set(module, name, lambda devices=devices: list(devices))
        patches.set(tools, name, lambda devices=devices: list(devices))


def _checkpointing(patches: Patches) -> None:
    infer = torch.utils.checkpoint._infer_device_type
    patches.set(torch.utils.checkpoint, "_infer_device_type", lambda *args: _as_cuda(infer(*args)))


def _transformers_autocast(patches: Patches, generic: Any) -> None:
    if not hasattr(generic, "maybe_autocast"):
        return

    # Model files import the function itself, so its code is replaced rather than its name.
    def maybe_autocast(device_type, dtype=None, enabled=True, cache_enabled=None):
        import torch

        if torch.is_autocast_enabled(device_type) or enabled:
            return torch.autocast(
                device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled
            )
        from contextlib import nullcontext

        return nullcontext()

    patches.set(generic.maybe_autocast, "__code__", maybe_autocast.__code__)


def _transformers_device(patches: Patches, modeling_utils: Any) -> None:
    # On meta, transformers leaves a model's initialisation out; on CUDA it runs.
    def get_torch_context_manager_or_global_device():
        return torch.device("cuda")

    if hasattr(modeling_utils, "get_torch_context_manager_or_global_device"):
        original = modeling_utils.get_torch_context_manager_or_global_device
        patches.set(original, "__code__", get_torch_context_manager_or_global_device.__code__)


def _item_assignment(patches: Patches, observer: Any) -> None:
    """`tensor[...] = number`: the number stays in host memory on CUDA, but not on meta."""
    assign = torch.Tensor.__setitem__

    def __setitem__(self, index, value):
        if isinstance(value, torch.Tensor):
            return assign(self, index, value)
        observer.numbers_on_host += 1
        try:
            return assign(self, index, value)
        finally:
            observer.numbers_on_host -= 1

    patches.set(torch.Tensor, "__setitem__", __setitem__)


def _module_calls(patches: Patches, names: Any) -> None:
    """Keeps track of which module is running, without hooks, which would change what stays alive."""
    call = torch.nn.Module.__call__

    def __call__(self, *args, **kwargs):
        names.enter(self)
        try:
            return call(self, *args, **kwargs)
        finally:
            names.leave()

    patches.set(torch.nn.Module, "__call__", __call__)


def _literals(patches: Patches) -> None:
    """Numbers written in Python are forgotten on meta; they are kept for code that reads them back."""
    make = torch.tensor
    # The list of functions that obey `with torch.device` is made once; it must hold the originals.
    torch.utils._device._device_constructors()

    def keep(result, data):
        # A program is told another device.
        with torch._C.DisableTorchFunction():
            known = result.device.type == "meta" and not isinstance(data, torch.Tensor)
            readable = known and small_values.readable(result)
        if readable or (known and result.dtype == torch.bool):
            values = make(data, dtype=result.dtype, device="cpu")
            if readable:
                small_values.remember(result, values)
            if result.dtype == torch.bool:
                small_values.count_marked(result, int(values.count_nonzero()))
        return result

    def keeping(original):
        return lambda data, *args, **kwargs: keep(original(data, *args, **kwargs), data)

    for name in ("tensor", "as_tensor"):
        original = getattr(torch, name)
        kept = keeping(original)
        patches.set(torch, name, kept)
        # Functions that a model compiles meanwhile (TorchScript) must still find the built-in one.
        torch.jit._builtins._register_builtin(kept, f"aten::{name}")
        _REGISTERED.append(kept)
    new_tensor = torch.Tensor.new_tensor

    def kept_new_tensor(self, data, *args, **kwargs):
        return keep(new_tensor(self, data, *args, **kwargs), data)

    patches.set(torch.Tensor, "new_tensor", kept_new_tensor)

    def __format__(self, specification):
        """Python formats no meta tensor; a model may write its number into a name."""
        return format(self.item() if self.dim() == 0 else str(self), specification)

    patches.set(torch.Tensor, "__format__", __format__)


def _choices(patches: Patches) -> None:
    """How many values are not zero depends on the data; the most there can be are taken."""
    config = torch.fx.experimental._config
    if hasattr(config, "meta_nonzero_assume_all_nonzero"):
        patches.set(config, "meta_nonzero_assume_all_nonzero", True)


@contextmanager
def _same_numbers() -> Iterator[None]:
    """Some models draw masks with NumPy; a trace must give the same answer each time."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        yield
        return
    state = numpy.random.get_state()
    numpy.random.seed(0)
    try:
        yield
    finally:
        numpy.random.set_state(state)


@contextmanager
def _unchecked() -> Iterator[None]:
    """transformers holds values against each other (places for an image, and its parts); here are none."""
    name = "TRANSFORMERS_DISABLE_TORCH_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
