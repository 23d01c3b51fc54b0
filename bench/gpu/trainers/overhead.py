"""What a step of a Trainer costs with our guard around it and without, in turn in one process: BERT-base, bf16.

Usage: overhead.py OUTPUT.json PYTHON_FOLDER [--tiny]
Blocks of steps alternate, so that clocks and caches of the machine are the same for both.
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
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from plimsoll.trainers import hugging_face
from plimsoll.trainers.optimizer_retry import OptimizerRetry
from plimsoll.trainers.split_step import SplitStep

BLOCKS, STEPS, SETTLING = (4, 6, 3) if TINY else (16, 14, 4)
BATCH, LENGTH = (4, 16) if TINY else (128, 256)
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2} if TINY else {}
own = {"run": 0.0, "step": 0.0}


class Texts(torch.utils.data.Dataset):
    def __init__(self):
        made = torch.Generator().manual_seed(0)
        self.ids = torch.randint(3, 30522, (BATCH * 4, LENGTH), generator=made)

    def __len__(self):
        return BATCH * BLOCKS * STEPS * 2

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
    def __init__(self):
        self.times = {"with": [], "without": []}
        self.own = []
        self.last, self.replaced = None, None

    def on_step_end(self, args, state, control, **_):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        block, step = divmod(state.global_step - 1, STEPS)
        how = "with" if self.replaced is not None else "without"
        if step >= SETTLING and self.last is not None:
            self.times[how].append(now - self.last)
            if how == "with":
                self.own.append(sum(own.values()))
        own.update(run=0.0, step=0.0)
        if step == STEPS - 1:
            if self.replaced is not None:
                self.replaced.put_back()
            wanted = block % 2 == 0
            self.replaced = hugging_face.attach(self.trainer) if wanted else None
        self.last = time.perf_counter()


without_inner(SplitStep, "run", "run")
without_inner(OptimizerRetry, "_step", "step")
turns = Alternating()
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=BATCH,
    max_steps=BLOCKS * STEPS,
    bf16=torch.cuda.is_available(),
    logging_steps=10**6,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
)
model = BertForSequenceClassification(BertConfig(num_labels=4, **SMALL))
turns.trainer = Trainer(model, arguments, train_dataset=Texts(), callbacks=[turns])
turns.trainer.train()
medians = {how: statistics.median(times) for how, times in turns.times.items()}
answer = {
    "medianSeconds": medians,
    "ratio": medians["with"] / medians["without"],
    "ownMilliseconds": 1000 * statistics.median(turns.own),
    "steps": {how: len(times) for how, times in turns.times.items()},
    "torch": torch.__version__,
    "times": turns.times,
}
with open(OUTPUT, "w", encoding="utf-8") as file:
    json.dump(answer, file, indent=1)
print(
    f"{medians['without'] * 1000:.2f} ms without, {medians['with'] * 1000:.2f} ms with: {answer['ratio']:.4f} x; "
    f"of it ours on the processor {answer['ownMilliseconds']:.3f} ms"
)
