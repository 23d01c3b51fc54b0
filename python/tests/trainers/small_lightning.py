"""A small module under Lightning, failures at chosen points, and the same training without them."""

from __future__ import annotations

import atexit
import functools
import importlib
import logging
import os
import tempfile
import warnings
from unittest import mock

import torch
import torch.nn.functional as F

from sdk.injection import out_of_memory

from plimsoll.trainers import clipping, lightning, split_step

PACKAGE = os.environ.get("PLIMSOLL_TEST_LIGHTNING", "lightning.pytorch")
SAMPLES = 24

try:
    pl = importlib.import_module(PACKAGE)
    optimization = importlib.import_module(f"{PACKAGE}.loops.optimization.automatic")
    manual = importlib.import_module(f"{PACKAGE}.loops.optimization.manual")
    strategies = importlib.import_module(f"{PACKAGE}.strategies.strategy")
    precision = importlib.import_module(f"{PACKAGE}.plugins.precision")
except ImportError:
    pl = None


class Faults:
    """Fails at the given calls of a point, counted over the whole training."""

    def __init__(self, point, at):
        self.point, self.at, self.calls, self.raised = point, set(at), 0, 0

    def reached(self, *_):
        self.calls += 1
        if self.calls in self.at:
            self.raised += 1
            raise out_of_memory()

    def around(self):
        places = {"step": (torch, "_foreach_sqrt"), "clip": (torch.linalg, "vector_norm")}
        if self.point not in places:
            return mock.patch.dict(os.environ, {})
        owner, name = places[self.point]
        real = getattr(owner, name)

        def failing(*arguments, **named):
            self.reached()
            return real(*arguments, **named)

        return mock.patch.object(owner, name, failing)


def module_class():
    class Module(pl.LightningModule):
        def __init__(self, dropout, faults=None):
            super().__init__()
            self.first, self.last = torch.nn.Linear(6, 12), torch.nn.Linear(12, 3)
            self.drop = torch.nn.Dropout(dropout)
            self.seen = []
            if faults is not None and faults.point == "forward":
                self.last.register_forward_pre_hook(faults.reached)
            if faults is not None and faults.point == "backward":
                self.first.weight.register_hook(faults.reached)

        def forward(self, x):
            return self.last(self.drop(torch.tanh(self.first(x))))

        def training_step(self, batch, batch_idx):
            loss = F.cross_entropy(self(batch[0]), batch[1])
            self.log("loss", loss, on_step=False, on_epoch=True)
            return {"loss": loss, "rows": batch[2]}

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.seen.append(outputs["rows"].tolist())

        def validation_step(self, batch, batch_idx):
            self.log("checked", F.cross_entropy(self(batch[0]), batch[1]))

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2, foreach=True)

    return Module


def loader(batch_size):
    made = torch.Generator().manual_seed(5)
    x = torch.randn(SAMPLES, 6, generator=made)
    y = torch.randint(0, 3, (SAMPLES,), generator=made)
    data = torch.utils.data.TensorDataset(x, y, torch.arange(SAMPLES))
    return torch.utils.data.DataLoader(data, batch_size=batch_size)


def plain_parts(windows, dropout, seed, batch_size, clip, scaler=None):
    """The same training in plain PyTorch over the same parts: no code of ours, none of Lightning."""
    module = seeded(dropout, seed)
    optimizer = module.configure_optimizers()
    batches = iter(loader(batch_size))
    for window in windows:
        optimizer.zero_grad()
        for sizes in window:
            x, y, _ = next(batches)
            done = 0
            for size in sizes:
                part = slice(done, done + size)
                loss = F.cross_entropy(module(x[part]), y[part]) / window_length(windows)
                share = size / sum(sizes)
                loss = loss if share == 1 else loss * share
                (loss if scaler is None else scaler.scale(loss)).backward()
                done += size
        if scaler is not None:
            scaler.unscale_(optimizer)
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
    return module


def window_length(windows):
    return max(len(window) for window in windows)


def seeded(dropout, seed, faults=None):
    torch.manual_seed(seed)
    return module_class()(dropout, faults)


@functools.cache
def folder_for_tests():
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


class Watched:
    """Trains with recovering steps; keeps the sizes of the parts that counted in each step."""

    def __init__(self, dropout, seed, batch_size, faults, **settings):
        self.windows = []
        self.module = seeded(dropout, seed, faults)
        self.batch_size = batch_size
        self.trainer = pl.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            # BatchSizeFinder leaves a file there where it fails.
            default_root_dir=folder_for_tests(),
            **settings,
        )

    def fit(self):
        closed = split_step.SplitStep.stepped

        def stepped(step):
            self.windows.append(step.partitions)
            closed(step)

        with mock.patch.object(split_step.SplitStep, "stepped", stepped):
            self.trainer.fit(self.module, loader(self.batch_size))
        return self


def install():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    logging.getLogger(PACKAGE).setLevel(logging.ERROR)
    logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
    lightning.install(optimization)
    lightning.install_manual(manual)
    lightning.install_evaluation(strategies)
    clipping.install()
