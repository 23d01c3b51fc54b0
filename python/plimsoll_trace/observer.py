"""Sees every op that PyTorch runs on the meta device and records what CUDA would ask for.

A storage is one allocation; its weak reference dying is its free. What a CUDA kernel takes
besides its outputs comes from the rules in `plimsoll.kernels`.
"""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import ledger as kinds
from . import op_facts, small_values, sparse
from .assumed import likely_values
from .assumed.chosen import CHOOSING, NMS, PUTS, Chosen
from .assumed.even_choices import EvenChoices
from .assumed.waiting import Waiting
from .corrections import accumulates_in_place
from .facts import Facts
from .kernels.registry import Launch, rule_for
from .launches import Launches
from .ledger import Ledger
from .meta_results import MetaResults
from .op_facts import COMPOSITE, is_composite, name_of, way_of
from .scalars import Scalars

_DETACH = torch.ops.aten.detach.default
_EQUAL = torch.ops.aten.equal.default
_ITEM = torch.ops.aten._local_scalar_dense.default
_RAND = torch.ops.aten.rand.default
_ADD = torch.ops.aten.add.Tensor
# Ops that read values, or copy them to the host, or whose result is as large as values say.
_BY_VALUES = {*Scalars.answers, *op_facts.COPIES, *CHOOSING, *PUTS}


