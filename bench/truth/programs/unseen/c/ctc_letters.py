"""Speech to letters with CTC: ragged utterances, convolutions, a packed BiLSTM, greedy decoding and error rate."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

LETTERS = "_abcdefghijklmnopqrstuvwxyz' "


class Utterances(Dataset):
    def __init__(self, n, seed, longest, mels=80):
        g = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(longest // 4, longest + 1, (n,), generator=g).tolist()
        self.seed, self.mels = seed, mels

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_003 + i)
        frames = self.lengths[i]
        text = torch.randint(1, len(LETTERS), (max(2, frames // 12),), generator=g)
        sound = torch.randn(frames, self.mels, generator=g) * 0.3
        spread = text.repeat_interleave(12)[:frames]
        sound[: len(spread), 0] += spread.float() / 10
        return sound, text


def collate(batch):
    batch.sort(key=lambda pair: -len(pair[0]))
    sounds, texts = zip(*batch, strict=True)
    return (
        pad_sequence(sounds, batch_first=True),
        torch.tensor([len(s) for s in sounds]),
        torch.cat(texts),
        torch.tensor([len(t) for t in texts]),
    )


class Listener(nn.Module):
    def __init__(self, mels, width, layers):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 32, (11, 21), stride=(2, 2), padding=(5, 10)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (11, 11), stride=(1, 2), padding=(5, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )
        self.rnn = nn.LSTM(
            32 * (mels // 4),
            width,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=0.1,
        )
        self.head = nn.Sequential(nn.LayerNorm(2 * width), nn.Linear(2 * width, len(LETTERS)))

    def forward(self, x, lengths):
        y = self.front(x[:, None]).permute(0, 2, 1, 3).flatten(2)
        lengths = (lengths + 1) // 2
        packed = pack_padded_sequence(y, lengths, batch_first=True)
        y, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(y).log_softmax(-1), lengths


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def greedy(logs, lengths):
    out = []
    for path, n in zip(logs.argmax(-1).cpu().tolist(), lengths.tolist(), strict=True):
        path = path[:n]
        out.append([c for k, c in enumerate(path) if c and (k == 0 or path[k - 1] != c)])
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--count", type=int, default=480)
    p.add_argument("--longest", type=int, default=1200)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--width", type=int, default=640)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--workers", type=int, default=2)
    a = p.parse_args()
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(
        Utterances(a.count, 1, a.longest),
        a.batch,
        shuffle=True,
        collate_fn=collate,
        num_workers=a.workers,
    )
    dev = DataLoader(Utterances(a.count // 8, 2, a.longest), a.batch, collate_fn=collate)
    model = Listener(80, a.width, a.layers).to(device)
    ctc = nn.CTCLoss(zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 1e-3, total_steps=a.epochs * len(train)
    )
    for epoch in range(a.epochs):
        model.train()
        total = 0.0
        for sound, lengths, text, sizes in train:
            logs, frames = model(sound.to(device), lengths)
            loss = ctc(logs.transpose(0, 1), text.to(device), frames, sizes)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        model.eval()
        wrong = letters = 0
        with torch.no_grad():
            for sound, lengths, text, sizes in dev:
                logs, frames = model(sound.to(device), lengths)
                truths = text.split(sizes.tolist())
                for guess, truth in zip(greedy(logs, frames), truths, strict=True):
                    wrong += distance(guess[:200], truth.tolist())
                    letters += len(truth)
        print(f"epoch {epoch}: loss {total / len(train):.3f}, letter errors {wrong / letters:.3f}")
    torch.save(model.state_dict(), "listener.pt")


if __name__ == "__main__":
    main()
