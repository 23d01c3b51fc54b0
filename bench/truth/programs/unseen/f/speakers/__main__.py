import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from .network import AngularMargin, Ecapa
from .settings import Settings


class Voices(Dataset):
    def __init__(self, s, count, frames):
        self.s, self.count, self.frames = s, count, frames

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        who = i * 31 % self.s.speakers
        x = torch.randn(self.s.mels, self.frames, generator=g)
        x[who % self.s.mels] += 1
        return x, who


class RandomCrop:
    """All clips of a batch are cut to one length, drawn for each batch."""

    def __init__(self, lengths, seed):
        self.lengths, self.rng = lengths, random.Random(seed)

    def __call__(self, rows):
        length = self.rng.choice(self.lengths)
        start = self.rng.randrange(max(self.lengths) - length + 1)
        x = torch.stack([r[0][:, start : start + length] for r in rows])
        return x - x.mean(-1, keepdim=True), torch.tensor([r[1] for r in rows])


@torch.no_grad()
def trials(model, s, device):
    """Equal error rate over all pairs of long clips."""
    model.eval()
    data = Voices(s, s.trial_voices, s.trial_frames)
    x = torch.stack([data[i][0] for i in range(len(data))]).to(device)
    who = torch.tensor([i % (s.trial_voices // 2) for i in range(len(data))], device=device)
    e = F.normalize(model(x), dim=-1)
    score, same = (e @ e.T).flatten(), (who[:, None] == who[None]).flatten()
    order = score.argsort(descending=True)
    hits, misses = same[order].cumsum(0), (~same[order]).cumsum(0)
    reject, accept = 1 - hits / same.sum(), misses / (~same).sum()
    at = (reject - accept).abs().argmin()
    return ((reject[at] + accept[at]) / 2).item()


def main():
    s = Settings()
    torch.manual_seed(s.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, head = Ecapa(s).to(device), AngularMargin(s).to(device)
    groups = [
        {"params": model.parameters(), "weight_decay": 2e-5},
        {"params": head.parameters(), "weight_decay": 2e-4},
    ]
    optimizer = torch.optim.Adam(groups, lr=s.lr)
    schedule = torch.optim.lr_scheduler.CyclicLR(
        optimizer, 1e-8, s.lr, s.steps // 4, mode="triangular2", cycle_momentum=False
    )
    scaler = torch.amp.GradScaler(device.type)
    voices = Voices(s, s.batch * s.steps, max(s.frames))
    loader = DataLoader(
        voices,
        s.batch,
        shuffle=True,
        num_workers=s.workers,
        collate_fn=RandomCrop(s.frames, s.seed),
        drop_last=True,
    )
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        with torch.autocast(device.type, dtype=torch.float16):
            loss = head(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        if step % 15 == 0:
            print(f"{step}: loss {loss.item():.3f}, frames {x.shape[-1]}")
    torch.save({"model": model.state_dict(), "head": head.state_dict()}, "speakers.pt")
    del head, optimizer, loss
    print(f"equal error rate {trials(model, s, device):.3f}")


main()
