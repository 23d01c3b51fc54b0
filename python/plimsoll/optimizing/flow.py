"""Layers whose channels go from one to the next and nowhere else, in whichever module they lie.

They are found from a run of the model, where there is one; else from its code, as torch.fx follows it.
"""

from __future__ import annotations

import copy
import dis
import inspect
import sys
import weakref
from collections import Counter
from typing import Any, Callable, NamedTuple

from ..recovery.restore import RandomState

# Each number comes out by itself: functions, methods and layers by their names without underscores, in small letters.
ELEMENTWISE = frozenset(
    (
        "identity", "contiguous", "clone", "dropout", "dropout1d", "dropout2d", "dropout3d", "alphadropout",
        "relu", "relu6", "leakyrelu", "elu", "celu", "selu", "gelu", "silu", "mish", "tanh", "sigmoid",
        "softplus", "hardtanh", "hardswish", "hardsigmoid", "clamp", "mul", "rmul", "div", "truediv", "add",
        "radd", "sub",
    )
)  # fmt: skip
# Each channel comes out by itself, whatever its neighbours in it are.
POOLS = frozenset(
    (
        "maxpool1d", "maxpool2d", "avgpool1d", "avgpool2d", "adaptiveavgpool1d", "adaptiveavgpool2d",
        "adaptivemaxpool1d", "adaptivemaxpool2d",
    )
)  # fmt: skip
FLATTEN = "flatten"
# They read no numbers of a tensor.
FIGURES = frozenset(("size", "shape", "dim", "ndim", "numel", "dtype", "device", "isfloatingpoint"))


class Call(NamedTuple):
    """One step of a run: a layer with weights, or a function by its name, and the calls whose results it takes.

    A source below 0 is something that no call made, such as an input.
    """

    layer: Any
    name: str
    sources: tuple[int, ...]
    # Whether the result goes to the caller, too.
    kept: bool = False


Chain = tuple[list[Any], Any]


def chains(model: Any, forward: Callable[[], Any] | None) -> list[Chain]:
    """(a layer with its norms, the layer behind them): nothing else sees what comes out of the first."""
    if forward is not None:
        return _in_calls(_recorded(model, forward))
    found: dict[tuple[int, int], Chain] = {}
    waiting = [model]
    for module in waiting:
        if sum(map(_starts, module.modules())) < 2:
            continue
        in_code, opaque = _followed(module)
        found.update(in_code)
        waiting += [child for one in opaque for child in one.children()]
    return list(found.values())


def is_plain_convolution(layer: Any) -> bool:
    from torch import nn

    # Not those that are transposed: their weights lie the other way round.
    return type(layer) in (nn.Conv1d, nn.Conv2d) and layer.groups == 1 and _has_weight(layer)


def _has_weight(layer: Any) -> bool:
    """Of its own: one that is computed (weight_norm, parametrizations) cannot be cut."""
    return layer._parameters.get("weight") is not None


def _starts(layer: Any) -> bool:
    from torch import nn

    return is_plain_convolution(layer) or (type(layer) is nn.Linear and _has_weight(layer))


def _is_norm(layer: Any) -> bool:
    """A norm that looks at each channel alone."""
    from torch import nn

    if isinstance(layer, nn.GroupNorm):
        return bool(layer.num_groups == layer.num_channels)
    return isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d))


def _in_calls(calls: list[Call]) -> list[Chain]:
    users: dict[int, list[int]] = {}
    for number, call in enumerate(calls):
        for source in call.sources:
            users.setdefault(source, []).append(number)
    times = Counter(id(call.layer) for call in calls if call.layer is not None)
    starts = [number for number, call in enumerate(calls) if call.layer and _starts(call.layer)]
    found = [chain for chain in (_chain_from(one, calls, users) for one in starts) if chain]
    return [chain for chain in found if all(times[id(one)] == 1 for one in (*chain[0], chain[1]))]


