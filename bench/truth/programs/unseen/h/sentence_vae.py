"""GRU sentence VAE with KL annealing and word dropout; batches padded to their longest sentence."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

PAD, BOS, EOS, UNK = 0, 1, 2, 3


def corpus(n, vocab, longest):
    rng = random.Random(0)
    return [
        torch.tensor(
            [rng.randrange(4, vocab) for _ in range(min(longest, max(4, int(rng.gauss(26, 11)))))]
        )
        for _ in range(n)
    ]


def collate(batch):
    batch = sorted(batch, key=len, reverse=True)
    lengths = torch.tensor([len(s) for s in batch])
    enc = pad_sequence(batch, batch_first=True, padding_value=PAD)
    dec_in = pad_sequence(
        [torch.cat([torch.tensor([BOS]), s]) for s in batch], batch_first=True, padding_value=PAD
    )
    dec_out = pad_sequence(
        [torch.cat([s, torch.tensor([EOS])]) for s in batch], batch_first=True, padding_value=PAD
    )
    return enc, lengths, dec_in, dec_out


class SentenceVAE(nn.Module):
    def __init__(self, vocab, emb=300, hid=512, z=64):
        super().__init__()
        self.z = z
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.enc = nn.GRU(emb, hid, batch_first=True, bidirectional=True)
        self.mu, self.logvar = nn.Linear(2 * hid, z), nn.Linear(2 * hid, z)
        self.start = nn.Linear(z, hid)
        self.dec = nn.GRU(emb + z, hid, batch_first=True)
        self.out = nn.Linear(hid, vocab)

    def encode(self, x, lengths):
        _, h = self.enc(pack_padded_sequence(self.emb(x), lengths, batch_first=True))
        h = torch.cat([h[0], h[1]], -1)
        return self.mu(h), self.logvar(h)

    def decode(self, z, tokens, h=None):
        if h is None:
            h = torch.tanh(self.start(z))[None]
        e = torch.cat([self.emb(tokens), z[:, None].expand(-1, tokens.shape[1], -1)], -1)
        o, h = self.dec(e, h)
        return self.out(o), h

    def forward(self, enc, lengths, dec_in):
        mu, logvar = self.encode(enc, lengths)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        logits, _ = self.decode(z, dec_in)
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        return logits, kl

    @torch.no_grad()
    def sample(self, n, steps, device):
        z = torch.randn(n, self.z, device=device)
        tok, h, words = torch.full((n, 1), BOS, device=device), None, []
        for _ in range(steps):
            logits, h = self.decode(z, tok, h)
            tok = torch.multinomial(F.softmax(logits[:, -1] / 0.8, -1), 1)
            words.append(tok)
        return torch.cat(words, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vocab", type=int, default=18000)
    ap.add_argument("--sentences", type=int, default=6000)
    ap.add_argument("--batch", type=int, default=160)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--word-drop", type=float, default=0.3)
    ap.add_argument("--device", default="cuda")
    args = ap.parse_args()
    torch.manual_seed(0)
    text = corpus(args.sentences, args.vocab, 64)
    cut = len(text) * 9 // 10
    train = DataLoader(text[:cut], args.batch, shuffle=True, collate_fn=collate)
    val = DataLoader(text[cut:], args.batch // 2, collate_fn=collate)
    model = SentenceVAE(args.vocab).to(args.device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    total, step = args.epochs * len(train), 0
    for epoch in range(args.epochs):
        model.train()
        for enc, lengths, dec_in, dec_out in train:
            dec_in = torch.where(
                (torch.rand(dec_in.shape) < args.word_drop) & (dec_in > 3), UNK, dec_in
            )
            enc, dec_in, dec_out = (
                enc.to(args.device),
                dec_in.to(args.device),
                dec_out.to(args.device),
            )
            logits, kl = model(enc, lengths, dec_in)
            rec = F.cross_entropy(logits.flatten(0, 1), dec_out.flatten(), ignore_index=PAD)
            beta = min(1.0, 2 * step / total)
            loss = rec + beta * kl / lengths.float().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            step += 1
            if step % 10 == 0:
                print(
                    f"step {step}/{total} rec {rec.item():.3f} kl {kl.item():.3f} beta {beta:.2f}"
                )
        model.eval()
        nll = words = 0
        with torch.no_grad():
            for enc, lengths, dec_in, dec_out in val:
                logits, _ = model(enc.to(args.device), lengths, dec_in.to(args.device))
                nll += F.cross_entropy(
                    logits.flatten(0, 1),
                    dec_out.flatten().to(args.device),
                    ignore_index=PAD,
                    reduction="sum",
                ).item()
                words += (dec_out != PAD).sum().item()
        print(f"epoch {epoch} nll per word {nll / words:.3f}")
        print(model.sample(3, 12, args.device).tolist())
    torch.save(model.state_dict(), "sentence_vae.pt")


if __name__ == "__main__":
    main()
