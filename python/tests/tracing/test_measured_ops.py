"""Single ops against what they asked a real H200's allocator for, a sample of each kind."""

import json
import os
import unittest

import torch
import torch.nn.functional as F

from tracing.watching import Asked, watched

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
with open(os.path.join(os.path.dirname(__file__), "measured_ops.json"), encoding="utf-8") as file:
    ROWS = json.load(file)


def leaf(*shape, dtype):
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=True)


def numbers(*shape):
    return torch.zeros(*shape, dtype=torch.long, device="meta")


def of_rows(row, dtype):
    x = leaf(row["rows"], row["hidden"], dtype=dtype)
    weight, bias = leaf(row["hidden"], dtype=dtype), leaf(row["hidden"], dtype=dtype)
    shape = (row["hidden"],)
    index = numbers(row["rows"])
    return {
        "layer_norm": lambda: F.layer_norm(x, shape, weight, bias),
        "rms_norm": lambda: F.rms_norm(x, shape, weight),
        "gelu": lambda: F.gelu(x),
        "silu": lambda: F.silu(x),
        "relu": lambda: F.relu(x),
        "tanh": lambda: torch.tanh(x),
        "softmax": lambda: F.softmax(x, -1),
        "dropout": lambda: F.dropout(x, 0.1, True),
        "cumsum": lambda: x.cumsum(-1),
        "index_select rows": lambda: x[index],
    }[row["op"]]


