"""Phrases of sound of uneven length: a bucketing batch sampler, padding in the collate function, workers."""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

MELS, CLASSES = 80, 35
CLIPS, EPOCHS = 900, 2
SHORTEST, LONGEST = 120, 1600
FRAMES_PER_BATCH = 26000
WIDTH, HEADS, LAYERS = 384, 6, 12


class Clips(Dataset):
    def __init__(self, count, seed=0):
        rng = random.Random(seed)
        self.lengths = [int(rng.triangular(SHORTEST, LONGEST, 500)) for _ in range(count)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % CLASSES
        x = torch.randn(self.lengths[i], MELS, generator=g)
        x[:, label % MELS] += 2
        return x, label


class BucketSampler(Sampler):
    """Clips of about the same length together; a batch holds so many frames, padding included."""

    def __init__(self, lengths, frames, seed=0):
        self.frames, self.seed = frames, seed
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batches, batch = [], []
        for i in order:
            if batch and lengths[i] * (len(batch) + 1) > frames:
                self.batches.append(batch)
                batch = []
            batch.append(i)
        self.batches.append(batch)

    def __iter__(self):
        rng = random.Random(self.seed)
        self.seed += 1
        yield from rng.sample(self.batches, len(self.batches))

    def __len__(self):
        return len(self.batches)


def collate(rows):
    lengths = torch.tensor([len(x) for x, _ in rows])
    padded = nn.utils.rnn.pad_sequence([x for x, _ in rows], batch_first=True)
    return padded, lengths, torch.tensor([y for _, y in rows])


class ConvModule(nn.Module):
    def __init__(self, width, kernel=31):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.back = nn.Conv1d(width, width, 1)

    def forward(self, x, pad):
        x = self.norm(x).masked_fill(pad[..., None], 0).transpose(1, 2)
        x = F.glu(self.expand(x), dim=1)
        return self.back(F.silu(self.batch_norm(self.depth(x)))).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()

        def feed():
            return nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.SiLU(),
                nn.Dropout(0.1),
                nn.Linear(4 * width, width),
                nn.Dropout(0.1),
            )

        self.first, self.second = feed(), feed()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, 0.1, batch_first=True)
        self.conv = ConvModule(width)
        self.last = nn.LayerNorm(width)

    def forward(self, x, pad):
        x = x + 0.5 * self.first(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, key_padding_mask=pad, need_weights=False)[0]
        x = x + self.conv(x, pad)
        return self.last(x + 0.5 * self.second(x))


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU()
        )
        self.project = nn.Linear(64 * (MELS // 4), WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH, HEADS) for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, lengths):
        x = self.front(x.unsqueeze(1)).transpose(1, 2).flatten(2)
        x = self.project(x)
        lengths = (lengths + 3) // 4
        pad = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        for block in self.blocks:
            x = block(x, pad)
        x = x.masked_fill(pad[..., None], 0).sum(1) / lengths[:, None]
        return self.head(x)


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Clips(CLIPS)
    sampler = BucketSampler(data.lengths, FRAMES_PER_BATCH)
    loader = DataLoader(
        data, batch_sampler=sampler, collate_fn=collate, num_workers=4, pin_memory=True
    )
    model = Conformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.98))
    for epoch in range(EPOCHS):
        correct = total = 0
        for x, lengths, y in loader:
            x = x.to(device, non_blocking=True)
            lengths, y = lengths.to(device), y.to(device)
            with torch.autocast(device, dtype=torch.bfloat16):
                logits = model(x, lengths)
            loss = F.cross_entropy(logits.float(), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            correct += (logits.argmax(-1) == y).sum().item()
            total += len(y)
        print(f"epoch {epoch}: {correct / total:.3f} of {total} in {len(sampler)} batches")


if __name__ == "__main__":
    main()
