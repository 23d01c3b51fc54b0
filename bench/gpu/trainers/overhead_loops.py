"""What a step of a program's own loop costs with all that `plimsoll run` puts around it, and without, in turn.

Usage: overhead_loops.py OUTPUT.json PYTHON_FOLDER [--tiny]
Three loops in one process: an encoder of torch.nn, BERT of transformers, and BERT with accelerate; bf16, 256 tokens.
Blocks of steps alternate: with, the model's call, backward, the optimizer's step and its hooks are the wrapped ones,
and losses are told to a process that stands for the supervisor; without, they are PyTorch's own. The thread that looks
at memory twice a second runs all the time; blocks.py says how blocks are compared.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

OUTPUT, FOLDER = sys.argv[1:3]
sys.path.insert(0, FOLDER)
TINY = "--tiny" in sys.argv
# Reads and forgets whatever it is told.
LISTENER = """
import socket, sys
waiting = socket.socket(socket.AF_UNIX)
waiting.bind(sys.argv[1])
waiting.listen()
print("READY", flush=True)
told, _ = waiting.accept()
while told.recv(65536):
    pass
"""
ADDRESS = os.path.join(tempfile.mkdtemp(), "line")
listener = subprocess.Popen(
    [sys.executable, "-c", LISTENER, ADDRESS], stdout=subprocess.PIPE, text=True
)
listener.stdout.readline()
os.environ["PLIMSOLL_BRIDGE"] = ADDRESS

import torch
import transformers
from accelerate import Accelerator
from blocks import compared, sentence
from torch.optim import AdamW
from torch.optim import optimizer as optimizers
from transformers import BertConfig, BertForSequenceClassification

from plimsoll.bridge import auto, connection
from plimsoll.optimizing import in_loops
from plimsoll.trainers import loops

SETTLING = 3
BLOCKS, STEPS = (7, 6) if TINY else (25, 13)
SIZES = (4,) if TINY else (128, 24)
LENGTH = 16 if TINY else 256
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SHAPE = BertConfig(num_labels=4, **(SMALL if TINY else {}))


class Encoder(torch.nn.Module):
    """As large as BERT-base, of PyTorch's own layers."""

    def __init__(self):
        super().__init__()
        width, heads = SHAPE.hidden_size, SHAPE.num_attention_heads
        layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
        self.words = torch.nn.Embedding(SHAPE.vocab_size, width)
        self.layers = torch.nn.TransformerEncoder(layer, SHAPE.num_hidden_layers)
        self.head = torch.nn.Linear(width, 4)

    def forward(self, ids, labels):
        seen = self.head(self.layers(self.words(ids))[:, 0])
        return torch.nn.functional.cross_entropy(seen, labels)


class Switch:
    """All that is wrapped, and what was there before."""

    def __init__(self):
        own = AdamW.step
        AdamW([torch.zeros(1)])
        hooked, AdamW.step = AdamW.step, own
        model = transformers.modeling_utils.PreTrainedModel
        before = [(torch.autograd, "backward"), (AdamW, "step"), (model, "__call__")]
        plain = [torch.autograd.backward, hooked, model.__call__]
        auto.start()
        loops.install()
        in_loops.install(transformers.modeling_utils)
        AdamW([torch.zeros(1)])
        self.places = before
        self.ways = {False: plain, True: [getattr(owner, name) for owner, name in before]}
        same = [name for (_, name), a, b in zip(before, *self.ways.values()) if a is b]
        if same or connection.current() is None:
            sys.exit(f"nothing is put around {', '.join(same) or 'the loop: no supervisor'}")
        self.hooks = [
            (hooks, dict(hooks))
            for hooks in (
                optimizers._global_optimizer_pre_hooks,
                optimizers._global_optimizer_post_hooks,
            )
        ]

    def turn(self, is_on):
        for (owner, name), value in zip(self.places, self.ways[is_on]):
            setattr(owner, name, value)
        for hooks, ours in self.hooks:
            hooks.clear()
            hooks.update(ours if is_on else {})


def autocast():
    wanted = DEVICE == "cuda"
    return torch.autocast("cuda", torch.bfloat16) if wanted else contextlib.nullcontext()


def plain_step(model, optimizer, ids, labels):
    with autocast():
        loss = model(ids, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def encoder_loop():
    model = Encoder().to(DEVICE)
    return plain_step, model, AdamW(model.parameters(), lr=1e-4)


def bert_loop():
    model = BertForSequenceClassification(SHAPE).to(DEVICE).train()
    return plain_step_of_transformers, model, AdamW(model.parameters(), lr=1e-4)


def plain_step_of_transformers(model, optimizer, ids, labels):
    with autocast():
        loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def accelerate_loop():
    accelerator = Accelerator(mixed_precision="bf16" if DEVICE == "cuda" else "no")
    model = BertForSequenceClassification(SHAPE).train()
    model, optimizer = accelerator.prepare(model, AdamW(model.parameters(), lr=1e-4))

    def step(model, optimizer, ids, labels):
        loss = model(input_ids=ids, labels=labels).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step, model, optimizer


def measure(make, batch, switch):
    switch.turn(True)
    step, model, optimizer = make()
    ids = torch.randint(3, SHAPE.vocab_size, (batch, LENGTH), device=DEVICE)
    labels = ids[:, 0] % 4
    blocks = []
    for block in range(BLOCKS):
        switch.turn(block % 2 == 1)
        seconds = []
        for number in range(STEPS):
            began = time.perf_counter()
            step(model, optimizer, ids, labels)
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            if number >= SETTLING:
                seconds.append(time.perf_counter() - began)
        blocks.append(seconds)
    return compared(blocks)


def main():
    switch = Switch()
    answer = {"torch": torch.__version__, "loops": {}}
    for make in (encoder_loop, bert_loop, accelerate_loop):
        for batch in SIZES:
            name = f"{make.__name__}, {batch} x {LENGTH}"
            answer["loops"][name] = measure(make, batch, switch)
            print(sentence(name, answer["loops"][name]), flush=True)
            with open(OUTPUT, "w", encoding="utf-8") as file:
                json.dump(answer, file, indent=1)


main()
listener.terminate()
