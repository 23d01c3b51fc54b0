"""Tensors and devices as a program with a GPU sees them, while all of it lies on `meta`."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from .. import sparse
from ..standins.copies import deep_copy
from . import values
from .places import GPU, HOST, META, Places, device_named, is_cuda, is_named
from .tensor_types import dtype_on_gpu, dtype_on_host

_TENSOR = torch.Tensor
# PyTorch's own: it is replaced while a trace runs.
_MAKE = torch.tensor
# Copies to the host with more values than this get no memory: they stay on meta, as the host's.
_MAX_VALUES = 1 << 20
# What is made like a tensor of the host that has no memory gets none either.
_LIKE = {torch.empty_like, torch.zeros_like, torch.ones_like, torch.full_like}
_SEVERAL = (
    "the program uses several cards in one process; what lies on each of them is counted as on one"
)
_NOT_PACKED = (
    "nn.TransformerEncoder evaluates padded sentences without their padding, by kernels of its own; counted is "
    "the ordinary way, with the padding"
)


class PretendedDevices(TorchFunctionMode):
    def __init__(self, places: Places, observer: Any):
        super().__init__()
        self.places = places
        self.observer = observer
        # Above zero while a module moves: a parameter, its gradient and buffers stay of one kind.
        self.moving_modules = 0
        # What happens where a program says that a stream uses a tensor; nothing without streams.
        self.on_record_stream: Callable[[Any, Any], None] | None = None
        self._special = _table(self)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        special = self._special.get(func)
        if special is not None:
            return special(func, args, kwargs)
        return self._made(func, args, kwargs)

    def _made(self, func, args, kwargs):
        # Pages of the host are not counted, and cannot be pinned without a driver.
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        device = kwargs.get("device")
        if device is None:
            return func(*args, **kwargs)
        return self._on_device(func, args, kwargs, device)

    def _on_device(self, func, args, kwargs, device):
        if is_cuda(device):
            self._notice(device)
            with self.places.naming(GPU):
                return func(*args, **{**kwargs, "device": "meta"})
        if is_named(device, "meta") and self.places.named is None:
            with self.places.naming(META):
                return func(*args, **kwargs)
        if func in _LIKE and args and is_named(device, "cpu") and self._place(args[0]) == HOST:
            with self.places.naming(HOST):
                return func(*args, **{**kwargs, "device": "meta"})
        return func(*args, **kwargs)

    def _notice(self, device: Any) -> None:
        """Counts what goes to another card with the first one's, and says so."""
        number = device if isinstance(device, int) else torch.device(device).index
        if number and number != self.places.current:
            self.observer.notes.add(_SEVERAL)

    # What tensors say of themselves.
    def device(self, func, args, kwargs):
        real = func(*args, **kwargs)
        if real.type != "meta":
            return real
        return self.places.device_of(args[0])

    def is_cuda(self, func, args, kwargs):
        return self._place(args[0]) == GPU

    def is_cpu(self, func, args, kwargs):
        return func(*args, **kwargs) or self._place(args[0]) == HOST

    def is_meta(self, func, args, kwargs):
        return self._place(args[0]) == META

    def get_device(self, func, args, kwargs):
        return self.places.current if self._place(args[0]) == GPU else -1

    def _place(self, tensor) -> str:
        with torch._C.DisableTorchFunction():
            if tensor.device.type != "meta":
                return "cpu"
        return self.places.of(tensor)

    # Ways between host and GPU.
    def to(self, func, args, kwargs):
        tensor = args[0]
        device, named = device_named(args, kwargs)
        if isinstance(device, torch.Tensor):
            place = self._place(device)
            named.setdefault("dtype", device.dtype)
            device = {GPU: "cuda", HOST: "cpu", META: "meta"}.get(place, device.device)
        if device is None:
            return func(*args, **kwargs)
        if is_cuda(device):
            self._notice(device)
            return self._to_gpu(tensor, named)
        if is_named(device, "cpu"):
            return self._to_host(tensor, named)
        if not is_named(device, "meta"):
            return func(tensor, device, **named)
        on_meta = self._place(tensor) in (GPU, HOST)
        with self.places.naming(META):
            return torch.empty_like(tensor, **named) if on_meta else func(tensor, device, **named)

    def type_as(self, func, args, kwargs):
        other = args[1] if len(args) > 1 else kwargs["other"]
        return self.to(_TENSOR.to, (args[0], other), {})

    def cuda(self, func, args, kwargs):
        return self._to_gpu(args[0], {})

    def cpu(self, func, args, kwargs):
        return self._to_host(args[0], {})

    def _to_gpu(self, tensor, named):
        place = self._place(tensor)
        if place == GPU:
            return tensor.to(**named) if named else tensor
        if place == META:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        with self.places.naming(GPU):
            if place == HOST:
                return values.copy_known_value(tensor, _copied(tensor, named))
            return values.copy_known_value(tensor, tensor.to("meta", **named))

    def _to_host(self, tensor, named):
        place = self._place(tensor)
        if place == "cpu":
            return tensor.to("cpu", **named)
        if place == HOST:
            return tensor.to(**named) if named else tensor
        keeps = self.moving_modules or isinstance(tensor, torch.nn.Parameter)
        if tensor.numel() <= _MAX_VALUES and not keeps:
            return tensor.to("cpu", **named)
        with self.places.naming(HOST):
            return values.copy_known_value(tensor, _copied(tensor, named))

    def set_data(self, func, args, kwargs):
        """Real values of the host and tensors without memory are of two kinds, which PyTorch keeps apart."""
        tensor, value = args
        with torch._C.DisableTorchFunction():
            if tensor.device.type == value.device.type:
                return func(*args, **kwargs)
            # Seen by no one: what is followed cannot be swapped.
            with _disable_current_modes():
                torch.utils.swap_tensors(tensor, value.detach())
        return None

    def numpy(self, func, args, kwargs):
        if self._place(args[0]) == HOST:
            return values.plausible(args[0], self.observer).numpy()
        if self._place(args[0]) == GPU:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        return func(*args, **kwargs)

    def itself(self, func, args, kwargs):
        return args[0]

    def parse_to(self, func, args, kwargs):
        device, *rest = func(*args, **kwargs)
        given = args[0] if args else kwargs.get("tensor")
        like = isinstance(given, torch.Tensor) and self._place(given) != "cpu"
        return (self.places.device_of(given) if like else device, *rest)

    def tensor(self, func, args, kwargs):
        listed = bool(args) and type(args[0]) in (list, tuple)
        made = self._made(func, (self._numbers(args[0]), *args[1:]) if listed else args, kwargs)
        return self._counted(made)

    def new_tensor(self, func, args, kwargs):
        return self._counted(self._made(func, args, kwargs))

    def _counted(self, tensor):
        """PyTorch puts numbers into memory, and copies them, where no mode sees it."""
        plain = type(tensor) is _TENSOR and not torch._C._functorch.is_functorch_wrapped_tensor(
            tensor
        )
        if plain and self.observer.recording and self._place(tensor) == GPU:
            self.observer.adopt(tensor.untyped_storage(), "aten.tensor")
        return tensor

    def as_tensor(self, func, args, kwargs):
        """Numbers of the program are made in host memory, where they are known."""
        data, device = args[0] if args else kwargs.get("data"), kwargs.get("device")
        if isinstance(data, torch.Tensor) or device is None or not is_cuda(device):
            return self.tensor(func, args, kwargs)
        self._notice(device)
        return self._to_gpu(self.tensor(func, args, {**kwargs, "device": "cpu"}), {})

    def item(self, func, args, kwargs):
        tensor, index = args
        if values.names_places(index) and self._place(tensor) == GPU:
            index = values.with_tensors(index, lambda places: self._to_gpu(_MAKE(places), {}))
        return func(tensor, index)

    def _numbers(self, value):
        """Tensors on the GPU that stand in a list are read, one by one."""
        if type(value) in (list, tuple):
            return [self._numbers(one) for one in value]
        if isinstance(value, torch.Tensor) and self._place(value) == GPU:
            return values.plausible(value, self.observer).tolist()
        return value

    def ctc_loss(self, func, args, kwargs):
        """PyTorch reads the lengths on the host; while a mode watches, it would compute with them."""
        lengths = [
            a.tolist() if isinstance(a, torch.Tensor) and self._place(a) == "cpu" else a
            for a in args[2:4]
        ]
        return func(*args[:2], *lengths, *args[4:], **kwargs)

    def deepcopy(self, func, args, kwargs):
        tensor, memo = args
        plain = type(tensor) is _TENSOR and tensor.layout == torch.strided and tensor.is_leaf
        place = self._place(tensor)
        if not plain or place == "cpu":
            return func(*args, **kwargs)

        def bytes_like(_: Any, size: int) -> Any:
            with self.places.naming(place):
                return torch.empty(size, dtype=torch.uint8, device="meta")

        return deep_copy(tensor, memo, bytes_like)

    def reduce(self, func, args, kwargs):
        """Of a tensor with attributes PyTorch asks for the device where no mode answers."""
        tensor, protocol = args
        if type(tensor) is not _TENSOR or self._place(tensor) == "cpu":
            return func(*args, **kwargs)
        with self:
            rebuild, rest = tensor._reduce_ex_internal(protocol)
        state = torch._utils._get_obj_state(tensor)
        return torch._tensor._rebuild_from_type_v2, (rebuild, type(tensor), rest, state)

    def record_stream(self, tensor: Any, stream: Any) -> None:
        if self.on_record_stream is not None:
            self.on_record_stream(tensor, stream)

    def data_ptr(self, func, args, kwargs):
        """One number for each place in memory, by which libraries tell tensors apart."""
        tensor = args[0]
        with torch._C.DisableTorchFunction():
            if tensor.device.type != "meta":
                return func(*args, **kwargs)
            storage = getattr(tensor, "_local_tensor", tensor).untyped_storage()
            return storage._cdata + tensor.storage_offset() * tensor.element_size()

    def no(self, func, args, kwargs):
        return False

    def format(self, func, args, kwargs):
        tensor, specification = args
        value = tensor.item() if tensor.dim() == 0 else str(tensor)
        return format(value, specification)

    def type(self, func, args, kwargs):
        wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
        if (dtype := dtype_on_gpu(wanted)) is not None:
            return self._to_gpu(args[0], {"dtype": dtype})
        if (dtype := dtype_on_host(wanted)) is not None:
            return self._to_host(args[0], {"dtype": dtype})
        if wanted is None and self._place(args[0]) in (GPU, HOST):
            part = "cuda." if self._place(args[0]) == GPU else ""
            with torch._C.DisableTorchFunction():
                return torch.empty(0, dtype=args[0].dtype).type().replace("torch.", "torch." + part)
        return func(*args, **kwargs)

    def not_packed(self, func, args, kwargs):
        self.observer.notes.add(_NOT_PACKED)
        return False

    def finite(self, func, args, kwargs):
        """A loss that is no number would end most programs; here it always is one."""
        result = func(*args, **kwargs)
        self.observer.scalars.assume(result, True)
        return result

    def not_finite(self, func, args, kwargs):
        result = func(*args, **kwargs)
        self.observer.scalars.assume(result, False)
        return result


