"""Pruning that saves: channels that are really taken out, or 2:4 sparse storage. For inference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Callable

from .change import Change, parameter_bytes
from .flow import chains

# Names of the two layers of a feed-forward block, as the usual models call them.
PAIRS = [
    (("fc1",), "fc2"),
    (("c_fc",), "c_proj"),
    (("intermediate.dense",), "output.dense"),
    (("lin1",), "lin2"),
    (("linear1",), "linear2"),
    (("gate_proj", "up_proj"), "down_proj"),
    (("dense_h_to_4h",), "dense_4h_to_h"),
    (("wi",), "wo"),
]
# Sparse kernels work on tiles; smaller layers stay dense.
SPARSE_MULTIPLE = 64


def remove_channels(
    model: Any, share: float, forward: Callable[[], Any] | None = None
) -> Change | None:
    """Takes out the channels between two layers that carry least weight, where nothing else sees them."""
    estimated = 0
    undo = []
    blocks = list(feed_forward_pairs(model))
    named = {id(one) for inputs, output in blocks for one in (*inputs, output)}
    found = [one for one in chains(model, forward) if not {id(one[0][0]), id(one[1])} & named]
    users = _users(model)
    for inputs, output in [*blocks, *found]:
        weights = [one.weight for one in (*inputs, output) if one.weight is not None]
        if any(users[id(weight)] > 1 for weight in weights):
            continue
        bytes_before = sum(weight.numel() * weight.element_size() for weight in weights)
        del weights
        cut = _shrink(inputs, output, share)
        estimated += int(share * bytes_before) if cut else 0
        undo += cut
    if not undo:
        return None
    note = f"{share:.0%} of hidden channels removed from {len(undo)} layers; results change, check them"
    return Change(
        "prune", lambda: [put_back() for put_back in reversed(undo)] and None, estimated, note
    )


def semi_structured(model: Any) -> Change | None:
    """Keeps the two largest of every four weights, stored in 9/16 of the bytes. Needs CUDA, 16 bits."""
    import torch
    from torch import nn

    before = parameter_bytes(model)
    estimated = 0
    undo: list[Callable[[], None]] = []
    for module in sparse_layers(model):
        weight = module.weight
        kept = weight.detach().to("cpu", copy=True)
        sparse = torch.sparse.to_sparse_semi_structured(two_of_four(weight.detach()))
        module.weight = nn.Parameter(sparse, requires_grad=False)
        estimated += weight.numel() * weight.element_size() * 7 // 16
        undo.append(partial(_put_back, module, kept, weight.device))
    if not undo:
        return None
    note = f"{len(undo)} linear layers in 2:4 sparse storage, of {before} bytes of weights; results change, check them"
    return Change("prune", lambda: [put_back() for put_back in undo] and None, estimated, note)


def _put_back(module: Any, kept: Any, device: Any) -> None:
    from torch import nn

    module.weight = nn.Parameter(kept.to(device))


def sparse_layers(model: Any, on: str = "cuda") -> list[Any]:
    """Linear layers that 2:4 storage makes smaller. A head that shares its weights with the embedding would
    be stored a second time, so it stays dense."""
    import torch
    from torch import nn

    users = _users(model)
    return [
        module
        for module in model.modules()
        if isinstance(module, nn.Linear)
        and module.weight.device.type == on
        and module.weight.dtype in (torch.float16, torch.bfloat16)
        and users[id(module.weight)] == 1
        and all(size % SPARSE_MULTIPLE == 0 for size in module.weight.shape)
    ]


def _users(model: Any) -> Counter[int]:
    """How many modules have a weight."""
    return Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))


def two_of_four(weight: Any) -> Any:
    """The weight with the smaller two of every four numbers in a row set to zero."""
    import torch

    groups = weight.reshape(-1, 4)
    keep = torch.zeros_like(groups, dtype=torch.bool).scatter_(
        1, groups.abs().topk(2, dim=1).indices, True
    )
    return (groups * keep).reshape(weight.shape)


def feed_forward_pairs(model: Any) -> Iterator[tuple[list[Any], Any]]:
    taken: set[int] = set()
    for module in model.modules():
        for firsts, second in PAIRS:
            inputs = [_at(module, name) for name in firsts]
            output = _at(module, second)
            if output is None or any(one is None for one in inputs) or id(output) in taken:
                continue
            widths = {_width(one, out=True) for one in inputs}
            if widths == {_width(output, out=False)}:
                taken.update(id(one) for one in [*inputs, output])
                yield inputs, output


def _shrink(inputs: list[Any], output: Any, share: float) -> list[Any]:
    import torch

    channels = _channels(inputs[0])
    into = _as_rows(output, output.weight.detach()).float().transpose(0, 1)
    # A linear layer behind a flattened map has as many columns for a channel as the map has places.
    score = into.reshape(channels, -1).norm(dim=1)
    for one in inputs:
        # Norms have one number for each channel, or none.
        if one.weight is not None and one.weight.dim() > 1:
            score = score * _as_rows(one, one.weight.detach()).float().flatten(1).norm(dim=1)
    keep = int(score.numel() * (1 - share))
    # Kernels are fast on whole tiles; a width that is no multiple of 8 would save memory and cost time.
    keep = max(8, keep - keep % 8) if score.numel() >= 16 else max(1, keep)
    if keep >= score.numel():
        return []
    chosen = torch.topk(score, keep).indices.sort().values
    columns = (chosen[:, None] * (into.shape[0] // channels)) + torch.arange(
        into.shape[0] // channels, device=chosen.device
    )
    cut = [_cut(one, chosen, out=True) for one in inputs]
    return [*cut, _cut(output, columns.flatten(), out=False)]


def _cut(layer: Any, chosen: Any, out: bool) -> Any:
    """Keeps the chosen channels of a layer, at its end or at its beginning."""
    from torch import nn

    names = [
        name for name in ("weight", "bias", "running_mean", "running_var") if _has(layer, name)
    ]
    kept = {name: getattr(layer, name) for name in names}
    copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in kept.items()}
    trained = layer.weight is not None and layer.weight.requires_grad
    device = chosen.device
    rows = out != _transposed(layer)
    for name in names if out else ["weight"]:
        part = (
            kept[name].detach().index_select(0 if rows or name != "weight" else 1, chosen).clone()
        )
        setattr(
            layer,
            name,
            nn.Parameter(part, trained) if isinstance(kept[name], nn.Parameter) else part,
        )
    counts = (
        ("out_features", "out_channels", "nf", "num_features", "num_channels", "num_groups")
        if out
        else ("in_features", "in_channels", "nx")
    )
    before = {name: getattr(layer, name) for name in counts if hasattr(layer, name)}
    for name in before:
        setattr(layer, name, int(chosen.numel()))
    learnt = {name for name in names if isinstance(kept[name], nn.Parameter)}
    kept.clear()

    def put_back() -> None:
        for name, copy in copies.items():
            tensor = copy.to(device)
            setattr(layer, name, nn.Parameter(tensor, trained) if name in learnt else tensor)
        for name, value in before.items():
            setattr(layer, name, value)

    return put_back


def _channels(layer: Any) -> int:
    return layer.weight.shape[1] if _transposed(layer) else layer.weight.shape[0]


def _width(layer: Any, out: bool) -> int | None:
    from torch import nn

    if isinstance(layer, nn.Linear) or _transposed(layer):
        rows = out != _transposed(layer)
        return layer.weight.shape[0 if rows else 1]
    return None


def _as_rows(layer: Any, weight: Any) -> Any:
    return weight.t() if _transposed(layer) else weight


def _transposed(layer: Any) -> bool:
    """GPT-2's Conv1D is a linear layer whose weight lies the other way round."""
    return type(layer).__name__ == "Conv1D" and getattr(layer, "nf", None) is not None


def _has(layer: Any, name: str) -> bool:
    return getattr(layer, name, None) is not None


def _at(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
        if module is None:
            return None
    return (
        module
        if hasattr(module, "weight") and getattr(module.weight, "dim", lambda: 0)() == 2
        else None
    )
