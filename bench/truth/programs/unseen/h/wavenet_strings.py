"""WaveNet on mu-law string recordings, conditioned on the instrument; short samples at the end."""

import math

import torch
import torch.nn.functional as F
from torch import nn

CROP, BATCH, STEPS = 16_000, 8, 30
RES, SKIP, LAYERS, STACKS, LEVELS, PLAYERS = 64, 256, 10, 2, 256, 12
EVAL_EVERY = 15
device = torch.device("cuda")
torch.manual_seed(555)


def mu_law(x, mu=LEVELS - 1):
    y = torch.sign(x) * torch.log1p(mu * x.abs()) / math.log1p(mu)
    return ((y + 1) / 2 * mu + 0.5).long().clamp(0, mu)


def un_mu_law(q, mu=LEVELS - 1):
    y = 2 * q.float() / mu - 1
    return torch.sign(y) * (torch.exp(y.abs() * math.log1p(mu)) - 1) / mu


def strings(batch, length):
    t = torch.arange(length) / 16000
    player = torch.randint(0, PLAYERS, (batch,))
    f0 = 196 * 2 ** (player.float() / 12)
    wave = sum(torch.sin(2 * math.pi * f0[:, None] * h * t) / h for h in range(1, 6))
    return mu_law(0.3 * wave + 0.01 * torch.randn(batch, length)), player


class Layer(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.pad = dilation
        self.conv = nn.Conv1d(RES, 2 * RES, 2, dilation=dilation)
        self.cond = nn.Linear(32, 2 * RES)
        self.res, self.skip = nn.Conv1d(RES, RES, 1), nn.Conv1d(RES, SKIP, 1)

    def forward(self, x, c):
        h = self.conv(F.pad(x, (self.pad, 0))) + self.cond(c)[..., None]
        a, b = h.chunk(2, 1)
        h = torch.tanh(a) * torch.sigmoid(b)
        return x + self.res(h), self.skip(h)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.player = nn.Embedding(LEVELS, RES), nn.Embedding(PLAYERS, 32)
        self.layers = nn.ModuleList(Layer(2 ** (i % LAYERS)) for i in range(LAYERS * STACKS))
        self.post = nn.Sequential(
            nn.ReLU(), nn.Conv1d(SKIP, SKIP, 1), nn.ReLU(), nn.Conv1d(SKIP, LEVELS, 1)
        )
        self.field = STACKS * 2**LAYERS

    def forward(self, tokens, player):
        x, c = self.emb(tokens).transpose(1, 2), self.player(player)
        total = 0
        for layer in self.layers:
            x, s = layer(x, c)
            total = total + s
        return self.post(total / math.sqrt(len(self.layers)))

    @torch.no_grad()
    def sample(self, player, length):
        out = torch.full((len(player), 1), LEVELS // 2, device=player.device)
        for _ in range(length):
            logits = self(out[:, -self.field :], player)[..., -1]
            out = torch.cat([out, torch.multinomial(logits.softmax(-1), 1)], 1)
        return out[:, 1:]


def main():
    net = WaveNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=10)
    print("parameters", sum(p.numel() for p in net.parameters()), "receptive field", net.field)
    for step in range(1, STEPS + 1):
        q, player = strings(BATCH, CROP + 1)
        q, player = q.to(device), player.to(device)
        logits = net(q[:, :-1], player)
        loss = F.cross_entropy(logits, q[:, 1:])
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 5 == 0:
            print(
                f"step {step} loss {loss.item():.3f} ({loss.item() / math.log(2):.2f} bits) grad {norm.item():.2f}"
            )
        if step % EVAL_EVERY == 0:
            net.eval()
            with torch.no_grad():
                q, player = strings(4, 2 * CROP + 1)
                q, player = q.to(device), player.to(device)
                v = F.cross_entropy(net(q[:, :-1], player), q[:, 1:])
            print(f"   held-out {v.item():.3f}")
            net.train()
    net.eval()
    wave = un_mu_law(net.sample(torch.arange(PLAYERS, device=device), 150))
    torch.save({"net": net.state_dict(), "wave": wave.cpu()}, "wavenet.pt")


if __name__ == "__main__":
    main()
