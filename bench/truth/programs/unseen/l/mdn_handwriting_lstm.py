"""Online handwriting: three stacked LSTMs with skip connections and a mixture density head (bivariate Gaussians plus pen lift); writes a few strokes at the end."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class HP:
    hidden: int = 900
    mixtures: int = 20
    writers: int = 50
    length: int = 700
    batch: int = 64
    n_train: int = 64 * 20
    n_valid: int = 128
    epochs: int = 2
    lr: float = 1e-4
    clip: float = 10.0
    sample_len: int = 250
    betas: tuple = field(default=(0.9, 0.98))


class Strokes(Dataset):
    """(dx, dy, pen) of looping curves; each writer has a slant and a speed."""

    def __init__(self, n: int, hp: HP, seed: int):
        rng = np.random.default_rng(seed)
        self.who = rng.integers(0, hp.writers, n)
        t = np.arange(hp.length + 1)[None] * (0.15 + 0.002 * self.who[:, None])
        dx = np.cos(t) + 0.3 + 0.1 * rng.standard_normal(t.shape)
        dy = np.sin(t * 1.1) + 0.1 * rng.standard_normal(t.shape)
        pen = rng.random(t.shape) < 0.04
        self.xy = np.stack([dx, dy, pen], -1).astype(np.float32)

    def __len__(self):
        return len(self.who)

    def __getitem__(self, i):
        return torch.from_numpy(self.xy[i]), int(self.who[i])


class Writer(nn.Module):
    def __init__(self, hp: HP):
        super().__init__()
        self.hp = hp
        self.style = nn.Embedding(hp.writers, 64)
        first = 3 + 64
        self.rnn = nn.ModuleList(
            nn.LSTM(first + (hp.hidden if i else 0), hp.hidden, batch_first=True) for i in range(3)
        )
        self.head = nn.Linear(3 * hp.hidden, 6 * hp.mixtures + 1)

    def forward(self, x: Tensor, who: Tensor, state=None):
        style = self.style(who).unsqueeze(1).expand(-1, x.shape[1], -1)
        inp = torch.cat([x, style], -1)
        hs, new, below = [], [], None
        for i, rnn in enumerate(self.rnn):
            h, s = rnn(
                inp if below is None else torch.cat([inp, below], -1),
                None if state is None else state[i],
            )
            hs.append(h)
            new.append(s)
            below = h
        return self.head(torch.cat(hs, -1)), new

    def split(self, y: Tensor):
        end, rest = y[..., 0], y[..., 1:]
        pi, mx, my, sx, sy, rho = rest.chunk(6, -1)
        return (
            end,
            pi.log_softmax(-1),
            mx,
            my,
            sx.clamp(-5, 5).exp(),
            sy.clamp(-5, 5).exp(),
            rho.tanh() * 0.95,
        )


def mdn_loss(model: Writer, y: Tensor, target: Tensor) -> Tensor:
    end, logpi, mx, my, sx, sy, rho = model.split(y)
    dx, dy = (target[..., 0:1] - mx) / sx, (target[..., 1:2] - my) / sy
    one = 1 - rho**2
    z = dx**2 + dy**2 - 2 * rho * dx * dy
    logn = -z / (2 * one) - torch.log(2 * torch.pi * sx * sy * one.sqrt())
    return -torch.logsumexp(
        logpi + logn, -1
    ).mean() + nn.functional.binary_cross_entropy_with_logits(end, target[..., 2])


@torch.no_grad()
def write(model: Writer, who: Tensor, steps: int) -> Tensor:
    x = torch.zeros(len(who), 1, 3, device=who.device)
    state, path = None, []
    for _ in range(steps):
        y, state = model(x, who, state)
        end, logpi, mx, my, sx, sy, rho = (v[:, 0] for v in model.split(y))
        k = torch.distributions.Categorical(logits=logpi).sample().unsqueeze(-1)
        pick = lambda v, k=k: v.gather(-1, k).squeeze(-1)
        a, b = torch.randn(2, len(who), device=who.device)
        r = pick(rho)
        nx = pick(mx) + pick(sx) * a
        ny = pick(my) + pick(sy) * (r * a + (1 - r**2).sqrt() * b)
        x = torch.stack([nx, ny, torch.bernoulli(end.sigmoid())], -1).unsqueeze(1)
        path.append(x)
    return torch.cat(path, 1)


def main(hp: HP = HP()):
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Strokes(hp.n_train, hp, 1), hp.batch, shuffle=True, drop_last=True)
    valid = DataLoader(Strokes(hp.n_valid, hp, 2), hp.batch)
    model = Writer(hp).to(device)
    opt = torch.optim.RMSprop(
        model.parameters(), lr=hp.lr, alpha=0.95, momentum=0.9, eps=1e-4, centered=True
    )
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    best = None
    for epoch in range(hp.epochs):
        model.train()
        for i, (xy, who) in enumerate(train):
            xy, who = xy.to(device), who.to(device)
            y, _ = model(xy[:, :-1], who)
            loss = mdn_loss(model, y, xy[:, 1:])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), hp.clip)
            opt.step()
            if i % 10 == 0:
                print(f"epoch {epoch} [{i}] nll {loss.item():.3f}")
        model.eval()
        with torch.no_grad():
            score = np.mean(
                [
                    mdn_loss(
                        model, model(xy.to(device)[:, :-1], who.to(device))[0], xy.to(device)[:, 1:]
                    ).item()
                    for xy, who in valid
                ]
            )
        plateau.step(score)
        print(f"epoch {epoch} valid nll {score:.3f} lr {opt.param_groups[0]['lr']:.1e}")
        best = score if best is None else min(best, score)
    path = write(model, torch.arange(8, device=device), hp.sample_len)
    print("wrote", tuple(path.shape), "best", best)


if __name__ == "__main__":
    main()