def _table(mode: PretendedDevices) -> dict[Any, Callable]:
    table = {
        # A program, and the libraries it uses, choose their ways by these.
        _TENSOR.device.__get__: mode.device,
        _TENSOR.is_cuda.__get__: mode.is_cuda,
        _TENSOR.is_cpu.__get__: mode.is_cpu,
        _TENSOR.is_meta.__get__: mode.is_meta,
        _TENSOR.get_device: mode.get_device,
        # FSDP moves buffers so.
        _TENSOR.data.__set__: mode.set_data,
        # Between two meta tensors PyTorch would copy nothing.
        _TENSOR.to: mode.to,
        _TENSOR.cuda: mode.cuda,
        _TENSOR.cpu: mode.cpu,
        _TENSOR.type: mode.type,
        _TENSOR.type_as: mode.type_as,
        _TENSOR.numpy: mode.numpy,
        # Modules, and parameters with ways of their own, read from it where they are to go.
        torch._C._nn._parse_to: mode.parse_to,
        _MAKE: mode.tensor,
        _TENSOR.new_tensor: mode.new_tensor,
        torch.as_tensor: mode.as_tensor,
        _TENSOR.new: sparse.new,
        _TENSOR.__getitem__: mode.item,
        torch.ctc_loss: mode.ctc_loss,
        torch.nn.functional.ctc_loss: mode.ctc_loss,
        # Pages of the host are not counted.
        _TENSOR.pin_memory: mode.itself,
        _TENSOR.is_pinned: mode.no,
        _TENSOR.share_memory_: mode.itself,
        # Whether rows are padded at their ends alone is not known: then nothing is packed without padding.
        torch._nested_tensor_from_mask_left_aligned: mode.not_packed,
        _TENSOR.data_ptr: mode.data_ptr,
        # Tensors that share memory share it in copies and files, too.
        _TENSOR.__deepcopy__: mode.deepcopy,
        _TENSOR.__reduce_ex__: mode.reduce,
        # Of a meta tensor Python formats nothing.
        _TENSOR.__format__: mode.format,
    }
    table[torch.isfinite] = table[_TENSOR.isfinite] = mode.finite
    for name in ("isnan", "isinf", "isposinf", "isneginf"):
        table[getattr(torch, name)] = table[getattr(_TENSOR, name)] = mode.not_finite
    return table


def _copied(tensor: Any, named: dict[str, Any]) -> Any:
    """In one copy, whatever else changes with it."""
    if named.get("dtype", tensor.dtype) == tensor.dtype:
        layout = named.get("memory_format", torch.preserve_format)
        return tensor.clone(memory_format=layout)
    return tensor.to(**named)
