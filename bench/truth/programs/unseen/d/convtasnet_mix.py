"""Two voices out of one: Conv-TasNet, a loss that tries both orders, short pieces to train, whole ones to test."""

import argparse
import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Mixtures(Dataset):
    """Two tones with wandering pitch; lengths differ when no length is given."""

    def __init__(self, count, rate, seconds, seed):
        self.count, self.rate, self.seconds, self.seed = count, rate, seconds, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 7919 + i)
        low, high = self.seconds
        length = int((low + (high - low) * torch.rand((), generator=g).item()) * self.rate)
        t = torch.arange(length) / self.rate
        voices = []
        for base in (110.0, 290.0):
            pitch = base * (1 + 0.2 * torch.rand((), generator=g))
            wobble = torch.sin(6.2832 * 3 * t + 6.2832 * torch.rand((), generator=g))
            voices.append(
                torch.sin(6.2832 * pitch * t + wobble) + 0.05 * torch.randn(length, generator=g)
            )
        voices = torch.stack(voices)
        return voices.sum(0), voices


class Unit(nn.Module):
    def __init__(self, channels, hidden, dilation):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, hidden, 1),
            nn.PReLU(),
            nn.GroupNorm(1, hidden, eps=1e-8),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden),
            nn.PReLU(),
            nn.GroupNorm(1, hidden, eps=1e-8),
        )
        self.residual, self.skip = nn.Conv1d(hidden, channels, 1), nn.Conv1d(hidden, channels, 1)

    def forward(self, x):
        h = self.body(x)
        return x + self.residual(h), self.skip(h)


class ConvTasNet(nn.Module):
    def __init__(
        self, speakers=2, filters=512, kernel=16, channels=128, hidden=512, units=8, repeats=3
    ):
        super().__init__()
        self.speakers, self.kernel = speakers, kernel
        self.encoder = nn.Conv1d(1, filters, kernel, kernel // 2, bias=False)
        self.enter = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, channels, 1))
        self.units = nn.ModuleList(
            [Unit(channels, hidden, 2**i) for _ in range(repeats) for i in range(units)]
        )
        self.mask = nn.Sequential(
            nn.PReLU(), nn.Conv1d(channels, filters * speakers, 1), nn.Sigmoid()
        )
        self.decoder = nn.ConvTranspose1d(filters, 1, kernel, kernel // 2, bias=False)

    def forward(self, mixture):
        length = mixture.shape[-1]
        rest = (-(length - self.kernel)) % (self.kernel // 2)
        w = F.relu(self.encoder(F.pad(mixture[:, None], (0, rest))))
        x, total = self.enter(w), 0
        for unit in self.units:
            x, skip = unit(x)
            total = total + skip
        masks = self.mask(total).view(len(w), self.speakers, -1, w.shape[-1])
        separated = (masks * w[:, None]).flatten(0, 1)
        return self.decoder(separated).view(len(w), self.speakers, -1)[..., :length]


def si_snr(guess, truth):
    guess, truth = guess - guess.mean(-1, keepdim=True), truth - truth.mean(-1, keepdim=True)
    scale = (guess * truth).sum(-1, keepdim=True) / (truth.square().sum(-1, keepdim=True) + 1e-8)
    target = scale * truth
    ratio = target.square().sum(-1) / ((guess - target).square().sum(-1) + 1e-8)
    return 10 * torch.log10(ratio + 1e-8)


def permutation_loss(guess, truth):
    scores = [
        si_snr(guess[:, list(order)], truth).mean(1)
        for order in itertools.permutations(range(truth.shape[1]))
    ]
    return -torch.stack(scores).max(0).values.mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rate", type=int, default=8000)
    p.add_argument("--train", type=int, default=96)
    p.add_argument("--test", type=int, default=12)
    p.add_argument("--seconds", type=float, default=3.0)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--filters", type=int, default=512)
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--units", type=int, default=8)
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(
        Mixtures(a.train, a.rate, (a.seconds, a.seconds), 1), a.batch, shuffle=True, num_workers=2
    )
    test = DataLoader(Mixtures(a.test, a.rate, (a.seconds, a.seconds * 10), 2), 1)
    model = ConvTasNet(filters=a.filters, hidden=a.hidden, units=a.units).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)
    best = float("-inf")
    for epoch in range(a.epochs):
        model.train()
        for mixture, voices in train:
            mixture, voices = mixture.to(device), voices.to(device)
            loss = permutation_loss(model(mixture), voices)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = [
                -permutation_loss(model(mixture.to(device)), voices.to(device)).item()
                for mixture, voices in test
            ]
        score = sum(scores) / len(scores)
        scheduler.step(-score)
        print(f"epoch {epoch}: loss {loss.item():.2f}, SI-SNR {score:.2f} dB")
        if score > best:
            best = score
            torch.save(model.state_dict(), "tasnet.pt")


if __name__ == "__main__":
    main()
