"""One call as graphs: AOTAutograd decides what forward keeps for backward, Inductor what is fused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest import mock

import torch
import torch._functorch.config
import torch._inductor.compile_fx as inductor
import torch._inductor.config
import torch._inductor.decomposition
from torch._dispatch.python import no_python_dispatcher
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from .lowering import Lowering, pretended_card
from .parts import Parts
from .skipped_work import skipping_work

# Stands where a result is a tensor.
_TENSOR = object()
_CARD = "cuda"


class _Flat(torch.nn.Module):
    """The function as a module of tensors only, which holds the modules whose parameters it uses."""

    def __init__(self, calls: Any, given: Parts, modules: list):
        super().__init__()
        self.parts = torch.nn.ModuleList(modules)
        self._calls, self._given = calls, given
        leaves = given.leaves
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.result: Any = None

    def forward(self, *tensors: Any) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors):
            leaves[place] = tensor
        args, kwargs = self._given.joined(leaves)
        # The function's own code names devices; the compiler's must not meet the pretended ones.
        # PyTorch's dispatcher in Python would take some ops whole on meta, and lose their gradients.
        # Models ask whether they are being compiled, and then leave out what looks at values.
        asked = mock.patch.object(torch.compiler, "_is_compiling_flag", True)
        with torch._C._EnableTorchFunction(), no_python_dispatcher(), asked:
            result = self._calls.function(*args, **kwargs)
        results = Parts(result)
        kept = [_TENSOR if isinstance(one, torch.Tensor) else one for one in results.leaves]
        self.result = kept, results
        return tuple(one for one in results.leaves if isinstance(one, torch.Tensor))


def capture(calls: Any, given: Parts, modules: list) -> Any:
    flat = _Flat(calls, given, modules)
    tensors = [leaf for leaf in given.leaves if isinstance(leaf, torch.Tensor)]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    lowering = Lowering(calls.observer, calls.graphs, mode)
    with closing(lowering), pretended_card(calls.observer.gpu), _compiling(mode), skipping_work():
        run = aot_autograd(
            fw_compiler=lowering.forward,
            bw_compiler=lowering.backward,
            inference_compiler=lowering.inference,
            decompositions=select_decomp_table(),
            partition_fn=lowering.partition,
            keep_inference_input_mutations=True,
        )(flat, tensors)
    if lowering.failure is not None:
        raise lowering.failure
    kept, parts = flat.result
    # What the first call was given must not live as long as its graph.
    given.leaves, parts.leaves = [], []

    def call(leaves: list) -> Any:
        given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        results = iter(run(*given))
        return parts.joined([next(results) if one is _TENSOR else one for one in kept])

    return call


def _unpretended(dispatch: Any) -> Any:
    """What PyTorch makes out of an op is made where tensors are: `vmap` calls it past the pretended devices."""

    def __torch_dispatch__(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return dispatch(*args, **kwargs)

    return __torch_dispatch__


def _is_gpu(kind: str | None) -> bool:
    """Graphs are captured on meta, where the card is meant: some ops are taken apart on cards only."""
    return kind in ("meta", _CARD)


@contextmanager
def _compiling(mode: FakeTensorMode) -> Iterator[None]:
    context = torch._guards.TracingContext(mode)
    config = torch._functorch.config
    gradients = torch.is_grad_enabled()
    with (
        # In inference mode, ops that consist of others would arrive whole. Its end would switch gradients on.
        torch.inference_mode(False),
        torch.set_grad_enabled(gradients),
        _disable_current_modes(),
        torch._C.DisableTorchFunction(),
        inductor.V.set_fake_mode(mode),
        mock.patch.object(
            FunctionalTensorMode,
            "__torch_dispatch__",
            _unpretended(FunctionalTensorMode.__torch_dispatch__),
        ),
        mock.patch.object(torch._inductor.decomposition, "is_gpu", _is_gpu),
        torch._guards.tracing(context),
        # No processes that compile kernels: none is run.
        torch._inductor.config.patch(compile_threads=1),
        config.patch(
            fake_tensor_allow_meta=True,
            unlift_effect_tokens=True,
            force_non_lazy_backward_lowering=True,
        ),
    ):
        yield
