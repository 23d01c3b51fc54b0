"""Takes every call of a program that names a device, or asks a tensor of it, and answers as with a GPU."""

from __future__ import annotations

import copy
import functools
import sys
import threading
import weakref
from numbers import Integral
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, Callable

import torch
from torch._library.custom_ops import CustomOpDef
from torch.nested._internal import nested_tensor, sdpa
from torch.nn.attention import SDPBackend
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import _disable_current_modes

from ... import sparse
from ...standins.patches import Patches
from .. import values
from ..places import GPU, HOST, META, REAL, Places, is_cuda, is_named
from .moves import Moves

# Tensors that go to another library, or come from one, without being copied: DLPack.

# What DLPack calls the devices.
_CPU, _CUDA = 1, 2


class Shared:
    """In place of the capsule with the address of a tensor: the tensor, which has none."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def capsule(devices: Any, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    place = devices.places.where(tensor)
    if place == REAL:
        return func(*args, **kwargs)
    if place == GPU:
        return Shared(tensor)
    return torch.from_numpy(devices.moves.arrays.of(tensor)).__dlpack__()


def device(devices: Any, func: Any, args: Any, kwargs: Any) -> Any:
    place = devices.places.where(args[0])
    if place == REAL:
        return func(*args, **kwargs)
    return (_CUDA, devices.places.current) if place == GPU else (_CPU, 0)


def install_dlpack(patches: Patches, devices: Any) -> None:
    read, write = torch.from_dlpack, torch.utils.dlpack.to_dlpack

    def from_dlpack(given: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(given, torch.Tensor) and devices.places.where(given) != REAL:
            return given.detach()
        held = given
        if not isinstance(given, torch.Tensor) and _is_of_gpu(given):
            held = given.__dlpack__()
        return held.tensor.detach() if isinstance(held, Shared) else read(held, *args, **kwargs)

    def to_dlpack(tensor: Any) -> Any:
        return write(tensor) if devices.places.where(tensor) == REAL else tensor.__dlpack__()

    for module in (torch, torch.utils.dlpack):
        patches.set(module, "from_dlpack", from_dlpack)
    patches.set(torch.utils.dlpack, "to_dlpack", to_dlpack)


def _is_of_gpu(given: Any) -> bool:
    asked = getattr(given, "__dlpack_device__", None)
    return asked is not None and asked()[0] == _CUDA


# Rows of different lengths in one tensor (nested tensors of layout jagged).
#
# What they consist of is asked for its device where no mode answers: there it is `meta`, for what lies on the GPU.

_HALVES = (torch.float16, torch.bfloat16)
# The widest head that PyTorch's flash attention takes.
_WIDEST_HEAD = 256


def install_jagged(patches: Patches) -> None:
    _making(patches)
    select, cast = sdpa._select_sdp_backend, sdpa._autocast

    def selected(query: Any, *args: Any) -> Any:
        return _kernel(query, *args) if _is_bare(query) else select(query, *args)

    def autocast(query: Any, key: Any, value: Any, mask: Any) -> Any:
        if not _is_bare(query):
            return cast(query, key, value, mask)
        if not torch.is_autocast_enabled("cuda"):
            return query, key, value, mask
        dtype = torch.get_autocast_dtype("cuda")
        return tuple(one if one is None else one.to(dtype) for one in (query, key, value, mask))

    patches.set(sdpa, "_select_sdp_backend", selected)
    patches.set(sdpa, "_autocast", autocast)
    # Nothing is counted here but memory.
    patches.set(sdpa, "_is_computing_meta_flops", lambda _: False)


def _making(patches: Patches) -> None:
    """They are made for the device that the rows are on in truth."""
    kind = nested_tensor.NestedTensor
    make = kind.__new__

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return make(cls, *args, **kwargs)

    patches.set(kind, "__new__", __new__)


def _is_bare(tensor: Any) -> bool:
    with torch._C.DisableTorchFunction():
        return tensor.device.type == "meta"


def _kernel(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, is_causal: bool, grouped: bool
) -> Any:
    """The first that PyTorch would take on a card: it asks each in this order whether it can."""
    params = sdpa.SDPAParams(query, key, value, mask, dropout, is_causal, grouped)
    flash = torch.backends.cuda.flash_sdp_enabled() and query.dtype in _HALVES and mask is None
    if flash and query.size(-1) <= _WIDEST_HEAD and sdpa._can_use_flash_sdpa_jagged(params):
        return SDPBackend.FLASH_ATTENTION
    efficient = torch.backends.cuda.mem_efficient_sdp_enabled() and not grouped
    if efficient and sdpa._can_use_efficient_sdpa_jagged(params):
        return SDPBackend.EFFICIENT_ATTENTION
    return SDPBackend.MATH


# Ops on values in host memory alone: programs make their samples of thousands of small ones.
#
# They ask nothing of the GPU. Going through the observer takes ten times as long as most of them.

# Of functions in Python it is not known what they do.
_COMPILED = (BuiltinFunctionType, MethodDescriptorType)
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_PLAIN = frozenset((int, float, bool, str, type(None), torch.dtype, torch.Size))
_INDEX = frozenset((int, slice, type(None), type(...)))
# The observer leaves out the values of many rows that are picked.
_PICK = (torch.index_select, torch.Tensor.index_select)
# What a tensor says of itself takes no op.
_ASK = tuple(
    getattr(torch.Tensor, name)
    for name in (
        "dim",
        "element_size",
        "is_complex",
        "is_contiguous",
        "is_floating_point",
        "is_signed",
        "ndimension",
        "nelement",
        "numel",
        "requires_grad_",
        "size",
        "storage_offset",
        "stride",
        "untyped_storage",
    )
)
_OTHERS = frozenset((*_PICK, *_ASK, torch.numel, torch.is_floating_point, torch.is_complex))


def is_on_host(func: Any, args: tuple, kwargs: dict | None) -> bool:
    """Whether an op is given values of the host, and names no device."""
    if type(func) not in _COMPILED or func in _OTHERS:
        return False
    if kwargs and ("device" in kwargs or not _lies_on_host(kwargs.values(), found=True)):
        return False
    return _lies_on_host(args)


def is_part(tensor: Any, index: Any) -> bool:
    """Whether a part of a tensor of the host is asked for, and no rows are picked."""
    if type(tensor) not in _TENSORS or not tensor.is_cpu:
        return False
    if type(index) is tuple:
        return _INDEX.issuperset(map(type, index))
    return type(index) in _INDEX


def run(func: Any, args: tuple, kwargs: dict | None) -> Any:
    with torch._C._DisableTorchDispatch():
        return func(*args, **kwargs) if kwargs else func(*args)


def _lies_on_host(values: Any, found: bool = False) -> bool:
    """Whether all tensors are in host memory, and there is at least one; found: there is one among other values."""
    for value in values:
        kind = type(value)
        if kind in _TENSORS:
            if not value.is_cpu:
                return False
            found = True
        elif kind is list or kind is tuple:
            for one in value:
                if type(one) in _TENSORS:
                    if not one.is_cpu:
                        return False
                    found = True
                elif type(one) not in _PLAIN:
                    return False
        elif kind not in _PLAIN:
            return False
    return found


# Ops that a program defines (`torch.library.custom_op`) and for which it says no shapes: their own code runs.


def install_custom_ops(patches: Patches, observer: Any, devices: Any) -> None:
    make = CustomOpDef.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if self._abstract_fn is not None:
            return

        def followed(*values: Any, **named: Any) -> Any:
            """What it asks for inside is seen as well."""
            with torch._C._EnableTorchFunction(), devices, observer:
                return self._init_fn(*values, **named)

        self._abstract_fn = followed

    patches.set(CustomOpDef, "__init__", __init__)


# `copy.deepcopy` of tensors on meta: PyTorch copies each alone there, and on CUDA the storages they share.


def deep_copy(tensor: Any, memo: dict, bytes_like: Callable[[Any, int], Any]) -> Any:
    """As `Tensor.__deepcopy__` on CUDA. `bytes_like` makes memory where a tensor lies."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    storages = memo.setdefault("torch", {})
    with torch.no_grad():
        whole = tensor.untyped_storage()
        if whole._cdata not in storages:
            storages[whole._cdata] = bytes_like(tensor, whole.nbytes()).untyped_storage()
        copied = tensor.new_empty([])
        copied.set_(storages[whole._cdata], tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.requires_grad:
            copied.requires_grad_()
        if tensor.grad is not None:
            copied.grad = copy.deepcopy(tensor.grad, memo)
        copied.__dict__ = _attributes(tensor.__dict__, memo)
    memo[id(tensor)] = copied
    return copied


def _attributes(attributes: dict, memo: dict) -> dict:
    """Copies of them. Values in host memory, of which a model has hundreds, are copied without the calls around it."""
    return {
        name: _values(one, memo) if _is_plain(one) else copy.deepcopy(one, memo)
        for name, one in attributes.items()
    }


def _is_plain(value: Any) -> bool:
    if type(value) is not torch.Tensor:
        return False
    with torch._C.DisableTorchFunction():
        plain = value.is_cpu and value.layout is torch.strided and not value.is_quantized
        return plain and not value.requires_grad and not value.__dict__


def _values(value: Any, memo: dict) -> Any:
    """As `Tensor.__deepcopy__`: what shares its memory does so in the copies."""
    if id(value) in memo:
        return memo[id(value)]
    storages = memo.setdefault("torch", {})
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        whole = value.untyped_storage()
        if whole._cdata not in storages:
            storages[whole._cdata] = torch.UntypedStorage(whole.nbytes()).copy_(whole)
        copied = value.new_empty([])
        copied.set_(storages[whole._cdata], value.storage_offset(), value.shape, value.stride())
    memo[id(value)] = copied
    return copied


_TENSOR = torch.Tensor
_NOT_PACKED = (
    "nn.TransformerEncoder evaluates padded sentences without their padding; counted is the same with their "
    "padding"
)
# Modules that run ops of their own in evaluation, unless a mode would have to see each step.
_QUICK = ("torch.nn.modules.activation", "torch.nn.modules.transformer")


# PyTorch's own: they are replaced while a trace runs.
MAKE, AS_TENSOR = torch.tensor, torch.as_tensor
_PYTHON = frozenset((int, float, bool))
# What says which values are taken, instead of where they stand.
_MASKS = (torch.bool, torch.uint8)
# A list this long is never one of dimensions.
_LONGEST_INDEX = 32
# What is made like a tensor of the host that has no memory gets none either.
_LIKE = {torch.empty_like, torch.zeros_like, torch.ones_like, torch.full_like}


class Making:
    """Calls that make tensors on a named device, or out of the numbers of a program."""

    def __init__(self, moves: Moves):
        self._moves = moves
        self._places = moves.places
        self._observer = moves.observer
        # Storages that a program pinned, and the references that say when they end.
        self._pinned: dict[int, Any] = {}

    def made(self, func, args, kwargs):
        # Pages of the host are not counted, and cannot be pinned without a driver.
        if kwargs.get("pin_memory"):
            return self.pinned(self.made(func, args, {**kwargs, "pin_memory": False}))
        device = kwargs.get("device")
        if device is None:
            return func(*args, **kwargs)
        return self._on_device(func, args, kwargs, device)

    def pinned(self, tensor):
        """The tensor itself; it is said to be pinned from now on."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._pinned[key] = weakref.ref(storage, lambda _: self._pinned.pop(key, None))
        return tensor

    def pin_memory(self, func, args, kwargs):
        return self.pinned(args[0])

    def is_pinned(self, func, args, kwargs):
        return bool(self._pinned) and args[0].untyped_storage()._cdata in self._pinned

    def _on_device(self, func, args, kwargs, device):
        if is_cuda(device):
            self._moves.notice(device)
            with self._places.naming(GPU):
                return func(*args, **{**kwargs, "device": "meta"})
        if is_named(device, "meta") and self._places.named is None:
            with self._places.naming(META):
                return func(*args, **kwargs)
        on_host = func in _LIKE and args and is_named(device, "cpu")
        if on_host and self._places.where(args[0]) == HOST:
            with self._places.naming(HOST):
                return func(*args, **{**kwargs, "device": "meta"})
        return func(*args, **kwargs)

    def tensor(self, func, args, kwargs):
        if args and (held := self._moves.arrays.tensor_of(args[0])) is not None:
            return self._like_array(held, kwargs.get("dtype"), kwargs.get("device"))
        listed = bool(args) and type(args[0]) in (list, tuple)
        made = self.made(func, (self._numbers(args[0]), *args[1:]) if listed else args, kwargs)
        return self._counted(made)

    def _like_array(self, held, dtype, device):
        named = {} if dtype is None else {"dtype": dtype}
        if device is not None and is_cuda(device):
            return self._moves.to_gpu(held, named)
        return held.to(**named)

    def new_tensor(self, func, args, kwargs):
        return self._counted(self.made(func, args, kwargs))

    def as_tensor(self, func, args, kwargs):
        """Numbers of the program are made in host memory, where they are known."""
        data, device = args[0] if args else kwargs.get("data"), kwargs.get("device")
        if isinstance(data, torch.Tensor) or device is None or not is_cuda(device):
            return self.tensor(func, args, kwargs)
        self._moves.notice(device)
        return self._moves.to_gpu(self.tensor(func, args, {**kwargs, "device": "cpu"}), {})

    def _counted(self, tensor):
        """PyTorch puts numbers into memory, and copies them, where no mode sees it."""
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        plain = type(tensor) is torch.Tensor and not wrapped(tensor)
        if plain and self._observer.recording and self._places.where(tensor) == GPU:
            self._observer.adopt(tensor.untyped_storage(), "aten.tensor")
        return tensor

    def _numbers(self, value):
        """Tensors on the GPU that stand in a list are read, one by one."""
        if type(value) in (list, tuple):
            # A row of numbers is as it is: programs make texts of such rows.
            plain = _PYTHON.issuperset(map(type, value))
            return value if plain else [self._numbers(one) for one in value]
        if isinstance(value, torch.Tensor) and self._places.where(value) == GPU:
            return values.plausible(value, self._observer).tolist()
        return value

    def part(self, func, args, kwargs):
        if is_part(*args) and self._observer.passes_by():
            return run(func, args, kwargs)
        return self.item(func, args, kwargs)

    def item(self, func, args, kwargs):
        """Places in a list come from host memory: PyTorch would make a meta tensor of them, without values."""
        tensor, index, *value = args
        if _names_places(index) and (place := self._places.where(tensor)) != REAL:
            index = self._with_tensors(index, place)
        return func(tensor, index, *value)

    def _with_tensors(self, index: Any, place: str) -> Any:
        if not _is_for_dimensions(index):
            return self._tensor_of(index, place)
        parts = (self._tensor_of(one, place) if _is_numbers(one) else one for one in index)
        return type(index)(parts)

    def _tensor_of(self, numbers: Any, place: str) -> Any:
        made = MAKE(numbers, device="cpu")
        made = made if made.dtype in _MASKS else made.long()
        return self._moves.to_gpu(made, {}) if place == GPU else made


def _names_places(index: Any) -> bool:
    """Whether an index has places, or a mask, as numbers of the program: alone, or for some dimensions."""
    return any(map(_is_numbers, index)) if _is_for_dimensions(index) else _is_numbers(index)


def _is_for_dimensions(index: Any) -> bool:
    """Whether PyTorch takes what stands in it for one dimension each, and not all of it for the first."""
    if isinstance(index, list) and len(index) < _LONGEST_INDEX:
        return not all(isinstance(one, Integral) for one in index)
    return isinstance(index, tuple)


def _is_numbers(value: Any) -> bool:
    """Whether it is an array of numpy, or a sequence, that PyTorch would make a tensor of."""
    if hasattr(value, "__array_interface__"):
        return value.ndim > 0 and value.dtype.kind in "iub"
    if not isinstance(value, (list, tuple, range)) or not value:
        return False
    return all(isinstance(one, Integral) or _is_numbers(one) for one in value)


class PretendedDevices(TorchFunctionMode):
    def __init__(self, places: Places, observer: Any):
        super().__init__()
        self.places = places
        self.observer = observer
        self.moves = Moves(places, observer)
        self._making = Making(self.moves)
        # What happens where a program says that a stream uses a tensor; nothing without streams.
        self.on_record_stream: Callable[[Any, Any], None] | None = None
        # Whether a real run would have packed sentences before the layers of an encoder see them.
        self._without_padding = False
        self._special = _table(self)
        # Two threads take turns, call by call.
        self._turn = threading.RLock()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        special = self._special.get(func)
        with self._turn:
            if special is not None:
                return special(func, args, kwargs or {})
            if is_on_host(func, args, kwargs) and self.observer.passes_by():
                return run(func, args, kwargs)
            # What names nothing names no device.
            return self._making.made(func, args, kwargs) if kwargs else func(*args)

    # What tensors say of themselves.
    def device(self, func, args, kwargs):
        real = func(*args, **kwargs)
        if real.type != "meta":
            return real
        return self.places.device_of(args[0])

    def is_cuda(self, func, args, kwargs):
        return self.places.where(args[0]) == GPU

    def is_cpu(self, func, args, kwargs):
        return func(*args, **kwargs) or self.places.where(args[0]) == HOST

    def is_meta(self, func, args, kwargs):
        return self.places.where(args[0]) == META

    def get_device(self, func, args, kwargs):
        return self.places.current if self.places.where(args[0]) == GPU else -1

    def share_memory(self, func, args, kwargs):
        """Only what has memory can share it."""
        real = self.places.where(args[0]) == REAL
        return func(*args, **kwargs) if real else args[0]

    def parse_to(self, func, args, kwargs):
        device, *rest = func(*args, **kwargs)
        given = args[0] if args else kwargs.get("tensor")
        like = isinstance(given, torch.Tensor) and self.places.where(given) != REAL
        return (self.places.device_of(given) if like else device, *rest)

    def deepcopy(self, func, args, kwargs):
        tensor, memo = args
        plain = _wraps_nothing(type(tensor)) and tensor.layout == torch.strided and tensor.is_leaf
        place = self.places.where(tensor)
        if not plain or place == REAL:
            return func(*args, **kwargs)

        def bytes_like(_: Any, size: int) -> Any:
            with self.places.naming(place):
                return torch.empty(size, dtype=torch.uint8, device="meta")

        return deep_copy(tensor, memo, bytes_like)

    def reduce(self, func, args, kwargs):
        """Of a tensor with attributes PyTorch asks for the device where no mode answers."""
        tensor, protocol = args
        if type(tensor) is not _TENSOR or self.places.where(tensor) == REAL:
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

    def not_packed(self, func, args, kwargs):
        self.observer.notes.add(_NOT_PACKED)
        self._without_padding = True
        return False

    def encoder_layer(self, func, args, kwargs):
        """Sentences without padding need no mask."""
        return func(*(args[:-2] if self._without_padding else args), **kwargs)

    def finite(self, func, args, kwargs):
        """A loss of NaN would end most programs; here it is always finite."""
        result = func(*args, **kwargs)
        self.observer.scalars.assume(result, True)
        return result

    def not_finite(self, func, args, kwargs):
        result = func(*args, **kwargs)
        self.observer.scalars.assume(result, False)
        return result


def _table(mode: PretendedDevices) -> dict[Any, Callable]:
    moves, making = mode.moves, mode._making
    table: dict[Any, Callable] = {
        # A program, and the libraries it uses, choose their ways by these.
        _TENSOR.device.__get__: mode.device,
        _TENSOR.is_cuda.__get__: mode.is_cuda,
        _TENSOR.is_cpu.__get__: mode.is_cpu,
        _TENSOR.is_meta.__get__: mode.is_meta,
        _TENSOR.get_device: mode.get_device,
        # FSDP moves buffers so.
        _TENSOR.data.__set__: moves.set_data,
        _TENSOR.grad.__set__: moves.set_grad,
        # Between two meta tensors PyTorch would copy nothing.
        _TENSOR.to: moves.to,
        _TENSOR.cuda: moves.cuda,
        _TENSOR.cpu: moves.cpu,
        _TENSOR.type: moves.type,
        _TENSOR.type_as: moves.type_as,
        _TENSOR.numpy: moves.numpy,
        # Modules, and parameters with ways of their own, read from it where they are to go.
        torch._C._nn._parse_to: mode.parse_to,
        MAKE: making.tensor,
        _TENSOR.new_tensor: making.new_tensor,
        AS_TENSOR: making.as_tensor,
        _TENSOR.new: sparse.new,
        _TENSOR.__getitem__: making.part,
        _TENSOR.__setitem__: making.item,
        # Pages of the host are not counted.
        _TENSOR.pin_memory: making.pin_memory,
        _TENSOR.is_pinned: making.is_pinned,
        _TENSOR.share_memory_: mode.share_memory,
        # Whether rows are padded at their ends alone is not known: then nothing is packed without padding.
        torch._nested_tensor_from_mask_left_aligned: mode.not_packed,
        torch._transformer_encoder_layer_fwd: mode.encoder_layer,
        _TENSOR.data_ptr: mode.data_ptr,
        _TENSOR.__dlpack__: functools.partial(capsule, mode),
        _TENSOR.__dlpack_device__: functools.partial(device, mode),
        # Tensors that share memory share it in copies and files, too.
        _TENSOR.__deepcopy__: mode.deepcopy,
        _TENSOR.__reduce_ex__: mode.reduce,
    }
    table[torch.isfinite] = table[_TENSOR.isfinite] = mode.finite
    for name in ("isnan", "isinf", "isposinf", "isneginf"):
        table[getattr(torch, name)] = table[getattr(_TENSOR, name)] = mode.not_finite
    return table


def install_pretended(patches: Patches, devices: PretendedDevices) -> None:
    # PyTorch's own takes no other stream than one of the driver's.
    patches.set(torch.Tensor, "record_stream", lambda t, s: devices.record_stream(t, s))
    patches.set(torch.UntypedStorage, "data_ptr", _address_of(torch.UntypedStorage.data_ptr))
    asked = torch.overrides.has_torch_function

    def has_torch_function(tensors: Any) -> bool:
        """Without this mode, which a real run does not have."""
        module = sys._getframe(1).f_globals.get("__name__")
        others = [mode for mode in _get_current_function_mode_stack() if mode is not devices]
        if module not in _QUICK or others:
            return asked(tensors)
        return any(map(_has_own_functions, tensors))

    patches.set(torch.overrides, "has_torch_function", has_torch_function)
    install_jagged(patches)
    made_of = torch.from_numpy

    def from_numpy(array: Any) -> Any:
        held = devices.moves.arrays.tensor_of(array)
        return made_of(array) if held is None else held

    patches.set(torch, "from_numpy", from_numpy)
    install_dlpack(patches, devices)


def _address_of(own: Callable[[Any], int]) -> Callable[[Any], int]:
    def data_ptr(storage: Any) -> int:
        """Libraries tell by it which weights share memory, and save those once."""
        if storage.device.type != "meta":
            return own(storage)
        return storage._cdata if storage.nbytes() else 0

    return data_ptr


def _wraps_nothing(kind: Any) -> bool:
    """Whether it is a tensor, or a program's own kind with a few methods more."""
    default = _TENSOR.__torch_function__.__func__
    return getattr(kind.__torch_function__, "__func__", None) is default


def _has_own_functions(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or type(value) is _TENSOR:
        return False
    return type(value).__torch_function__ is not torch._C._disabled_torch_function_impl
