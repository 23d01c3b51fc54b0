"""Attention runs with the kernel that a program has left switched on, and asks for what that one does."""

import json
import os
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import warm
from tracing.watching import MEASURED, Asked, measured, rows_of, watched
from warm import PACKAGE

from plimsoll_trace.gpu import gpu_of
from plimsoll_trace.standins.attention import choose


def chosen(dtype=torch.bfloat16, head=64, masked=False, keys=16, **settings):
    query = torch.empty(2, 4, 16, head, dtype=dtype, device="meta")
    key = torch.empty(2, 4, keys, head, dtype=dtype, device="meta")
    mask = torch.empty(2, 1, 16, keys, dtype=torch.bool, device="meta") if masked else None
    return choose(query, key, key, mask, False, **settings)


class Switches(unittest.TestCase):
    def test_a_program_may_name_the_kernel(self):
        self.assertEqual(chosen(), "cudnn")
        names = {
            SDPBackend.FLASH_ATTENTION: "flash",
            SDPBackend.EFFICIENT_ATTENTION: "efficient",
            SDPBackend.MATH: "math",
        }
        for backend, name in names.items():
            with sdpa_kernel(backend):
                self.assertEqual(chosen(), name)
        self.assertEqual(chosen(), "cudnn")

    def test_float32_falls_back_to_plain_products(self):
        self.assertEqual(chosen(torch.float32), "efficient")
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            self.assertEqual(chosen(torch.float32), "math")


class Heads(unittest.TestCase):
    """Sizes that a kernel cannot read 16 bytes at a time."""

    def test_odd_heads_with_a_mask_take_plain_products(self):
        # Moonshine on an H200: eight heads of 52.
        self.assertEqual(chosen(head=52, masked=True), "math")
        self.assertEqual(chosen(head=56, masked=True), "cudnn")

    def test_without_a_mask_flash_fills_them_up(self):
        self.assertEqual(chosen(head=52), "flash")

    def test_float32_heads_are_multiples_of_four(self):
        self.assertEqual(chosen(torch.float32, head=52), "efficient")
        self.assertEqual(chosen(torch.float32, head=50), "math")


class Cards(unittest.TestCase):
    """In the order of preference, and with the data types, of their generation."""

    def test_only_hopper_and_its_successor_prefer_cudnn(self):
        kernels = {
            capability: chosen(capability=capability) for capability in (80, 86, 89, 100, 120)
        }
        self.assertEqual(
            kernels, {80: "flash", 86: "flash", 89: "flash", 100: "cudnn", 120: "flash"}
        )

    def test_flash_takes_no_mask(self):
        self.assertEqual(chosen(masked=True, capability=80), "efficient")

    def test_cudnn_runs_where_a_program_names_it(self):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            self.assertEqual(chosen(capability=80), "cudnn")

    def test_flash_counts_from_one_end_only(self):
        self.assertEqual(chosen(keys=20, is_causal=True, capability=80), "efficient")
        self.assertEqual(chosen(keys=20, capability=80), "flash")

    def test_before_ampere_there_is_neither_flash_nor_bfloat16(self):
        self.assertEqual(chosen(torch.float16, capability=75), "efficient")
        self.assertEqual(chosen(torch.float16, head=52, capability=75), "math")
        self.assertEqual(chosen(torch.bfloat16, capability=75), "math")
        self.assertEqual(chosen(torch.float32, head=50, capability=75), "efficient")

    def test_a_traced_program_gets_the_kernel_of_its_card(self):
        sizes = {}
        for capability in (80, 90):
            with watched(gpu=gpu_of("a card", capability, None, None)) as observer:
                given = torch.empty(2, 4, 16, 64, dtype=torch.bfloat16, device="meta")
                asked = Asked(observer)
                scaled_dot_product_attention(given, given, given)
                sizes[capability] = asked.sizes()
        whole = 2 * 4 * 16 * 64 * 2
        # Flash keeps a sum for each row; cuDNN does so for a backward pass only.
        self.assertEqual(sizes[80][:2], [whole, 2 * 4 * 16 * 4])
        self.assertNotIn(2 * 4 * 16 * 4, sizes[90])


