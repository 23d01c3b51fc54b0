"""Tacotron-like text to mel frames: convolutional and GRU encoder, location-sensitive attention, two LSTM cells in a Python loop, post-net, guided attention loss."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

MELS = 80
log = logging.getLogger("tacotron")


class Utterances(Dataset):
    def __init__(self, n, text, frames, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            t = int(torch.randint(text // 2, text + 1, (1,), generator=g))
            f = max(4, frames * t // text // 2 * 2)
            self.rows.append(
                (torch.randint(1, 70, (t,), generator=g), torch.randn(f, MELS, generator=g))
            )

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    rows = sorted(rows, key=lambda r: -len(r[0]))
    text = pad_sequence([r[0] for r in rows], batch_first=True)
    mel = pad_sequence([r[1] for r in rows], batch_first=True)
    return (
        text,
        torch.tensor([len(r[0]) for r in rows]),
        mel,
        torch.tensor([len(r[1]) for r in rows]),
    )


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(70, dim, padding_idx=0)
        self.convs = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(dim, dim, 5, padding=2), nn.BatchNorm1d(dim), nn.ReLU(), nn.Dropout(0.5)
            )
            for _ in range(3)
        )
        self.gru = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, text, lengths):
        x = self.embed(text).transpose(1, 2)
        for conv in self.convs:
            x = conv(x)
        packed = nn.utils.rnn.pack_padded_sequence(x.transpose(1, 2), lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0]


class Attention(nn.Module):
    def __init__(self, query, memory, dim=128):
        super().__init__()
        self.q, self.m = nn.Linear(query, dim, bias=False), nn.Linear(memory, dim, bias=False)
        self.loc, self.loc_proj = (
            nn.Conv1d(2, 32, 31, padding=15, bias=False),
            nn.Linear(32, dim, bias=False),
        )
        self.v = nn.Linear(dim, 1)

    def forward(self, query, memory, keys, past, pad):
        where = self.loc_proj(self.loc(past).transpose(1, 2))
        energy = self.v(torch.tanh(self.q(query).unsqueeze(1) + keys + where)).squeeze(-1)
        weight = torch.softmax(energy.masked_fill(pad, -1e4), -1)
        return torch.bmm(weight.unsqueeze(1), memory).squeeze(1), weight


class Decoder(nn.Module):
    def __init__(self, memory, hidden, reduction=2):
        super().__init__()
        self.r, self.hidden = reduction, hidden
        self.prenet = nn.Sequential(
            nn.Linear(MELS, 256),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Dropout(0.5),
        )
        self.rnn1, self.rnn2 = (
            nn.LSTMCell(256 + memory, hidden),
            nn.LSTMCell(hidden + memory, hidden),
        )
        self.attention = Attention(hidden, memory)
        self.frame, self.stop = (
            nn.Linear(hidden + memory, MELS * reduction),
            nn.Linear(hidden + memory, 1),
        )

    def forward(self, memory, pad, mel):
        b, t, _ = memory.shape
        zeros = memory.new_zeros(b, self.hidden)
        s1, s2 = (zeros, zeros), (zeros, zeros)
        context, weight, total = (
            memory.new_zeros(b, memory.shape[2]),
            memory.new_zeros(b, t),
            memory.new_zeros(b, t),
        )
        keys = self.attention.m(memory)
        inputs = self.prenet(F.pad(mel[:, self.r - 1 :: self.r], (0, 0, 1, 0))[:, :-1])
        frames, stops, weights = [], [], []
        for x in inputs.unbind(1):
            s1 = self.rnn1(torch.cat([x, context], 1), s1)
            context, weight = self.attention(
                s1[0], memory, keys, torch.stack([weight, total], 1), pad
            )
            total = total + weight
            s2 = self.rnn2(torch.cat([s1[0], context], 1), s2)
            both = torch.cat([s2[0], context], 1)
            frames.append(self.frame(both))
            stops.append(self.stop(both))
            weights.append(weight)
        return (
            torch.stack(frames, 1).view(b, -1, MELS),
            torch.cat(stops, 1),
            torch.stack(weights, 1),
        )


class Tacotron(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.encoder, self.decoder = Encoder(dim), Decoder(dim, hidden)
        chain = [MELS, 512, 512, 512, 512, MELS]
        self.postnet = nn.Sequential(
            *[
                nn.Sequential(
                    nn.Conv1d(a, b, 5, padding=2),
                    nn.BatchNorm1d(b),
                    nn.Tanh() if b != MELS else nn.Identity(),
                )
                for a, b in zip(chain, chain[1:])
            ]
        )

    def forward(self, text, lengths, mel):
        coarse, stop, weight = self.decoder(self.encoder(text, lengths), text == 0, mel)
        return coarse, coarse + self.postnet(coarse.transpose(1, 2)).transpose(1, 2), stop, weight


def losses(out, mel, text_len, mel_len, r=2):
    coarse, fine, stop, weight = out
    mask = (torch.arange(mel.shape[1], device=mel.device) < mel_len[:, None]).unsqueeze(-1).float()
    rebuilt = sum((F.l1_loss(y * mask, mel) + F.mse_loss(y * mask, mel)) for y in (coarse, fine))
    ended = (torch.arange(stop.shape[1], device=mel.device) >= (mel_len[:, None] // r - 1)).float()
    n = torch.arange(weight.shape[2], device=mel.device) / text_len[:, None].float()
    t = torch.arange(weight.shape[1], device=mel.device) / (mel_len[:, None].float() / r)
    guide = 1 - torch.exp(-((n[:, None, :] - t[:, :, None]) ** 2) / 0.08)
    return rebuilt, F.binary_cross_entropy_with_logits(stop, ended), (weight * guide).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dim", type=int, default=512)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--text", type=int, default=140)
    p.add_argument("--frames", type=int, default=320)
    p.add_argument("--batch", type=int, default=80)
    p.add_argument("--steps", type=int, default=24)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tacotron(args.dim, args.hidden).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.98)
    loader = DataLoader(
        Utterances(args.batch * args.steps, args.text, args.frames, 1),
        args.batch,
        shuffle=True,
        collate_fn=collate,
    )
    dev = DataLoader(
        Utterances(args.batch, args.text, args.frames, 2), args.batch, collate_fn=collate
    )

    def one(batch):
        text, text_len, mel, mel_len = batch
        text, mel = text.to(device), mel.to(device)
        out = model(text, text_len, mel)
        return losses(out, mel, text_len.to(device), mel_len.to(device))

    for step, batch in enumerate(loader, 1):
        rebuilt, stop, guide = one(batch)
        loss = rebuilt + stop + 10 * guide
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 6 == 0:
            log.info(
                "step %d mel %.3f stop %.3f guide %.4f |g| %.2f",
                step,
                rebuilt.item(),
                stop.item(),
                guide.item(),
                norm.item(),
            )
    model.eval()
    with torch.no_grad():
        log.info(
            "dev %s",
            [round(sum(v) / len(v), 4) for v in zip(*[[x.item() for x in one(b)] for b in dev])],
        )


if __name__ == "__main__":
    main()
