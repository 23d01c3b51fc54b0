"""`flex_attention` against what it asked a real H200's allocator for, and gave back, in order.

The rows of `measured_flex_attention.json` are of `bench/gpu/flex_attention.py` with PyTorch 2.11: a number is
the bytes asked for, and -3 the end of the third of them.
"""

import json
import os
import sys
import tempfile
import unittest

import warm

from tracing import PACKAGE

MEASURED = os.path.join(os.path.dirname(__file__), "measured_flex_attention.json")
with open(MEASURED, encoding="utf-8") as file:
    ROWS = json.load(file)
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
for row in json.load(open(sys.argv[1])):
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
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll.trace", "--output", output]
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


def rows_of(events):
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
        rows = rows_of(events)
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