def _chain_from(number: int, calls: list[Call], users: dict[int, list[int]]) -> Chain | None:
    first = calls[number].layer
    inputs, flat, maps = [first], False, is_plain_convolution(first)
    while True:
        after = users.get(number, [])
        if calls[number].kept or len(after) != 1 or calls[after[0]].sources != (number,):
            return None
        number = after[0]
        layer, name = calls[number].layer, calls[number].name
        if layer is not None and _starts(layer):
            follows = is_plain_convolution(layer) == (maps and not flat)
            return (inputs, layer) if follows and _widens(first, layer, flat) else None
        if layer is not None and maps and not flat and _is_norm(layer):
            inputs = [*inputs, layer]
        elif name == FLATTEN and maps:
            flat = True
        elif name not in ELEMENTWISE and not (name in POOLS and maps and not flat):
            return None


def _widens(first: Any, layer: Any, flat: bool) -> bool:
    """Whether each channel comes in as one channel, or, once flattened, as as many columns as each other."""
    width, columns = first.weight.shape[0], layer.weight.shape[1]
    return bool(columns % width == 0 if flat else columns == width)


def _plain(function: Any) -> str:
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    return name.replace("_", "").lower()


# From a run.


def _recorded(model: Any, forward: Callable[[], Any]) -> list[Call]:
    import torch
    from torch.overrides import TorchFunctionMode

    owners = _owners(model)
    calls: list[Call] = []
    # Results by their ids, while they live.
    results: dict[int, tuple[Any, int]] = {}

    def number_of(tensor: Any) -> int:
        reference, number = results.get(id(tensor), (lambda: None, -1))
        return number if reference() is tensor else -1

    class Recorder(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            shape = args[0].shape if args and isinstance(args[0], torch.Tensor) else None
            result = function(*args, **(kwargs or {}))
            made, name = _tensors(result), _plain(function)
            if made or name not in ("get", *FIGURES):
                given = _tensors((args, kwargs))
                layer = next((owners[id(one)] for one in given if id(one) in owners), None)
                rest = [one for one in given if layer is None or owners.get(id(one)) is not layer]
                if name in (FLATTEN, "view", "reshape"):
                    kept = shape is not None and made and tuple(made[0].shape[:1]) == shape[:1]
                    name = FLATTEN if kept and made[0].dim() == 2 else name
                calls.append(Call(layer, name, tuple(number_of(one) for one in rest)))
                results.update({id(one): (weakref.ref(one), len(calls) - 1) for one in made})
            return result

    random = RandomState()
    try:
        with torch.no_grad(), Recorder():
            result = forward()
    finally:
        random.restore()
    # What lives on was returned, or kept.
    for reference, number in results.values():
        if reference() is not None:
            calls[number] = calls[number]._replace(kept=True)
    del result
    return calls


def _owners(model: Any) -> dict[int, Any]:
    """Layers by the ids of their tensors; a tensor of several has none."""
    owners: dict[int, Any] = {}
    for module in model.modules():
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            owners[id(tensor)] = None if id(tensor) in owners else module
    return {key: layer for key, layer in owners.items() if layer is not None}


def _tensors(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for one in value for tensor in _tensors(one)]


# From the code.

# Of a forward by how much it takes; one that takes more is not followed.
_ROOTS: tuple[Callable[..., Any], ...] = (
    lambda self, a: self.inner(a),
    lambda self, a, b: self.inner(a, b),
    lambda self, a, b, c: self.inner(a, b, c),
    lambda self, a, b, c, d: self.inner(a, b, c, d),
)


def _followed(module: Any) -> tuple[dict[tuple[int, int], Chain], list[Any]]:
    """What follows one another in a forward, and the modules in it whose code cannot be followed."""
    takes = [
        one
        for one in inspect.signature(type(module).forward).parameters.values()
        if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ][1:]
    needed = sum(one.default is inspect.Parameter.empty for one in takes)
    if not 1 <= needed <= len(takes) <= len(_ROOTS):
        return {}, [module]
    # What may be left out may be given as well: layers must follow one another either way.
    graphs = [_graph(module, count) for count in sorted({needed, len(takes)})]
    found = [{(id(one[0][0]), id(one[1])): one for one in _in_calls(calls)} for calls, _ in graphs]
    return {key: one for key, one in found[0].items() if key in found[-1]}, graphs[-1][1]


def _graph(module: Any, count: int) -> tuple[list[Call], list[Any]]:
    from torch import fx, nn

    opaque: list[Any] = []

    def real(path: str) -> Any:
        return module.get_submodule(path.partition(".")[2])

    class Tracer(fx.Tracer):  # type: ignore[misc, unused-ignore]
        def to_bool(self, obj: Any) -> bool:
            passed = _passes_guard(sys._getframe(2))
            return bool(super().to_bool(obj)) if passed is None else passed

        def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
            before = len(self.graph.nodes)
            try:
                return super().call_module(m, forward, args, kwargs)
            except Exception:
                for node in reversed(list(self.graph.nodes)[before:]):
                    self.graph.erase_node(node)
                path = self.path_of_module(m)
                opaque.append(real(path))
                return self.create_proxy("call_module", path, args, kwargs)

    class Root(nn.Module):
        forward = _ROOTS[count - 1]

        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

    # Modules are copied, so that a forward which sets attributes sets none of the model's; weights are not.
    shared = {id(one): one for one in (*module.parameters(), *module.buffers())}
    try:
        graph = Tracer().trace(Root(copy.deepcopy(module, shared)))
    except Exception:
        return [], [module]
    return _calls_of(graph, real), opaque


def _passes_guard(frame: Any) -> bool | None:
    """What a condition must be where it only guards an error (`assert`, `if ...: raise`); else None."""
    code = [one for one in dis.get_instructions(frame.f_code) if one.offset >= frame.f_lasti]
    jump = next((number for number, one in enumerate(code[:3]) if "JUMP" in one.opname), None)
    if jump is None or not code[jump].opname.endswith(("IF_TRUE", "IF_FALSE")):
        return None
    guarded = [one.opname for one in code[jump + 1 :] if one.offset < code[jump].argval]
    ends = bool(guarded) and guarded[-1] == "RAISE_VARARGS"
    if not ends or any("JUMP" in name or "STORE" in name for name in guarded):
        return None
    return code[jump].opname.endswith("IF_TRUE")


def _calls_of(graph: Any, real: Callable[[str], Any]) -> list[Call]:
    numbers: dict[Any, int] = {}
    # Shapes and what is computed of them, and those of them that are the number of samples.
    figures: set[Any] = set()
    samples: set[Any] = set()
    calls: list[Call] = []
    for node in graph.nodes:
        given = node.all_input_nodes
        layer = real(node.target) if node.op == "call_module" else None
        name = _plain(type(layer) if layer is not None else node.target)
        if name == "getattr":
            name = _plain(node.args[1])
        if node.op == "placeholder":
            numbers[node] = -1
        elif node.op == "get_attr":
            # A weight that is read beside its layer: the layer is used twice.
            numbers[node] = -1
            calls.append(Call(real(node.target.rpartition(".")[0]), "", ()))
        elif node.op == "output":
            for number in (numbers.get(one, -1) for one in given):
                if number >= 0:
                    calls[number] = calls[number]._replace(kept=True)
        elif name in FIGURES or (given and all(one in figures for one in given)):
            figures.add(node)
            looked_up = name in ("size", "getitem")
            if looked_up and node.args[1:] == (0,):
                samples.add(node)
            elif node.users and not all(_plain(one.target) == "getitem" for one in node.users):
                # Code that computes with the number of channels would see another one.
                for number in _measured(node, numbers):
                    calls[number] = calls[number]._replace(kept=True)
        else:
            flattens = _flattens(node, layer, name, samples)
            used = [one for one in given if not (flattens and one in figures)]
            numbers[node] = len(calls)
            named = FLATTEN if flattens else name.replace(FLATTEN, "")
            calls.append(Call(layer, named, tuple(numbers.get(one, -1) for one in used)))
    return calls


def _measured(figure: Any, numbers: dict[Any, int]) -> list[int]:
    """The calls whose results have this shape."""
    found, waiting = [], list(figure.all_input_nodes)
    for node in waiting:
        if node not in numbers:
            waiting += node.all_input_nodes
        elif numbers[node] >= 0:
            found.append(numbers[node])
    return found


def _flattens(node: Any, layer: Any, name: str, samples: set[Any]) -> bool:
    """Whether all but the samples becomes one dimension."""
    if layer is not None:
        return bool(name == FLATTEN and (layer.start_dim, layer.end_dim) == (1, -1))
    if name == FLATTEN:
        return bool((*node.args[1:], *node.kwargs.values()) == (1,))
    sizes = node.args[1:] if len(node.args) != 2 else node.args[1]
    return (
        name in ("view", "reshape") and len(sizes) == 2 and sizes[0] in samples and sizes[1] == -1
    )