class Flash(unittest.TestCase):
    def test_backward_asks_as_on_an_h200(self):
        # The decoder of Moonshine in bfloat16: 96 texts of 40 words, eight heads of 52, filled up to 56.
        texts, words, heads, head = 96, 40, 8, 52
        shape = (texts, words, heads, head)
        with watched() as observer:
            query, key, value = (
                torch.empty(
                    shape, dtype=torch.bfloat16, device="meta", requires_grad=True
                ).transpose(1, 2)
                for _ in range(3)
            )
            out = scaled_dot_product_attention(query, key, value, is_causal=True)
            flat = out.transpose(1, 2).reshape(texts, words, heads * head)
            asked = Asked(observer)
            flat.backward(torch.empty_like(flat))
            sizes = asked.sizes()
        gradient, filled = texts * words * heads * head * 2, texts * words * heads * 56 * 2
        # The gradient that `backward` is given, filled up; copies of it and of the result, which lie otherwise
        # than flash wants them; three gradients; a number for each row; sums of the query's gradient.
        self.assertEqual(sizes[0], gradient)
        self.assertEqual(sizes[1:9], [filled] * 6 + [393_216, 25_165_824])


def asked_by_backward(positions_first):
    """What the memory-efficient kernel asks for in backward, where the gradient of its result lies so."""
    samples, heads, positions, width = 176, 4, 180, 64
    shape = (samples, heads, positions, width)
    with watched() as observer:
        query, key, value = (
            torch.empty(shape, device="meta", requires_grad=True) for _ in range(3)
        )
        out = scaled_dot_product_attention(query, key, value)
        order = (2, 0, 1, 3) if positions_first else (0, 2, 1, 3)
        gradient = torch.empty([shape[place] for place in order], device="meta")
        back = [order.index(place) for place in range(4)]
        asked = Asked(observer)
        out.backward(gradient.permute(back))
        return asked.sizes(), samples * heads * positions * width * 4


class Backward(unittest.TestCase):
    def test_a_gradient_with_positions_before_samples_is_copied_first(self):
        # As an H200 asks for it in `nn.MultiheadAttention`: a copy, three gradients, a product.
        sizes, whole = asked_by_backward(positions_first=True)
        self.assertEqual(sizes[:5], [whole] * 5)
        self.assertNotEqual(sizes[5], whole)

    def test_one_with_the_heads_of_a_position_side_by_side_is_not(self):
        sizes, whole = asked_by_backward(positions_first=False)
        self.assertEqual(sizes[:4], [whole] * 4)
        self.assertNotEqual(sizes[4], whole)


# Scores of 2 sentences, 4 heads and 48 words are of no other size.
PROGRAM = """
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first={first})
model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).cuda()
words = torch.zeros(2, 48, 32, device="cuda")
padding = torch.zeros(2, 48, dtype=torch.bool, device="cuda")


def run(mask):
    assert model(words, src_key_padding_mask=mask).shape == (2, 48, 32)


{lines}
"""
SCORES = 2 * 4 * 48 * 48 * 4


class EncoderLayers(unittest.TestCase):
    def scores(self, *lines, first=True):
        """How often all scores were asked for."""
        rows = rows_of(self, PROGRAM.format(first=first, lines="\n".join(lines)))
        return [row[2] for row in rows if isinstance(row, list) and row[0] == "a"].count(SCORES)

    def test_a_mask_has_all_scores_made_and_masked_in_evaluation_alone(self):
        self.assertEqual(self.scores("run(padding)"), 0)
        evaluated = ("model.eval()", "with torch.{}():", "    run(padding)")
        for mode in ("no_grad", "inference_mode"):
            for first in (True, False):
                lines = [line.format(mode) for line in evaluated]
                self.assertEqual(self.scores(*lines, first=first), 2)
        # Without a mask kernels are fused, and with gradients each step is one of its own.
        self.assertEqual(self.scores("model.eval()", "with torch.no_grad():", "    run(None)"), 0)
        self.assertEqual(self.scores("model.eval()", "run(padding)"), 0)

    def test_attention_by_itself_tells_its_weights(self):
        lines = (
            "attend = nn.MultiheadAttention(32, 4, batch_first=True).cuda().eval()",
            "with torch.no_grad():",
            "    seen, weights = attend(words, words, words, key_padding_mask=padding)",
            "    assert weights.shape == (2, 48, 48)",
            "    seen, weights = attend(words, words, words, need_weights=False)",
            "    assert weights is None and seen.shape == (2, 48, 32)",
        )
        self.assertEqual(self.scores(*lines), 2)


