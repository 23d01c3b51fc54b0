"""Attention kernels: cuDNN's, flash, the memory-efficient one, and the softmax of the plain one."""

from __future__ import annotations

from .registry import Launch, rule

_CUDNN_SCRATCH = 256
# Flash works on tiles of so many rows, and of so many columns of a head up to this size.
_FLASH_ROWS, _FLASH_COLUMNS, _FLASH_WIDE = 128, 32, 192
_FLASH_WIDEST = 256


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@rule("aten._scaled_dot_product_cudnn_attention")
def cudnn(launch: Launch) -> None:
    """The dropout state first, then the output and, where a backward pass wants them, its row sums."""
    launch.place(6)
    launch.place(7)
    launch.place(0)
    if not launch.argument(4, "compute_log_sumexp"):
        launch.skip(1)
    launch.place(1)
    launch.scratch(_CUDNN_SCRATCH)


@rule("aten._scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(launch: Launch) -> None:
    """A float32 sum for the query's gradient, one number per row, and whole copies of the
    gradients of keys and values where several query heads share them."""
    launch.place_all()
    query, key, value = launch.args[1:4]
    batch, heads, rows, head = query.shape
    size = batch * heads * rows * head * 4 + batch * heads * rows * 4 + _CUDNN_SCRATCH
    if key.shape[1] != heads:
        size += batch * heads * key.shape[2] * (key.shape[3] + value.shape[3]) * key.element_size()
    launch.scratch(size)


@rule("aten._scaled_dot_product_flash_attention_backward")
def flash_backward(launch: Launch) -> None:
    """A number per row, float32 sums of the query's gradient, and whole copies of the gradients of keys and
    values where several query heads share them."""
    out_grad, query, key, _, out = launch.args[:5]
    # The kernel wants all heads of a position side by side.
    copies = [
        launch.take(0 if t.transpose(1, 2).is_contiguous() else t.numel() * t.element_size())
        for t in (out_grad, out)
    ]
    launch.place_all()
    batch, heads, rows, head = query.shape
    rows = _ceil(rows, _FLASH_ROWS) * _FLASH_ROWS
    wide = _ceil(head, _FLASH_COLUMNS) * _FLASH_COLUMNS if head <= _FLASH_WIDE else _FLASH_WIDEST
    shared = key.shape[1] != heads
    whole = batch * heads * key.shape[2] * head * key.element_size() if shared else 0
    sums = batch * heads * rows * 4
    launch.scratch(sums, sums * wide, whole, whole)
    launch.give(*reversed(copies))


@rule("aten._scaled_dot_product_efficient_attention")
def efficient(launch: Launch) -> None:
    # The dropout state is kept in host memory here.
    launch.place(0)
    launch.place(1)
    launch.skip(2)
    launch.skip(3)


@rule("aten._scaled_dot_product_efficient_attention_backward")
def efficient_backward(launch: Launch) -> None:
    out_grad, query, key = launch.args[:3]
    # The kernel wants all heads of a position side by side. `nn.MultiheadAttention` puts positions before samples.
    lies_so = out_grad.transpose(1, 2).is_contiguous()
    copy = launch.take(0 if lies_so else out_grad.numel() * out_grad.element_size())
    launch.place(0)
    launch.place(1)
    launch.place(2)
    launch.place(3)
    batch, heads, rows, _ = query.shape
    statistics = batch * heads * rows * 4
    taken = []
    if query.element_size() == 4:
        product = launch.take(out_grad.numel() * 4)
        sums = launch.take(statistics)
        taken.append(launch.take(statistics))
        launch.give(sums, product)
    else:
        taken.append(launch.take(statistics))
    scratch = launch.take(batch * heads * _efficient_scratch(query, key))
    launch.give(*taken, scratch, copy)


def _efficient_scratch(query, key) -> int:
    """Bytes for one head: float32 sums of the query's gradient in tiles, each with a lock."""
    rows, head = query.shape[2], query.shape[3]
    low = query.element_size() == 2
    tile_rows = 128 if low and 64 < head <= 128 else 64
    tile_columns = 64 if head <= 64 else 128
    tiles = _ceil(rows, tile_rows) * _ceil(head, tile_columns)
    return tiles * (tile_rows * tile_columns * 4 + 16)


@rule("aten._safe_softmax")
def safe_softmax(launch: Launch) -> None:
    """A softmax, then a look for rows that were masked whole."""
    launch.place_all()
    scores = launch.args[0]
    masked = scores.numel()
    rows = masked // max(1, scores.shape[launch.argument(1, "dim")])
    launch.scratch(masked, rows, launch.outputs[0].element_size())
