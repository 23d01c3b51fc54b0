"""Small models under a Trainer, failures at chosen points, and the same training without them."""

from __future__ import annotations

import gc
import logging
import os
import tempfile
from unittest import mock

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

from sdk.injection import out_of_memory

from plimsoll.trainers import hugging_face, split_step

os.environ.setdefault("HF_HUB_OFFLINE", "1")
WORDS, LENGTH = 40, 12


def gpt2(dropout):
    rates = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = GPT2Config(
        vocab_size=WORDS, n_embd=8, n_layer=2, n_head=2, n_positions=32, **rates, **tokens
    )
    return GPT2LMHeadModel(config)


def bert(dropout):
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        num_labels=3,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return BertForSequenceClassification(config)


def t5(dropout):
    config = T5Config(
        vocab_size=WORDS,
        d_model=8,
        d_kv=4,
        d_ff=16,
        num_layers=2,
        num_heads=2,
        dropout_rate=dropout,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


MODELS = {"gpt2": gpt2, "bert": bert, "t5": t5}


class Samples(torch.utils.data.Dataset):
    """Labels of unlike lengths: a mean over parts that forgets it is wrong."""

    def __init__(self, kind, count):
        self.kind, self.count = kind, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        ids = torch.randint(3, WORDS, (LENGTH,), generator=torch.Generator().manual_seed(i))
        if self.kind == "bert":
            return {"input_ids": ids, "labels": torch.tensor(i % 3)}
        labels = ids.clone()
        labels[3 + i % 8 :] = -100
        return {"input_ids": ids, "labels": labels}


class Faults:
    """Fails at the given calls of a point, counted over the whole training."""

    def __init__(self, point, at):
        self.point, self.at, self.calls, self.raised = point, set(at), 0, 0

    def reached(self, *_):
        self.calls += 1
        if self.calls in self.at:
            self.raised += 1
            raise out_of_memory()

    def watch(self, model, kind):
        layers = {
            "gpt2": lambda: model.transformer.h,
            "bert": lambda: model.bert.encoder.layer,
            "t5": lambda: model.decoder.block,
        }[kind]()
        if self.point == "forward":
            # Of a part without parts: checkpointing of T5 in transformers 4.50 goes past the hooks of a layer.
            leaf = next(one for one in layers[1].modules() if not any(one.children()))
            leaf.register_forward_pre_hook(self.reached)
        if self.point == "backward":
            # The last gradients to be written are those of the first layer: all others are there by then.
            next(layers[0].parameters()).register_hook(self.reached)

    def around(self):
        if self.point == "step":
            return self._patched(torch, "_foreach_sqrt")
        if self.point == "clip":
            return self._patched(torch.linalg, "vector_norm")
        return mock.patch.dict(os.environ, {})

    def _patched(self, owner, name):
        real = getattr(owner, name)

        def failing(*arguments, **named):
            self.reached()
            return real(*arguments, **named)

        return mock.patch.object(owner, name, failing)


class PlainParts(Trainer):
    """Accumulation over given parts, written out: no code of ours."""

    partitions: list
    rows = 0
    # T5 and BERT take the mean of each part; GPT-2 is told over how many labels.
    takes_mean = False

    def training_step(self, model, inputs, num_items_in_batch=None):
        sizes, done, total = self.partitions.pop(0), 0, None
        self.rows += len(inputs["labels"])
        backward = type(self.accelerator).backward
        for size in sizes:
            part = {key: value[done : done + size] for key, value in inputs.items()}
            share = _labels(part) / _labels(inputs) if self.takes_mean else 1.0

            def scaled(loss, share=share, **more):
                backward(self.accelerator, loss if share == 1.0 else loss * share, **more)

            self.accelerator.backward = scaled
            loss = super().training_step(model, part, num_items_in_batch) * share
            total = loss if total is None else total + loss
            done += size
        return total


def _labels(inputs):
    return int((inputs["labels"] != -100).sum())


def made(kind, dropout, settings, trainer=Trainer, seed=0, faults=None, scales=False, **more):
    torch.manual_seed(seed)
    model = MODELS[kind](dropout)
    if faults is not None:
        faults.watch(model, kind)
    folder = tempfile.mkdtemp()
    given = {
        "output_dir": folder,
        "per_device_train_batch_size": 6,
        "num_train_epochs": 1,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
        "learning_rate": 1e-2,
        "seed": seed,
        **settings,
    }
    os.rmdir(folder)
    arguments = TrainingArguments(**given)
    # As on a card: all parameters in one call, which can fail between the moments and the weights.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    data = Samples(kind, 24)
    result = trainer(
        model=model, args=arguments, train_dataset=data, optimizers=(optimizer, None), **more
    )
    result.remove_callback(PrinterCallback)
    if scales:
        # As fp16 on a card has it; on the CPU the scaler is what is looked at.
        result.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    return result


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


class Watched:
    """A trainer with a recovering step; keeps the sizes of the parts that counted in each step."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.windows = []
        self.step = None

    def train(self):
        began = split_step.SplitStep.__init__
        closed = split_step.SplitStep.stepped

        def begin(step, *arguments):
            began(step, *arguments)
            self.step = step

        def stepped(step):
            self.windows.append(step.partitions)
            closed(step)

        with mock.patch.object(split_step.SplitStep, "__init__", begin):
            with mock.patch.object(split_step.SplitStep, "stepped", stepped):
                replaced = hugging_face.attach(self.trainer)
                try:
                    self.trainer.train()
                finally:
                    replaced.put_back()
        return self


def quiet():
    torch.set_num_threads(1)
    # What transformers made while it was imported never becomes garbage; a collection looks at it each time.
    gc.collect()
    gc.freeze()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    logging.getLogger("plimsoll").setLevel(logging.CRITICAL)


def loud():
    logging.getLogger("plimsoll").setLevel(logging.NOTSET)
