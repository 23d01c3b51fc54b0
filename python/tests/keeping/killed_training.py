"""A training that is killed with SIGKILL at random moments and started again, until it is done.

Usage: killed_training.py PACKAGE FOLDER KILLS SEED; a kill comes after the first checkpoint that a try wrote. Each try
is a process forked from this one, which has imported torch. Prints a JSON line: whether the weights are bit-equal to
those of an undisturbed run, and what happened.
"""

import json
import os
import random
import signal
import sys
import time

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, sys.argv[1])

import plimsoll
from plimsoll import saving  # noqa: F401

torch.set_num_threads(1)
EPOCHS = 4
# Of a try that is to be killed, four checkpoints.
STEPS = 8


def train(folder, steps):
    """Dropout, a shuffled loader, a schedule, and draws of Python and NumPy: all must go on as they were.

    After so many steps of its own it stands still: it is to be killed, however late that comes.
    """
    torch.manual_seed(1)
    random.seed(2)
    numpy.random.seed(3)
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.3), nn.BatchNorm1d(64), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=EPOCHS * 20)
    data = TensorDataset(torch.randn(160, 16), torch.randint(0, 4, (160,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    losses = []
    with plimsoll.checkpointing(folder, model, optimizer, scheduler=scheduler, every=2) as saved:
        for _ in saved.epochs(EPOCHS):
            for inputs, labels in saved.batches(loader):
                noise = random.random() + numpy.random.rand()
                loss = nn.functional.cross_entropy(model(inputs + 0.01 * noise), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                losses.append(loss.item())
                if len(losses) == steps:
                    signal.pause()
    state = {name: tensor.tolist() for name, tensor in model.state_dict().items()}
    with open(os.path.join(folder, "result.json"), "w", encoding="ascii") as file:
        json.dump({"state": state, "steps": saved.steps, "last": losses[-1:]}, file)


def checkpoints(folder):
    return {name for name in os.listdir(folder) if name.endswith(".pt")}


def attempt(folder, after):
    """One process; killed so many seconds after its first own checkpoint. Whether it ended by itself."""
    before = checkpoints(folder)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            train(folder, None if after is None else STEPS)
            status = 0
        finally:
            os._exit(status)
    ended = 0
    if after is not None:
        while checkpoints(folder) <= before and ended == 0:
            ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.0005)
        if ended == 0:
            time.sleep(after)
            os.kill(pid, signal.SIGKILL)
    if ended == 0:
        _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"the training failed with {os.WEXITSTATUS(status)}")
    return not os.WIFSIGNALED(status)


def result(folder):
    with open(os.path.join(folder, "result.json"), encoding="ascii") as file:
        return json.load(file)


folder, kills, seed = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
calm, hunted = os.path.join(folder, "calm"), os.path.join(folder, "hunted")
os.makedirs(calm)
os.makedirs(hunted)
attempt(calm, None)
draw = random.Random(seed)
killed, stood, done = 0, set(), False
while not done:
    # At any point of the steps that follow, and of the next write.
    done = attempt(hunted, draw.uniform(0, 0.03) if killed < kills else None)
    killed += not done
    stood.add(max(checkpoints(hunted))[:23])
same = result(calm)["state"] == result(hunted)["state"]
files = [name for name in os.listdir(hunted) if name.startswith("checkpoint-")]
print(json.dumps({"same": same, "killed": killed, "stood": len(stood), "files": len(files)}))