def of_linear(row, dtype):
    shape = (4, row["rows"] // 4) if row["op"] == "linear 3d" else (row["rows"],)
    x = leaf(*shape, row["inner"], dtype=dtype)
    if row["op"].startswith("addmm"):
        weight, bias = (
            leaf(row["inner"], row["outer"], dtype=dtype),
            leaf(row["outer"], dtype=dtype),
        )
        return lambda: torch.addmm(bias, x, weight)
    weight = leaf(row["outer"], row["inner"], dtype=dtype)
    bias = None if row["op"] == "linear no bias" else leaf(row["outer"], dtype=dtype)
    return lambda: F.linear(x, weight, bias)


def of_image(row, dtype):
    channels = row["channels"]
    x = leaf(row["n"], channels, row["hw"], row["hw"], dtype=dtype)
    with torch.device("meta"):
        module = {
            "group_norm": lambda: torch.nn.GroupNorm(32, channels, dtype=dtype),
            "max_pool2d": lambda: torch.nn.MaxPool2d(2),
            "adaptive_avg_pool2d": lambda: torch.nn.AdaptiveAvgPool2d(1),
            "interpolate bilinear": lambda: torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        }[row["op"]]()
    return lambda: module(x)


def of_attention(row, dtype):
    query = leaf(row["batch"], row["heads"], row["seq"], row["head"], dtype=dtype)
    key, value = (
        leaf(row["batch"], row["kv"], row["keys"], row["head"], dtype=dtype) for _ in range(2)
    )
    kind = row["mask"]
    mask = None
    if kind == "bool":
        mask = torch.ones(row["batch"], 1, row["seq"], row["keys"], dtype=torch.bool, device="meta")
    elif kind == "float":
        mask = torch.zeros(1, 1, row["seq"], row["keys"], dtype=dtype, device="meta")
    elif kind == "float-grad":
        mask = leaf(1, row["heads"], row["seq"], row["keys"], dtype=dtype)
    grouped = row["heads"] != row["kv"]
    return lambda: F.scaled_dot_product_attention(
        query, key, value, mask, row["dropout"], kind == "causal", enable_gqa=grouped
    )


def build(row):
    op, dtype = row["op"], DTYPES[row["dtype"]]
    if op == "sdpa":
        return of_attention(row, dtype)
    if op.startswith(("linear", "addmm")):
        return of_linear(row, dtype)
    if "channels" in row:
        return of_image(row, dtype)
    if op == "embedding":
        weight, tokens = leaf(row["vocab"], row["hidden"], dtype=dtype), numbers(row["tokens"])
        return lambda: F.embedding(tokens, weight)
    if op.startswith("cross_entropy"):
        logits, target = leaf(row["tokens"], row["vocab"], dtype=dtype), numbers(row["tokens"])
        return lambda: F.cross_entropy(logits.float() if "float" in op else logits, target)
    if op == "topk":
        scores = leaf(row["rows"], row["experts"], dtype=dtype)
        return lambda: torch.topk(scores, row["k"], -1)[0]
    if op == "bmm":
        left = leaf(row["batch"], row["seq"], row["head"], dtype=dtype)
        right = leaf(row["batch"], row["head"], row["seq"], dtype=dtype)
        return lambda: torch.bmm(left, right)
    return of_rows(row, dtype)


def without_workspaces(sizes, traced):
    """The first products of the measuring process opened cuBLAS; a later one does not."""
    return [s for s in sizes if s not in (33554432, 1048576) or s in traced]


class MeasuredOps(unittest.TestCase):
    def test_forward_and_backward_ask_as_on_the_gpu(self):
        for row in ROWS:
            if row["op"].startswith("conv") or row["op"] in ("LSTM", "GRU", "RNN"):
                continue
            with self.subTest(**{k: v for k, v in row.items() if k not in ("forward", "backward")}):
                with watched() as observer:
                    run = build(row)
                    asked = Asked(observer)
                    result = run()
                    forward = asked.sizes()
                    grad = torch.empty_like(result)
                    asked.sizes()
                    result.backward(grad)
                    backward = asked.sizes()
                self.assertEqual(forward, without_workspaces(row["forward"], forward))
                self.assertEqual(backward, without_workspaces(row["backward"], backward))

    def test_recurrent_layers_keep_and_take_what_cudnn_does(self):
        for row in ROWS:
            if row["op"] not in ("LSTM", "GRU", "RNN"):
                continue
            with self.subTest(**{k: v for k, v in row.items() if k not in ("forward", "backward")}):
                with watched() as observer, torch.device("meta"):
                    dtype = DTYPES[row["dtype"]]
                    layer = getattr(torch.nn, row["op"])(
                        row["input"], row["hidden"], row["layers"], dtype=dtype
                    )
                    x = torch.empty(row["seq"], row["batch"], row["input"], dtype=dtype)
                    asked = Asked(observer)
                    layer(x)
                    sizes = asked.sizes()
                # What is kept for backward is the last request, and exact.
                self.assertEqual(sizes[-1], row["forward"][-1])


def convolved(row):
    """What a convolution and its backward pass ask for."""
    dtype = DTYPES[row["dtype"]]
    last = row["format"] == "channels_last"
    layout = torch.channels_last if last else torch.contiguous_format
    with watched() as observer:
        weight = leaf(row["cout"], row["cin"] // row["groups"], row["k"], row["k"], dtype=dtype)
        weight = weight.detach().to(memory_format=layout).requires_grad_()
        x = leaf(row["n"], row["cin"], row["hw"], row["hw"], dtype=dtype)
        x = x.detach().to(memory_format=layout).requires_grad_()
        asked = Asked(observer)
        out = F.conv2d(x, weight, None, row["stride"], row["pad"], groups=row["groups"])
        forward = asked.sizes()
        grad = torch.empty_like(out)
        asked.sizes()
        out.backward(grad)
        return forward, asked.sizes()


class MeasuredConvolutions(unittest.TestCase):
    def test_most_workspaces_are_cudnns_own_to_the_byte(self):
        exact = close = total = 0
        for row in ROWS:
            if row["op"] != "conv2d":
                continue
            forward, _ = convolved(row)
            traced, measured = sum(forward), sum(row["forward"])
            total += 1
            exact += traced == measured
            close += abs(traced - measured) <= 0.02 * measured + (16 << 20)
        self.assertGreaterEqual(exact, 0.7 * total)
        self.assertEqual(close, total)

    def test_a_channel_for_itself_sums_its_gradient_in_parts_of_each_image(self):
        halves = [r for r in ROWS if r["op"] == "conv2d" and r["dtype"] != "fp32"]
        # cuDNN takes other kernels for very few channels.
        apart = [
            r for r in halves if r["format"] == "channels_last" and r["groups"] == r["cin"] > 3
        ]
        self.assertEqual(len(apart), 8)
        for row in apart:
            with self.subTest(**row):
                _, backward = convolved(row)
                self.assertEqual(backward, row["grad_input"] + row["grad_weight"])
