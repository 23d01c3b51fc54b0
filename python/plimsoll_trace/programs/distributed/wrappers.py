"""`DistributedDataParallel` and FSDP in a program: PyTorch's own code, on the pretended GPU.

Both work on several streams, each of which has memory of its own in the allocator. From the first
wrapper on, `torch.cuda` therefore tells streams apart.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Callable

import torch

from ...sharding import ddp
from ...sharding import fsdp as sharded
from ...sharding.streams import DeviceHandle
from ...sharding.world import unseen_meshes, watch_sizes
from ...standins.imports import when_imported
from ...standins.patches import Patches
from ..watch import SAVING, Watch
from .world import World

# Sharded checkpoints: each rank copies its part to the host and writes it, which takes none of the GPU.

_MODULES = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_saver")
_LOADERS = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_loader")
# PyTorch writes it last: programs look for it.
_LAST = ".metadata"


def install_saving(patches: Patches, watch: Watch) -> None:
    for module in _MODULES:
        when_imported(module, _only_named(patches, watch))
    for module in _LOADERS:
        when_imported(module, _nothing_read(patches))


def _only_named(patches: Patches, watch: Watch) -> Callable[[Any], None]:
    """The folder is there after it, and what it holds is not read again."""

    def saved(*_: Any, checkpoint_id: Any = None, **__: Any) -> None:
        with watch.within(SAVING):
            if checkpoint_id is not None:
                os.makedirs(checkpoint_id, exist_ok=True)
                with open(os.path.join(checkpoint_id, _LAST), "wb"):
                    pass

    def install_into(module: Any) -> None:
        for name in ("save", "async_save", "save_state_dict"):
            if hasattr(module, name):
                patches.set(module, name, saved)

    return install_into


def _nothing_read(patches: Patches) -> Callable[[Any], None]:
    """What is loaded is copied into tensors that are there already."""

    def loaded(state_dict: Any, *_: Any, checkpoint_id: Any = None, **__: Any) -> None:
        if checkpoint_id is not None and not os.path.exists(checkpoint_id):
            from torch.distributed.checkpoint import api

            missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), checkpoint_id)
            raise api.CheckpointException("read metadata", {0: api._wrap_exception(missing)})

    return lambda module: patches.set(module, "load", loaded)


class Wrappers:
    def __init__(
        self,
        patches: Patches,
        observer: Any,
        devices: Any,
        watch: Any,
        world: World,
        streams: DeviceHandle,
    ) -> None:
        self._patches = patches
        self._observer = observer
        self._devices = devices
        self._watch = watch
        self._world = world
        self._streams = streams

    def install(self) -> None:
        patches = self._patches
        unseen_meshes(patches)
        # A model that names no device, nor a mesh, goes to the GPU that there is.
        patches.set(torch._C, "_get_accelerator", lambda *_: torch.device("cuda"))
        self._data_parallel()
        when_imported("torch.distributed.tensor", self._sharded_tensors)
        when_imported("torch.distributed.fsdp", self._sharded)
        when_imported("torch.distributed.tensor.parallel", self._tensor_parallel)

    def _tell_streams_apart(self) -> None:
        if self._devices.on_record_stream is not None:
            return
        watch_sizes(self._patches, self._observer)
        self._streams.tell_apart()
        self._devices.on_record_stream = self._record_stream

    def _record_stream(self, tensor: Any, stream: Any) -> None:
        number = getattr(stream, "number", 0)
        self._observer.ledger.use(self._observer.ident_of(tensor), number)

    def _data_parallel(self) -> None:
        ddp.prepare(self._patches, self._observer)
        wrapper = torch.nn.parallel.DistributedDataParallel
        make, hook = wrapper.__init__, wrapper.register_comm_hook

        def __init__(this: Any, module: Any, *args: Any, **settings: Any) -> None:
            self._tell_streams_apart()
            self._world.spread("ddp")
            self._watch.marks_steps = True
            ddp.in_buckets(self._observer, make)(this, module, *args, **settings)
            hook(this, None, ddp.reduced)

        before = wrapper._pre_forward

        def _pre_forward(this: Any, *inputs: Any, **kwargs: Any) -> Any:
            # The first rank tells all others which gradients share a bucket, and reads it back.
            self._observer.agreed = True
            try:
                return before(this, *inputs, **kwargs)
            finally:
                self._observer.agreed = False

        self._patches.set(wrapper, "__init__", __init__)
        self._patches.set(wrapper, "_pre_forward", _pre_forward)
        # What is sent is not looked at, in whichever form.
        self._patches.set(wrapper, "register_comm_hook", lambda *_, **__: None)

    def _sharded_tensors(self, tensors: Any) -> None:
        self._observer.passes_on = (tensors.DTensor,)

    def _tensor_parallel(self, module: Any) -> None:
        parallelize = module.parallelize_module

        def parallelize_module(model: Any, mesh: Any = None, *args: Any, **settings: Any) -> Any:
            if mesh is not None:
                self._world.spread("tp", tp=mesh.size())
            return parallelize(model, mesh, *args, **settings)

        self._patches.set(module, "parallelize_module", parallelize_module)

    def _sharded(self, fsdp: Any) -> None:
        from torch.distributed.fsdp._fully_shard import (
            _fsdp_param,
            _fsdp_param_group,
            _fully_shard,
        )

        sharded.label_fsdp2(self._patches, self._observer)
        sharded.label_fsdp1(self._patches, self._observer)
        self._fully_shard(_fully_shard)
        # A shard, and its gradient, may lie on the host.
        self._kept_on_meta(_fsdp_param.FSDPParam, "_init_sharded_param")
        self._kept_on_meta(_fsdp_param_group, "foreach_reduce")
        self._wrapped(fsdp.FullyShardedDataParallel)

    def _fully_shard(self, module: Any) -> None:
        device_of = module._get_device_from_mesh

        def device_from_mesh(mesh: Any) -> Any:
            self._tell_streams_apart()
            copies = mesh.size(0) if mesh.ndim == 2 else 1
            others = mesh.size() and max(1, self._world.size // mesh.size())
            self._world.spread("hsdp" if copies > 1 else "fsdp2", copies, others)
            return device_of(mesh)

        self._patches.set(module, "_get_device_from_mesh", device_from_mesh)

    def _wrapped(self, wrapper: Any) -> None:
        make = wrapper.__init__
        inside = {"depth": 0}

        def __init__(this: Any, module: Any, *args: Any, **settings: Any) -> None:
            self._tell_streams_apart()
            self._world.spread("fsdp1")
            if inside["depth"] == 0:
                # Inside of it parameters lie flat, and have no names.
                self._watch.learn(module)
            inside["depth"] += 1
            try:
                make(this, module, *args, **settings)
            finally:
                inside["depth"] -= 1

        self._patches.set(wrapper, "__init__", __init__)

    def _kept_on_meta(self, owner: Any, name: str) -> None:
        """What is offloaded to the host gets no memory there, however small it is."""
        original: Callable = getattr(owner, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            with self._devices.moves.of_module():
                return original(*args, **kwargs)

        self._patches.set(owner, name, run)


def install_for_several_gpus(patches: Patches) -> None:
    """`DataParallel` needs several GPUs to do anything."""

    # With one card it passes its inputs on.
    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    patches.set(torch.nn.DataParallel, "forward", forward)

    def __init__(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        torch.nn.Module.__init__(self)
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = [0], 0

    patches.set(torch.nn.DataParallel, "__init__", __init__)

    def data_parallel(
        module: Any, inputs: Any, *_: Any, module_kwargs: Any = None, **__: Any
    ) -> Any:
        given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
        return module(*given, **(module_kwargs or {}))

    patches.set(torch.nn.parallel, "data_parallel", data_parallel)
