"""DeepSpeech-2-like recogniser: log-mel spectrograms computed on the GPU, SpecAugment, packed GRUs, CTC, WER."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ALPHABET = "_ abcdefghijklmnopqrstuvwxyz"
CHAR = {c: i for i, c in enumerate(ALPHABET)}


class SpokenDigits(Dataset):
    """Each letter is a little tone; words are separated by silence."""

    def __init__(self, n, rate, max_words, seed):
        rng = random.Random(seed)
        self.rate = rate
        self.texts = [" ".join(rng.choices(DIGITS, k=rng.randint(2, max_words))) for _ in range(n)]
        self.lengths = [len(t) for t in self.texts]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        text = self.texts[i]
        per = int(self.rate * 0.12)
        t = torch.arange(per) / self.rate
        pieces = []
        for c in text:
            k = CHAR[c]
            pieces.append(
                torch.sin(2 * torch.pi * (150 + 110 * k) * t) if k > 1 else torch.zeros(per)
            )
        wave = torch.cat(pieces)
        return wave + 0.05 * torch.randn(len(wave)), torch.tensor([CHAR[c] for c in text]), text


class SortaGrad(Sampler):
    """First epoch by length, later epochs in random bins of similar length."""

    def __init__(self, lengths, batch):
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.bins = [self.order[i : i + batch] for i in range(0, len(self.order), batch)]
        self.epoch = 0

    def __iter__(self):
        bins = list(self.bins)
        if self.epoch:
            random.shuffle(bins)
        return iter(bins)

    def __len__(self):
        return len(self.bins)


def collate(batch):
    waves, labels, texts = zip(*batch)
    return (
        pad_sequence(waves, batch_first=True),
        torch.tensor([len(w) for w in waves]),
        torch.cat(labels),
        torch.tensor([len(l) for l in labels]),
        texts,
    )


def mel_filters(n_mels, n_fft, rate):
    to_mel = lambda f: 2595 * torch.log10(1 + f / 700)
    mels = torch.linspace(0, float(to_mel(torch.tensor(rate / 2))), n_mels + 2)
    hz = 700 * (10 ** (mels / 2595) - 1)
    freqs = torch.linspace(0, rate / 2, n_fft // 2 + 1)
    up = (freqs[:, None] - hz[None, :-2]) / (hz[1:-1] - hz[:-2])
    down = (hz[None, 2:] - freqs[:, None]) / (hz[2:] - hz[1:-1])
    return torch.minimum(up, down).clamp(min=0)


class Features(nn.Module):
    def __init__(self, rate, n_fft=512, hop=160, n_mels=80):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("mel", mel_filters(n_mels, n_fft, rate))

    @torch.no_grad()
    def forward(self, wave, lengths):
        spec = (
            torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
            .abs()
            .pow(2)
        )
        mel = torch.log(spec.transpose(1, 2) @ self.mel + 1e-6)
        mel = (mel - mel.mean((1, 2), keepdim=True)) / (mel.std((1, 2), keepdim=True) + 1e-5)
        if self.training:
            for m in mel:
                f0 = random.randint(0, m.shape[1] - 12)
                m[:, f0 : f0 + random.randint(0, 12)] = 0
                t0 = random.randint(0, max(0, m.shape[0] - 30))
                m[t0 : t0 + random.randint(0, 30)] = 0
        return mel, lengths // self.hop + 1


class BatchRNN(nn.Module):
    def __init__(self, inp, hidden, norm=True):
        super().__init__()
        self.norm = nn.BatchNorm1d(inp) if norm else None
        self.rnn = nn.GRU(inp, hidden, bidirectional=True, batch_first=True)
        self.hidden = hidden

    def forward(self, x, lengths):
        if self.norm is not None:
            x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return out[..., : self.hidden] + out[..., self.hidden :]


class DeepSpeech(nn.Module):
    def __init__(self, n_mels, hidden, layers, classes):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 32, (11, 41), stride=(2, 2), padding=(5, 20)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(32, 32, (11, 21), stride=(1, 2), padding=(5, 10)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
        )
        size = 32 * ((n_mels + 3) // 4)
        self.rnns = nn.ModuleList(
            [BatchRNN(size if i == 0 else hidden, hidden, i > 0) for i in range(layers)]
        )
        self.fc = nn.Sequential(
            nn.LayerNorm(hidden), nn.Dropout(0.1), nn.Linear(hidden, classes, bias=False)
        )

    def forward(self, mel, frames):
        x = self.conv(mel.unsqueeze(1))
        x = x.transpose(1, 2).flatten(2)
        frames = ((frames - 1) // 2 + 1).clamp(max=x.shape[1])
        for rnn in self.rnns:
            x = rnn(x, frames)
        return self.fc(x), frames


def greedy(log_probs, frames):
    out = []
    for ids, n in zip(log_probs.argmax(-1).cpu(), frames.tolist()):
        ids = torch.unique_consecutive(ids[:n])
        out.append("".join(ALPHABET[i] for i in ids.tolist() if i != 0))
    return out


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=int, default=1100)
    parser.add_argument("--dev", type=int, default=200)
    parser.add_argument("--rate", type=int, default=16000)
    parser.add_argument("--max-words", type=int, default=18)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    device = torch.device("cuda")
    random.seed(0)
    torch.manual_seed(0)

    train_set = SpokenDigits(args.train, args.rate, args.max_words, 1)
    dev_set = SpokenDigits(args.dev, args.rate, args.max_words, 2)
    sampler = SortaGrad(train_set.lengths, args.batch)
    train_loader = DataLoader(
        train_set,
        batch_sampler=sampler,
        collate_fn=collate,
        num_workers=args.workers,
        pin_memory=True,
    )
    dev_loader = DataLoader(
        dev_set, batch_size=args.batch * 2, collate_fn=collate, num_workers=args.workers
    )

    features = Features(args.rate).to(device)
    model = DeepSpeech(80, args.hidden, args.layers, len(ALPHABET)).to(device)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-4, steps_per_epoch=len(train_loader), epochs=args.epochs
    )

    for epoch in range(args.epochs):
        sampler.epoch = epoch
        model.train()
        features.train()
        for i, (wave, lengths, labels, label_lengths, _) in enumerate(train_loader):
            mel, frames = features(wave.to(device, non_blocking=True), lengths)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits, frames = model(mel, frames)
            log_probs = F.log_softmax(logits.float(), dim=-1).transpose(0, 1)
            loss = criterion(log_probs, labels.to(device), frames, label_lengths)
            if not torch.isfinite(loss):
                print("WARNING: skipping batch with loss", loss.item())
                optimizer.zero_grad()
                continue
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 400)
            optimizer.step()
            scheduler.step()
            if i % 10 == 0:
                print(
                    f"Epoch: [{epoch + 1}][{i + 1}/{len(train_loader)}]\tLoss {loss.item():.4f}\tframes {mel.shape[1]}"
                )

        model.eval()
        features.eval()
        errors = words = 0
        with torch.no_grad():
            for wave, lengths, labels, label_lengths, texts in dev_loader:
                mel, frames = features(wave.to(device), lengths)
                logits, frames = model(mel, frames)
                for hyp, ref in zip(greedy(logits, frames), texts):
                    errors += edit_distance(hyp.split(), ref.split())
                    words += len(ref.split())
        print(f"dev WER {100 * errors / words:.2f}  (example: '{hyp[:40]}' for '{ref[:40]}')")


if __name__ == "__main__":
    main()
