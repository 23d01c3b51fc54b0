"""MusicVAE: bidirectional LSTM encoder, a conductor LSTM and a note decoder LSTM per bar, free bits, teacher forcing; melodies of 16 bars."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

NOTES = 130  # 128 pitches, hold, rest


class Melodies(Dataset):
    """Random walks over the keys."""

    def __init__(self, n, steps, seed):
        g = torch.Generator().manual_seed(seed)
        walk = torch.randint(-3, 4, (n, steps), generator=g).cumsum(1) + 60
        rest = torch.rand(n, steps, generator=g)
        notes = walk.clamp(0, 127)
        notes[rest < 0.3] = 128
        notes[rest > 0.9] = 129
        self.notes = notes

    def __len__(self):
        return len(self.notes)

    def __getitem__(self, i):
        return self.notes[i]


class MusicVAE(nn.Module):
    def __init__(self, bars, per_bar, embed, enc, conductor, dec, latent):
        super().__init__()
        self.bars, self.per_bar = bars, per_bar
        self.embed = nn.Embedding(NOTES + 1, embed)  # the last is the start symbol
        self.encoder = nn.LSTM(embed, enc, 2, batch_first=True, bidirectional=True)
        self.stats = nn.Linear(4 * enc, 2 * latent)
        self.start = nn.Linear(latent, conductor)
        self.conductor = nn.LSTM(latent, conductor, 2, batch_first=True)
        self.to_bar = nn.Linear(conductor, dec)
        self.decoder = nn.LSTM(embed + dec, dec, 2, batch_first=True)
        self.out = nn.Linear(dec, NOTES)

    def encode(self, notes):
        _, (h, _) = self.encoder(self.embed(notes))
        h = h.transpose(0, 1).flatten(1)
        mean, raw = self.stats(h).chunk(2, -1)
        return mean, F.softplus(raw) + 1e-4

    def plan(self, z):
        h0 = torch.tanh(self.start(z)).expand(2, -1, -1).contiguous()
        bars, _ = self.conductor(z.unsqueeze(1).repeat(1, self.bars, 1), (h0, h0.clone()))
        return torch.tanh(self.to_bar(bars))

    def forward(self, notes):
        mean, std = self.encode(notes)
        z = mean + std * torch.randn_like(std)
        bars = self.plan(z).flatten(0, 1)
        pieces = notes.view(-1, self.per_bar)
        before = F.pad(pieces[:, :-1], (1, 0), value=NOTES)
        x = torch.cat([self.embed(before), bars.unsqueeze(1).expand(-1, self.per_bar, -1)], -1)
        h, _ = self.decoder(x)
        return self.out(h).view(*notes.shape, NOTES), mean, std

    @torch.no_grad()
    def sample(self, z, temperature=0.9):
        bars = self.plan(z).flatten(0, 1)
        note = torch.full((len(bars), 1), NOTES, device=z.device)
        state, played = None, []
        for _ in range(self.per_bar):
            x = torch.cat([self.embed(note), bars.unsqueeze(1)], -1)
            h, state = self.decoder(x, state)
            probs = F.softmax(self.out(h[:, 0]) / temperature, -1)
            note = torch.multinomial(probs, 1)
            played.append(note)
        return torch.cat(played, 1).view(len(z), -1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--bars", type=int, default=16)
    p.add_argument("--per-bar", type=int, default=16)
    p.add_argument("--batch", type=int, default=192)
    p.add_argument("--melodies", type=int, default=2500)
    p.add_argument("--encoder", type=int, default=1024)
    p.add_argument("--decoder", type=int, default=1024)
    p.add_argument("--latent", type=int, default=384)
    p.add_argument("--free", type=float, default=48.0)
    a = p.parse_args()
    torch.manual_seed(88)

    model = MusicVAE(a.bars, a.per_bar, 256, a.encoder, 512, a.decoder, a.latent).to(a.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    steps = a.bars * a.per_bar
    train = DataLoader(Melodies(a.melodies, steps, 1), a.batch, shuffle=True)
    test = DataLoader(Melodies(a.melodies // 5, steps, 2), 2 * a.batch)
    for i, notes in enumerate(train):
        notes = notes.to(a.device)
        logits, mean, std = model(notes)
        nll = F.cross_entropy(logits.flatten(0, 1), notes.flatten())
        kl = 0.5 * (mean.square() + std.square() - 1 - 2 * std.log()).sum(1).mean()
        loss = nll * steps + 0.2 * torch.clamp(kl - a.free, min=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
        if i % 4 == 0:
            print(f"{i} nll {nll.item():.3f} kl {kl.item():.2f}")

    model.eval()
    right = count = 0
    with torch.no_grad():
        for notes in test:
            notes = notes.to(a.device)
            logits, _, _ = model(notes)
            right += (logits.argmax(-1) == notes).sum().item()
            count += notes.numel()
    print(f"teacher-forced accuracy {right / count:.3f}")
    tunes = model.sample(torch.randn(8, a.latent, device=a.device))
    print("a tune:", tunes[0, :32].tolist())


if __name__ == "__main__":
    main()
