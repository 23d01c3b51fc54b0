"""Activity recognition from wearable sensors with a dilated TCN. torch.compile on the network, focal loss, EMA by hand."""

import collections
import logging
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

LOG = logging.getLogger("activity")

WINDOW = 1024
CHANNELS = 9
ACTIVITIES = 12
SUBJECTS = 10
WINDOWS_PER_SUBJECT = 1200
WIDTH = 192
LEVELS = 8
BATCH = 512
EPOCHS = 3
LR = 2e-3
DEVICE = "cuda"


class Windows(Dataset):
    """Windows of one subject group, kept in memory as float16."""

    def __init__(self, subjects, seed):
        rng = np.random.default_rng(seed)
        n = len(subjects) * WINDOWS_PER_SUBJECT
        self.y = rng.integers(0, ACTIVITIES, n)
        t = np.arange(WINDOW, dtype=np.float32) / 50
        freq = 0.5 + 0.35 * self.y[:, None].astype(np.float32)
        wave = np.sin(2 * np.pi * freq * t[None] + rng.random((n, 1), dtype=np.float32) * 6)
        self.wave = wave.astype(np.float16)
        self.gain = rng.normal(size=(n, CHANNELS)).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.gain[i][:, None] * self.wave[i].astype(np.float32)[None]
        x += np.random.normal(scale=0.3, size=x.shape).astype(np.float32)
        if random.random() < 0.3:
            a = random.randrange(WINDOW // 2)
            x[:, a : a + WINDOW // 10] = 0
        return x, self.y[i]


class TemporalBlock(nn.Module):
    def __init__(self, cin, cout, k, dilation, dropout):
        super().__init__()
        self.pad = (k - 1) * dilation
        self.conv1 = nn.Conv1d(cin, cout, k, dilation=dilation)
        self.conv2 = nn.Conv1d(cout, cout, k, dilation=dilation)
        self.norm1, self.norm2 = nn.GroupNorm(8, cout), nn.GroupNorm(8, cout)
        self.drop = nn.Dropout(dropout)
        self.down = nn.Conv1d(cin, cout, 1) if cin != cout else None

    def forward(self, x):
        h = self.drop(F.gelu(self.norm1(self.conv1(F.pad(x, (self.pad, 0))))))
        h = self.drop(F.gelu(self.norm2(self.conv2(F.pad(h, (self.pad, 0))))))
        return F.relu(h + (x if self.down is None else self.down(x)))


class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(
            *[
                TemporalBlock(CHANNELS if i == 0 else WIDTH, WIDTH, 5, 2**i, 0.1)
                for i in range(LEVELS)
            ]
        )
        self.head = nn.Linear(2 * WIDTH, ACTIVITIES)

    def forward(self, x):
        h = self.blocks(x)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], 1))


def focal_loss(logits, target, gamma=2.0):
    logp = F.log_softmax(logits, dim=1).gather(1, target[:, None]).squeeze(1)
    return (-((1 - logp.exp()) ** gamma) * logp).mean()


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
        self.backup = None

    @torch.no_grad()
    def update(self, model):
        for k, v in model.named_parameters():
            self.shadow[k].lerp_(v, 1 - self.decay)

    @torch.no_grad()
    def apply(self, model):
        self.backup = {k: v.detach().clone() for k, v in model.named_parameters()}
        for k, v in model.named_parameters():
            v.copy_(self.shadow[k])

    @torch.no_grad()
    def restore(self, model):
        for k, v in model.named_parameters():
            v.copy_(self.backup[k])
        self.backup = None


def macro_f1(cm):
    tp = cm.diag().float()
    f1 = 2 * tp / (cm.sum(0) + cm.sum(1)).clamp(min=1)
    return f1.mean().item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    torch.manual_seed(11)
    random.seed(11)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    subjects = list(range(SUBJECTS))
    train = Windows(subjects[:-2], 0)
    valid = Windows(subjects[-2:], 1)
    train_loader = DataLoader(
        train,
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=6,
        pin_memory=True,
        persistent_workers=True,
    )
    valid_loader = DataLoader(valid, BATCH, num_workers=4)

    net = TCN().to(DEVICE)
    fast_net = torch.compile(net)
    ema = EMA(net, 0.99)
    optimizer = torch.optim.Adam(net.parameters(), lr=LR)
    total_steps = EPOCHS * len(train_loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * s / total_steps))
    )
    recent = collections.deque(maxlen=20)
    step = 0
    for epoch in range(EPOCHS):
        net.train()
        for x, y in train_loader:
            x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            logits = fast_net(x)
            loss = focal_loss(logits, y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            ema.update(net)
            recent.append(loss.item())
            step += 1
            if step % 10 == 0:
                LOG.info(
                    "step %d/%d loss %.4f |g| %.3f",
                    step,
                    total_steps,
                    sum(recent) / len(recent),
                    norm.item(),
                )

        ema.apply(net)
        net.eval()
        cm = torch.zeros(ACTIVITIES, ACTIVITIES, dtype=torch.long, device=DEVICE)
        with torch.no_grad():
            for x, y in valid_loader:
                pred = net(x.to(DEVICE)).argmax(1)
                cm.index_put_((y.to(DEVICE), pred), torch.ones_like(pred), accumulate=True)
        ema.restore(net)
        LOG.info(
            "epoch %d macro F1 %.4f accuracy %.4f",
            epoch,
            macro_f1(cm),
            (cm.diag().sum() / cm.sum()).item(),
        )


if __name__ == "__main__":
    main()
