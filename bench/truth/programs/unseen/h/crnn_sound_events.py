"""Sound event detection: log-mel CRNN with SpecAugment, strong labels per frame, bf16."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, N_FFT, HOP, MELS = 16000, 1024, 320, 64


def mel_filters(n_mels=MELS, n_fft=N_FFT, rate=RATE):
    def to_mel(f):
        return 2595 * math.log10(1 + f / 700)

    points = torch.linspace(to_mel(50), to_mel(rate / 2), n_mels + 2)
    hz = 700 * (10 ** (points / 2595) - 1)
    bins = torch.linspace(0, rate / 2, n_fft // 2 + 1)
    up = (bins[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - bins[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class Clips(Dataset):
    def __init__(self, n, seconds, events):
        self.n, self.samples, self.events = n, int(seconds * RATE), events
        self.frames = self.samples // HOP // 4

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        wave = 0.05 * torch.randn(self.samples)
        target = torch.zeros(self.frames, self.events)
        for _ in range(3):
            e = int(torch.randint(0, self.events, ()))
            a = int(torch.randint(0, self.frames - 10, ()))
            b = min(self.frames, a + int(torch.randint(5, 60, ())))
            target[a:b, e] = 1
            s, t = a * HOP * 4, b * HOP * 4
            wave[s:t] += 0.3 * torch.sin(torch.arange(t - s) * (0.02 + 0.01 * e))
        return wave, target


class FrontEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("fb", mel_filters())
        self.register_buffer("window", torch.hann_window(N_FFT))

    @torch.no_grad()
    def forward(self, wave):
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True).abs().pow(2)
        mel = torch.log(self.fb @ spec + 1e-5)[:, :, :-1]
        mel = (mel - mel.mean((1, 2), keepdim=True)) / (mel.std((1, 2), keepdim=True) + 1e-5)
        if self.training:
            f = int(torch.randint(0, MELS - 8, ()))
            t = int(torch.randint(0, mel.shape[2] - 30, ()))
            mel[:, f : f + 8] = 0
            mel[:, :, t : t + 30] = 0
        return mel.transpose(1, 2)[:, None]


class CRNN(nn.Module):
    def __init__(self, events, width=64, hidden=256):
        super().__init__()

        def block(a, b, pool):
            return nn.Sequential(
                nn.Conv2d(a, b, 3, padding=1),
                nn.BatchNorm2d(b),
                nn.GELU(),
                nn.Conv2d(b, b, 3, padding=1),
                nn.BatchNorm2d(b),
                nn.GELU(),
                nn.AvgPool2d(pool),
            )

        self.front = FrontEnd()
        self.cnn = nn.Sequential(
            block(1, width, (2, 2)),
            block(width, 2 * width, (2, 4)),
            block(2 * width, 4 * width, (1, 4)),
            nn.Dropout(0.2),
        )
        self.rnn = nn.GRU(
            4 * width * 2, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2
        )
        self.out = nn.Linear(2 * hidden, events)

    def forward(self, wave):
        with torch.autocast("cuda", enabled=False):
            mel = self.front(wave)
        h = self.cnn(mel).permute(0, 2, 1, 3).flatten(2)
        return self.out(self.rnn(h)[0])


def f1(pred, true):
    tp = (pred & true).sum(0).float()
    return (2 * tp / (pred.sum(0) + true.sum(0)).clamp(min=1)).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--clips", type=int, default=600)
    ap.add_argument("--seconds", type=float, default=10.0)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--events", type=int, default=10)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(1)
    device = "cuda"
    train = DataLoader(
        Clips(args.clips, args.seconds, args.events),
        args.batch,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=True,
    )
    val = DataLoader(
        Clips(args.clips // 5, args.seconds, args.events), 40, num_workers=args.workers
    )
    model = CRNN(args.events).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, 3e-3, epochs=args.epochs, steps_per_epoch=len(train)
    )
    for epoch in range(args.epochs):
        model.train()
        for i, (wave, target) in enumerate(train):
            wave, target = wave.to(device, non_blocking=True), target.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(wave)
            loss = F.binary_cross_entropy_with_logits(logits.float(), target)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            if i % 4 == 0:
                print(f"epoch {epoch} {i}/{len(train)} loss {loss.item():.4f}")
        model.eval()
        preds, trues = [], []
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            for wave, target in val:
                preds.append((model(wave.to(device)) > 0).flatten(0, 1).cpu())
                trues.append(target.bool().flatten(0, 1))
        print(f"epoch {epoch} frame F1 {f1(torch.cat(preds), torch.cat(trues)):.3f}")
    torch.save(model.state_dict(), "crnn.pt")


if __name__ == "__main__":
    main()