class Observer(TorchDispatchMode):
    # Tensors that are taken apart before memory is asked for (DTensor): their parts come here.
    passes_on: tuple[type, ...] = ()
    # The one of this trace, once there is one.
    autocast: Any = None
    layer_draws: Any = None
    # Where there are several streams: enters the one on which autograd adds up two gradients.
    summing: Callable[[], AbstractContextManager[None]] | None = None

    def __init__(self, ledger: Ledger, gpu: Any, current_module: Callable[[], str]):
        super().__init__()
        self.ledger = ledger
        self.gpu = gpu
        self.category = kinds.WEIGHT
        # Off while something is built that would come to the GPU in another form.
        self.recording = True
        # Above zero while a number is being assigned into a tensor.
        self.numbers_on_host = 0
        self.current_module = current_module
        self.scalars = Scalars()
        # What a person should know about how the figures came about.
        self.notes: set[str] = set()
        self.facts = Facts()
        # Workspaces stay for good, one per thread that launches: forward's and backward's.
        self.workspaces: dict[Any, int] = {}
        # Convolutions for which `cudnn.benchmark` has chosen a kernel, and sources of fused kernels that were tried.
        self.tried: set[tuple | str] = set()
        # What compiled graphs became, by their form.
        self.codes: dict[str | None, Any] = {}
        # Numbers of the convolutions whose kernel is not sure.
        self.choices: dict[tuple, int] = {}
        self.chosen = Chosen(ledger)
        self._launches = Launches(ledger)
        self._waiting = Waiting()
        self._live: dict[int, _Lies] = {}
        self._on_end = self._ended
        # By the op's `id`.
        self._ops: dict[int, _Op] = {}
        self._stand_ins: dict[Any, Callable] = {}
        self.results = MetaResults()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch's compiler never runs while ops are observed: what keeps it out would cost a tenth of each op."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.passes_on and any(issubclass(kind, self.passes_on) for kind in types):
            return NotImplemented
        op = None if sparse.concerns(args) else self.facts_of(func)
        if op is None or op.makes_sparse:
            return self._taken_apart(func, types, args, kwargs)
        if op.may_be_known:
            value = self._known(func, args, kwargs)
            if value is not None:
                return value
        if func is _ADD and accumulates_in_place(args, kwargs):
            return torch.ops.aten.add_.Tensor(args[0], args[1])
        rule = op.rule
        # In inference mode, or on tensors from it, an op arrives whole that autograd takes apart.
        stand_in = op.stand_in
        if stand_in is not None and any(map(_is_on_meta, args)):
            with self, self._autocast_resumed():
                return stand_in(*args, **kwargs)
        if op.is_composite:
            with self, self._autocast_resumed():
                return func._op_dk(COMPOSITE, *args, **kwargs)
        result = self.results.run(func, args, kwargs)
        if func is not _DETACH and self.recording:
            if func is _ADD and self.summing is not None:
                with self.summing():
                    self._record(func, rule, args, kwargs, result)
            else:
                self._record(func, rule, args, kwargs, result)
            if op.is_noticed:
                self.chosen.even.notice(func, args, kwargs, result, self.scalars)
        if op.is_noticed:
            self.scalars.notice(func, args, result)
        small_values.follow(func, args, kwargs, result, op.way)
        if op.likely is not None:
            op.likely(func, args, kwargs, result)
        return result

    def _taken_apart(self, func, types, args, kwargs):
        """Of sparse tensors, and of rows of different lengths."""
        if types and any(map(sparse.is_jagged, args)):
            return NotImplemented
        stand_in = sparse.stand_in(func, args, kwargs)
        if stand_in is None:
            return func(*args, **kwargs)
        with self:
            return stand_in(*args, **kwargs)

    def _answer(self, func, args) -> Any:
        if func is _EQUAL:
            return self._are_equal(*args)
        known = small_values.value_of(args[0])
        likely = likely_values.size_of(args[0]) if known is None else known.item()
        value = self.scalars.answer(func, args) if likely is None else likely
        asked = isinstance(value, bool) and _is_on_meta(args[0])
        return self._waiting.ends(value, known is not None) if asked else value

    def _are_equal(self, first: Any, second: Any) -> bool:
        """What is not known is taken to be equal; a single boolean is what it would be if it were asked."""
        if first.shape != second.shape:
            return False
        values = [small_values.value_of(t) if _is_on_meta(t) else t for t in (first, second)]
        if not any(value is None for value in values):
            return torch.equal(*values)
        if first.dim() == 0 and first.dtype == second.dtype == torch.bool:
            return self._answer(_ITEM, (first,)) == self._answer(_ITEM, (second,))
        return True

    def _known(self, func, args, kwargs) -> Any | None:
        """A value that is known without running the op, or decided here."""
        if func is _RAND:
            drawn = not args[0] and self.layer_draws is not None
            return self.layer_draws.draw() if drawn else None
        if func in self.scalars.answers:
            return self._answer(func, args)
        if func in op_facts.COPIES:
            value = small_values.read(func, args, kwargs)
            return self.host_copy(func, args, kwargs) if value is None else value
        note = self.chosen.expect(func, args)
        if note is not None:
            self.notes.add(note)
        return None

    def host_copy(self, func, args, kwargs) -> Any:
        """What the host gets to see where an op copies from the device to it; else None."""
        host = op_facts.read(func, args, kwargs)
        if host is not None:
            self.notes.add("values that the model reads back from the GPU were taken as zero")
        return host

    def facts_of(self, func) -> _Op:
        """What is to be done for an op, found out once: asking a set for an op runs Python code of PyTorch's."""
        op = self._ops.get(id(func))
        if op is None:
            op = self._ops[id(func)] = _Op(func, self.scalars)
            op.stand_in = self._stand_ins.get(func) if op.rule is None else None
        return op

    def put_in_place(self, stand_ins: dict[Any, Callable]) -> None:
        """Functions that run an op as CUDA does, where no autograd calls them."""
        self._stand_ins.update(stand_ins)
        self._ops.clear()

    def _autocast_resumed(self) -> AbstractContextManager[None]:
        return nullcontext() if self.autocast is None else self.autocast.resumed()

    def _record(self, func, rule, args, kwargs, result) -> None:
        self._launches.notice(func, args)
        if rule is None and type(result) is torch.Tensor and result.is_meta:
            # As most ops: one result, and nothing beside it.
            storage = sparse.stored(result).untyped_storage()
            if storage._cdata not in self._live:
                self.adopt(storage, name_of(func))
                self.chosen.follow(func, args, [result], self.allocation_of)
            return
        fresh = {}
        outputs = _flat(result) if isinstance(result, (tuple, list)) else (result,)
        for index, output in enumerate(outputs):
            if isinstance(output, torch.Tensor) and output.is_meta:
                storage = sparse.stored(output).untyped_storage()
                if storage._cdata not in self._live:
                    fresh[index] = storage
        if not fresh and rule is None:
            return
        new = [outputs[index] for index in fresh]
        launch = Launch(self, func, args, kwargs, outputs, fresh)
        if rule is not None:
            rule(launch)
        launch.place_all()
        self.chosen.follow(func, args, new, self.allocation_of)

    def adopt(self, storage, op: str, category: str | None = None, least: int = 0) -> int:
        """Records a storage as one allocation, of `least` bytes or more, that is freed when the last tensor lets go."""
        key = storage._cdata
        if key in self._live:
            return self._live[key].ident
        size, module = max(least, storage.nbytes()), self.current_module()
        return self.bind(storage, self.ledger.allocate(size, op, module, category or self.category))

    def bind(self, storage, ident: int) -> int:
        """Says that a storage lies in an allocation, which ends with it."""
        key = storage._cdata
        reference = self._live[key] = _Lies(storage, self._on_end)
        reference.key, reference.ident = key, ident
        return ident

    def _ended(self, reference: _Lies) -> None:
        key = reference.key
        self.scalars.forget(key)
        small_values.forget(key)
        self.chosen.forget(key)
        entry = self._live.pop(key, None)
        if entry is not None:
            self.ledger.free(entry.ident)

    def has_seen(self, storage_key: int) -> bool:
        """Whether a storage is in the record, or left out of it on purpose."""
        return storage_key in self._live

    def allocation_of(self, tensor) -> int:
        """The allocation that a tensor lies in; 0 where it has none."""
        entry = self._live.get(sparse.stored(tensor).untyped_storage()._cdata)
        return 0 if entry is None else entry.ident

    def resized(self, storage, size: int) -> None:
        """A storage got another size: that is a new allocation, or none."""
        entry = self._live.get(storage._cdata)
        if not self.recording or (entry is None and size == 0):
            return
        fresh = self.ledger.allocate(size, "resize_", self.current_module(), self.category)
        if entry is None:
            self.bind(storage, fresh)
            return
        before, entry.ident = entry.ident, fresh
        self.ledger.free(before)

    def disown(self, tensor) -> int:
        """Leaves the end of a tensor's allocation to the caller."""
        key = tensor.untyped_storage()._cdata
        entry = self._live[key]
        ident, entry.ident = entry.ident, 0
        return ident

    def moved(self, to: dict[int, int]) -> None:
        """Says that all that lay in some allocations lies in others now."""
        for entry in self._live.values():
            entry.ident = to.get(entry.ident, entry.ident)

    def give_back_workspaces(self) -> None:
        """Those that cuBLAS keeps between its calls; the next call asks for one again."""
        for ident in self.workspaces.values():
            self.ledger.free(ident)
        self.workspaces.clear()

    def ignore(self, storage) -> None:
        """Leaves a storage out of the record: on CUDA it would not be the device's."""
        self.bind(storage, 0)

    def is_on_host(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "cpu"

    def ident_of(self, tensor) -> int:
        """The allocation a tensor lives in, or 0 when it is not one of the device's."""
        tensor = getattr(tensor, "_local_tensor", tensor)
        # Inside torch.func the tensors are wrapped, once for each transformation.
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
        entry = self._live.get(sparse.stored(tensor).untyped_storage()._cdata)
        return 0 if entry is None else entry.ident


class _Lies(weakref.ref):
    """Says that a storage lies in an allocation, and when it ends.

    One object for each, of which there are thousands: Python's garbage collector goes through them again and again, and
    is called the more often the more there are, which frees what a program left in circles sooner than in a real run.
    """

    __slots__ = ("ident", "key")
    key: int
    ident: int


class _Op:
    """What is to be done for an op."""

    stand_in: Callable | None = None

    def __init__(self, func: Any, scalars: Scalars) -> None:
        # Held, so that no other gets its `id`.
        self.func = func
        self.makes_sparse = sparse.makes(func)
        self.may_be_known = func in _BY_VALUES or func in NMS or func is _RAND
        self.rule = rule_for(name_of(func))
        self.is_composite = self.rule is None and is_composite(func)
        self.is_noticed = EvenChoices.concerns(func) or scalars.concerns(func)
        self.way = way_of(func)
        self.likely = likely_values.RULES.get(func)


def _is_on_meta(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


def _flat(results: Any) -> list[Any]:
    flat: list[Any] = []
    for result in results:
        if isinstance(result, (tuple, list)):
            flat.extend(result)
        else:
            flat.append(result)
    return flat
