"""LSTM autoencoder over server telemetry; windows with a high reconstruction error are anomalies."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CHANNELS = 38
WINDOW = 180
STRIDE = 20
BATCH = 512
HIDDEN, LATENT, LAYERS = 320, 48, 2
EPOCHS = 2
LR = 2e-3
POINTS = 200_000
device = "cuda" if torch.cuda.is_available() else "cpu"


def telemetry(n, anomalies=0, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n)[:, None]
    x = np.sin(t / rng.uniform(20, 400, CHANNELS) + rng.uniform(0, 6, CHANNELS))
    x = (x + 0.1 * rng.standard_normal((n, CHANNELS))).astype(np.float32)
    flag = np.zeros(n, dtype=bool)
    for start in rng.integers(0, n - 100, anomalies):
        x[start : start + 60, rng.integers(0, CHANNELS, 6)] += 3
        flag[start : start + 60] = True
    return x, flag


class Windows(Dataset):
    def __init__(self, series):
        self.series = torch.from_numpy(series)
        self.starts = range(0, len(series) - WINDOW, STRIDE)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        return self.series[s : s + WINDOW]


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(CHANNELS, HIDDEN, LAYERS, batch_first=True, dropout=0.1)
        self.squeeze = nn.Linear(HIDDEN, LATENT)
        self.expand = nn.Linear(LATENT, HIDDEN)
        self.decoder = nn.LSTM(HIDDEN, HIDDEN, LAYERS, batch_first=True, dropout=0.1)
        self.head = nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, CHANNELS))

    def forward(self, x):
        _, (h, _) = self.encoder(x)
        z = torch.tanh(self.squeeze(h[-1]))
        seq = self.expand(z)[:, None, :].repeat(1, x.shape[1], 1)
        out, _ = self.decoder(seq)
        return self.head(out)


@torch.no_grad()
def errors(model, loader):
    model.eval()
    out = []
    for x in loader:
        x = x.to(device)
        out.append((model(x) - x).pow(2).mean((1, 2)))
    return torch.cat(out)


def main():
    normal, _ = telemetry(POINTS, seed=1)
    test, flags = telemetry(POINTS // 3, anomalies=25, seed=2)
    train_loader = DataLoader(Windows(normal), BATCH, shuffle=True)
    score_loader = DataLoader(Windows(normal), 2 * BATCH)
    test_loader = DataLoader(Windows(test), 2 * BATCH)

    model = Autoencoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * len(train_loader))
    loss_fn = nn.MSELoss()
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for i, x in enumerate(train_loader):
            x = x.to(device)
            loss = loss_fn(model(x), x)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item()
            if i % 10 == 0:
                print(f"epoch {epoch} batch {i}/{len(train_loader)} mse {loss.item():.4f}")
        print(f"epoch {epoch} mean mse {running / len(train_loader):.4f}")

    threshold = torch.quantile(errors(model, score_loader), 0.995)
    score = errors(model, test_loader)
    truth = torch.tensor(
        [flags[s : s + WINDOW].any() for s in test_loader.dataset.starts], device=device
    )
    hit = score > threshold
    precision = (hit & truth).sum() / hit.sum().clamp(min=1)
    recall = (hit & truth).sum() / truth.sum().clamp(min=1)
    print(
        f"threshold {threshold.item():.4f} precision {precision.item():.3f} recall {recall.item():.3f}"
    )
    torch.save({"model": model.state_dict(), "threshold": threshold.item()}, "telemetry_ae.pt")


if __name__ == "__main__":
    main()
