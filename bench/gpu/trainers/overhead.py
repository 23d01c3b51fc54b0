"""What a step of a Trainer costs with our guard around it and without, in turn in one process: BERT, bf16.

Usage: overhead.py OUTPUT.json PYTHON_FOLDER [--tiny]
Blocks of steps alternate. Each block with the guard is compared with the blocks before and after it, and each block
without it in the same way: what those differ by is the noise of the machine. Under `plimsoll run` with
PLIMSOLL_TRAINERS=0 the steps tell the supervisor as well. overhead_loops.py does the same for loops.
"""

import json
import statistics
import sys
import tempfile
import time

OUTPUT, FOLDER = sys.argv[1:3]
sys.path.insert(0, FOLDER)
TINY = "--tiny" in sys.argv
import torch
from blocks import compared, quartiles, sentence
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from plimsoll.bridge import connection
from plimsoll.memory.gauge import gauge_of
from plimsoll.recovery.restore import RandomState
from plimsoll.trainers import hugging_face
from plimsoll.trainers.optimizer_retry import OptimizerRetry
from plimsoll.trainers.split_step import SplitStep

SETTLING = 3
# name: (samples, tokens, changes to BERT-base, blocks, steps of a block)
SIZES = {
    "BERT-base, 128 x 256": (128, 256, {}, 25, 13),
    "BERT-base, 24 x 256": (24, 256, {}, 33, 18),
}
SMALL = {"hidden_size": 16, "num_hidden_layers": 12, "num_attention_heads": 2}
if TINY:
    SIZES = dict.fromkeys(SIZES, (4, 16, SMALL, 7, 6))
own = {"run": 0.0, "step": 0.0}


class Texts(torch.utils.data.Dataset):
    def __init__(self, batch, length):
        made = torch.Generator().manual_seed(0)
        self.ids = torch.randint(3, 30522, (batch * 4, length), generator=made)

    def __len__(self):
        return 10**6

    def __getitem__(self, i):
        return {"input_ids": self.ids[i % len(self.ids)], "labels": torch.tensor(i % 4)}


def without_inner(kind, name, key):
    """Counts the time that one of our methods takes beside the work of the program that it calls."""
    real = getattr(kind, name)

    def call(self, *arguments):
        inner = [0.0]
        position = 1 if kind is SplitStep else 0
        work = arguments[position]

        def timed(*given, **named):
            began = time.perf_counter()
            try:
                return work(*given, **named)
            finally:
                inner[0] += time.perf_counter() - began

        given = [*arguments[:position], timed, *arguments[position + 1 :]]
        began = time.perf_counter()
        result = real(self, *given)
        own[key] += time.perf_counter() - began - inner[0]
        return result

    setattr(kind, name, call)


class Alternating(TrainerCallback):
    """Even blocks run without the guard, odd ones with it."""

    def __init__(self, steps):
        self.steps, self.blocks, self.own = steps, [[]], []
        self.last, self.replaced = None, None

    def on_step_end(self, args, state, control, **_):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        step = (state.global_step - 1) % self.steps
        if step >= SETTLING and self.last is not None:
            self.blocks[-1].append(now - self.last)
            if self.replaced is not None:
                self.own.append(sum(own.values()))
        own.update(run=0.0, step=0.0)
        if step == self.steps - 1:
            if self.replaced is not None:
                self.replaced.put_back()
            wanted = len(self.blocks) % 2 == 1
            self.replaced = hugging_face.attach(self.trainer) if wanted else None
            self.blocks.append([])
        self.last = time.perf_counter()


def measure(name):
    batch, length, small, blocks, steps = SIZES[name]
    turns = Alternating(steps)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=batch,
        max_steps=blocks * steps,
        bf16=torch.cuda.is_available(),
        logging_steps=10**6,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    model = BertForSequenceClassification(BertConfig(num_labels=4, **small))
    data = Texts(batch, length)
    turns.trainer = Trainer(model, arguments, train_dataset=data, callbacks=[turns])
    turns.trainer.train()
    found = {
        **compared(turns.blocks),
        "ownMilliseconds": quartiles([1000 * one for one in turns.own]),
        "ownMeanMilliseconds": 1000 * statistics.fmean(turns.own),
    }
    print(
        f"{sentence(name, found)}; of it ours on the processor "
        f"{found['ownMilliseconds']['median']:.3f} ms, mean {found['ownMeanMilliseconds']:.3f} ms",
        flush=True,
    )
    return found


def pieces():
    """What single readings take, in microseconds; the better half of many."""
    gauge = gauge_of()
    acts = {"random state": RandomState, "capacity": gauge.capacity_bytes, "used": gauge.used_bytes}
    acts["reset of the peak"] = gauge.reset_peak
    if torch.cuda.is_available():
        acts["torch.cuda.memory_allocated"] = torch.cuda.memory_allocated
        acts["torch.cuda.mem_get_info"] = torch.cuda.mem_get_info
    found = {}
    for name, act in acts.items():
        times = []
        for _ in range(200):
            began = time.perf_counter()
            act()
            times.append(time.perf_counter() - began)
        found[name] = 1e6 * statistics.median(times)
    print({name: round(one, 1) for name, one in found.items()}, flush=True)
    return found


without_inner(SplitStep, "run", "run")
without_inner(OptimizerRetry, "_step", "step")
answer = {
    "torch": torch.__version__,
    "supervised": connection.current() is not None,
    "sizes": {name: measure(name) for name in SIZES},
    "piecesMicroseconds": pieces(),
}
with open(OUTPUT, "w", encoding="utf-8") as file:
    json.dump(answer, file, indent=1)