# Attention over rows of different lengths: nested tensors of layout jagged.

ATTENTION = """
import torch
import torch.nn.functional as F
from torch import nn

projection = nn.Linear(64, 192).cuda()
optimizer = torch.optim.SGD(projection.parameters(), 0.1)

def attend(rows, **settings):
    parts = projection(rows).chunk(3, -1)
    heads = (part.unflatten(-1, [4, -1]).transpose(1, 2) for part in parts)
    return F.scaled_dot_product_attention(*heads, **settings).transpose(1, 2).flatten(-2)

for half in (False, True):
    for _ in range(2):
        lengths = (700, 90, 300)
        rows = torch.nested.nested_tensor(
            [torch.randn(length, 64) for length in lengths], layout=torch.jagged
        ).cuda()
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            made = attend(rows, is_causal=half)
        assert made.values().shape == (1090, 64)
        assert made.dtype == (torch.bfloat16 if half else torch.float32)
        optimizer.zero_grad()
        made.values().float().pow(2).mean().backward()
        optimizer.step()
"""


class Jagged(unittest.TestCase):
    def test_attention_is_followed_without_padding_and_without_all_scores(self):
        asked = [
            row[2] for row in rows_of(self, ATTENTION) if isinstance(row, list) and row[0] == "a"
        ]
        self.assertIn(1090 * 192 * 4, asked)
        self.assertIn(1090 * 192 * 2, asked)
        # The scores of all sentences, and those of the longest one.
        for scores in (3 * 4 * 700 * 700, 4 * 700 * 700):
            self.assertNotIn(scores * 2, asked)
            self.assertNotIn(scores * 4, asked)


# Gradients that are shorter on CUDA than where ops are watched: losses of logits, as recorded, and products.

SHAPE = (1024, 256)
BYTES = 4 * 1024 * 256


def backward_of(observer, result):
    grad = torch.empty_like(result)
    asked = Asked(observer)
    result.backward(grad)
    return asked.sizes()


class LossOfLogits(unittest.TestCase):
    def test_it_keeps_the_logs_until_the_mean_is_there_and_goes_back_in_place(self):
        with watched() as observer:
            logits = torch.empty(SHAPE, device="meta", requires_grad=True)
            target = torch.empty(SHAPE, device="meta")
            asked = Asked(observer)
            loss = F.binary_cross_entropy_with_logits(logits, target)
            self.assertEqual(asked.sizes()[:3], [BYTES, BYTES, 4])
            self.assertEqual(backward_of(observer, loss), [BYTES])
            self.assertEqual(logits.grad.shape, SHAPE)

    def test_weights_of_the_positive_ones_take_three_more(self):
        with watched() as observer:
            logits = torch.empty(SHAPE, device="meta", requires_grad=True)
            target = torch.empty(SHAPE, device="meta")
            weight = torch.empty(SHAPE[1], device="meta")
            loss = F.binary_cross_entropy_with_logits(
                logits, target, pos_weight=weight, reduction="sum"
            )
            self.assertEqual(backward_of(observer, loss), [BYTES] * 3)

    def test_its_gradient_can_be_differentiated_again(self):
        with watched():
            logits = torch.empty(SHAPE, device="meta", requires_grad=True)
            loss = F.binary_cross_entropy_with_logits(logits, torch.empty(SHAPE, device="meta"))
            (grad,) = torch.autograd.grad(loss, logits, create_graph=True)
            grad.square().sum().backward()
            self.assertEqual(logits.grad.shape, SHAPE)

    def test_functions_of_functions_have_it(self):
        with watched():
            target = torch.empty(SHAPE, device="meta")
            loss = torch.func.grad(lambda x: F.binary_cross_entropy_with_logits(x, target))
            self.assertEqual(loss(torch.empty(SHAPE, device="meta")).shape, SHAPE)

    def test_it_runs_without_a_gradient(self):
        with watched(), torch.inference_mode():
            logits = torch.empty(SHAPE, device="meta")
            loss = F.binary_cross_entropy_with_logits(logits, logits, reduction="none")
            self.assertEqual(loss.shape, SHAPE)


class Products(unittest.TestCase):
    def test_the_gradient_of_a_running_product_is_a_running_sum(self):
        with watched() as observer:
            source = torch.empty(SHAPE, device="meta", requires_grad=True)
            asked = Asked(observer)
            result = source.cumprod(-1)
            self.assertEqual(asked.sizes(), [BYTES])
            large = [size for size in backward_of(observer, result) if size > 32]
            self.assertEqual(large, [BYTES, BYTES // 4, BYTES, BYTES, BYTES, BYTES])

    def test_the_gradient_of_a_product_divides_by_its_factors(self):
        for dim, counted in ((None, 0), (-1, 1)):
            with self.subTest(dim=dim), watched() as observer:
                source = torch.empty(SHAPE, device="meta", requires_grad=True)
                result = source.prod() if dim is None else source.prod(dim)
                sizes = backward_of(observer, result)
                self.assertEqual(sizes[0], BYTES // 4)
                self.assertEqual(sizes[-2:], [BYTES, BYTES])
                self.assertEqual(4 * 1024 * 2 in sizes, bool(counted))
                self.assertEqual(source.grad.shape, SHAPE)


# `flex_attention` against what it asked a real H200's allocator for, and gave back, in order. The rows
# are of `bench/gpu/flex_attention.py` with PyTorch 2.11: a number is the bytes asked for, and
# -3 the end of the third of them.

ROWS = measured("flex_attention")
PARTS = ("mask", "forward", "backward")
# Of no size that attention asks for.
MARKS = (7777, 7778, 7779, 7780)

CALLS = """
import json, sys, torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

def causal(b, h, q, k):
    return q >= k

def bias(score, b, h, q, k):
    return score + (q - k)

def mark(number):
    return torch.empty(number, dtype=torch.int8, device="cuda")

compiled = torch.compile(flex_attention)
for row in json.load(open(sys.argv[1]))["flex_attention"]:
    samples, heads, key_heads, tokens, features = row["shape"]
    words = {"enable_gqa": heads != key_heads}
    if row["kind"] == "bias":
        words["score_mod"] = bias
    def made(count, learns=True):
        shape = (samples, count, tokens, features)
        return torch.randn(shape, device="cuda", dtype=getattr(torch, row["dtype"]), requires_grad=learns)
    # First one that starts the libraries.
    for turn in range(2):
        query, key, value, grad = made(heads), made(key_heads), made(key_heads), made(heads, False)
        marks = [mark(7777)] if turn else []
        if row["kind"] == "mask":
            words["block_mask"] = create_block_mask(causal, None, None, tokens, tokens, device="cuda")
        marks += [mark(7778)] if turn else []
        out = (compiled if row["compiled"] else flex_attention)(query, key, value, **words)
        marks += [mark(7779)] if turn else []
        out.backward(grad)
        marks += [mark(7780)] if turn else []
        assert out.is_contiguous() and query.grad.shape == query.shape and key.grad.shape == key.shape
        del query, key, value, grad, out, marks
        words.pop("block_mask", None)
"""

TRAINING = """
import sys, torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

attend = torch.compile(flex_attention) if sys.argv[1] == "compiled" else flex_attention

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inner, self.outer = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.slopes = nn.Parameter(torch.ones(heads))

    def forward(self, x, mask):
        samples, tokens, width = x.shape
        parts = self.inner(x).chunk(3, -1)
        q, k, v = (p.view(samples, tokens, self.heads, -1).transpose(1, 2) for p in parts)
        slopes = self.slopes
        def score(score, b, h, q, k):
            return score + slopes[h] * (q - k)
        out = attend(q, k, v, block_mask=mask, score_mod=score)
        return x + self.outer(out.transpose(1, 2).reshape(x.shape))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(512, 128)
        self.blocks = nn.ModuleList(Block(128, 4) for _ in range(2))
        self.head = nn.Linear(128, 512)

    def forward(self, tokens, mask):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)

model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(5):
    tokens = torch.randint(0, 512, (2, 256), device="cuda")
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(tokens, mask).flatten(0, 1), tokens.flatten())
    loss.backward()
    assert all(p.grad.shape == p.shape for p in model.parameters())
    optimizer.step()
    optimizer.zero_grad()
"""


def traced(text, *arguments):
    """The events of a program, and what the trace says of it."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "trace.jsonl")
        with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(text)
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        done = warm.run(
            [*command, "--program", "train.py", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        with open(output, encoding="utf-8") as file:
            _, *events, footer = map(json.loads, file)
        return events, footer


WHOLE = """
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x, mask):
        query, key, value = self.inner(x).view(2, 640, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return self.outer(flex_attention(query, key, value, block_mask=mask).transpose(1, 2).reshape(2, 640, 64))

model, make = torch.compile(Layer().cuda()), torch.compile(create_block_mask)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for texts in (torch.arange(640) // 200, torch.arange(640) // 300):
    texts = texts.cuda()
    def same(b, h, q, k):
        return (texts[q] == texts[k]) & (q >= k)
    begin = torch.empty(7777, dtype=torch.int8, device="cuda")
    mask = make(same, None, None, 640, 640, device="cuda")
    end = torch.empty(7778, dtype=torch.int8, device="cuda")
    assert mask.kv_indices.shape == (1, 1, 5, 5) and mask.kv_indices.is_cuda and mask.mask_mod is not None
    loss = model(torch.randn(2, 640, 64, device="cuda"), mask).sum()
    loss.backward()
    optimizer.step()
"""


def rows_of_of_flex_attention(events):
    """What lies between the marks, as the card's rows say it."""
    rows, numbers, part = [], {}, None
    for event in events:
        if event[0] == "a" and event[2] in MARKS:
            place = MARKS.index(event[2])
            if place == 0:
                rows.append({})
                numbers = {}
            part = rows[-1].setdefault(PARTS[place], []) if place < len(PARTS) else None
        elif part is not None and event[0] == "a":
            numbers[event[1]] = len(numbers) + 1
            part.append(event[2])
        elif part is not None and event[0] == "f":
            part.append(-numbers[event[1]])
    return rows


class FlexAttention(unittest.TestCase):
    def test_it_asks_for_and_gives_back_what_it_does_on_the_card_in_the_same_order(self):
        events, footer = traced(CALLS, MEASURED)
        rows = rows_of_of_flex_attention(events)
        self.assertEqual(len(rows), len(ROWS))
        for mine, row in zip(rows, ROWS):
            with self.subTest(**{k: v for k, v in row.items() if k not in PARTS}):
                self.assertEqual(mine, {part: row[part] for part in PARTS})
        self.assertEqual(footer["notes"], [])

    def test_a_mask_is_made_and_given_to_a_model_where_both_are_compiled(self):
        events, footer = traced(WHOLE)
        self.assertEqual([note[:26] for note in footer["notes"]], ["torch.compile was followed"])
        asked = [event[2] for event in events if event[0] == "a"]
        begins, ends = ([i for i, size in enumerate(asked) if size == mark] for mark in MARKS[:2])
        self.assertEqual([len(begins), len(ends)], [2, 2])
        # The whole mask is nowhere: its blocks are made as it is computed. At first kernels are tried.
        self.assertLess(begins[1] + 1, ends[1])
        self.assertLess(max(asked[begins[1] + 1 : ends[1]]), 640 * 640)
        # And neither are all scores.
        self.assertNotIn(2 * 4 * 640 * 640 * 4, asked)

    def test_a_model_with_a_learned_bias_trains_with_it_compiled_and_not(self):
        peaks = {}
        for form in ("compiled", "plain"):
            events, footer = traced(TRAINING, form)
            self.assertEqual(footer["notes"], [])
            live = peaks[form] = 0
            sizes = {}
            for event in events:
                if event[0] == "a":
                    sizes[event[1]] = event[2]
                live += {"a": 1, "f": -1}.get(event[0], 0) * sizes.get(event[1], 0)
                peaks[form] = max(peaks[form], live)
        # All scores of 2 samples and 4 heads, in 4 bytes.
        self.assertGreater(peaks["plain"], peaks["compiled"] + 2 * 4 * 256 * 256 * 4)


if __name__ == "__main__":
    unittest.main()
