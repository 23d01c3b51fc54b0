"""nn.Transformer that rewrites sentences: label smoothing, the schedule of the paper, greedy decoding word by word."""

import argparse
import math
import random
from dataclasses import dataclass, fields

import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2


@dataclass
class Settings:
    vocab: int = 16000
    dim: int = 512
    heads: int = 8
    layers: int = 6
    batch: int = 96
    longest: int = 96
    pairs: int = 3000
    epochs: int = 2
    warmup: int = 400
    decode: int = 64


def settings():
    p = argparse.ArgumentParser()
    for f in fields(Settings):
        p.add_argument("--" + f.name, type=int, default=f.default)
    return Settings(**vars(p.parse_args()))


class Rewriter(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.words = nn.Embedding(s.vocab, s.dim, padding_idx=PAD)
        place = torch.arange(s.longest + 2)[:, None]
        rate = torch.exp(torch.arange(0, s.dim, 2) * (-math.log(10000.0) / s.dim))
        table = torch.zeros(s.longest + 2, s.dim)
        table[:, 0::2], table[:, 1::2] = (
            torch.sin(place * rate),
            torch.cos(place * rate),
        )
        self.register_buffer("table", table)
        self.body = nn.Transformer(
            s.dim, s.heads, s.layers, s.layers, 4 * s.dim, 0.1, batch_first=True
        )
        self.out = nn.Linear(s.dim, s.vocab, bias=False)
        self.out.weight = self.words.weight
        self.scale = math.sqrt(s.dim)

    def embed(self, ids):
        return self.words(ids) * self.scale + self.table[: ids.size(1)]

    def forward(self, source, target):
        causal = nn.Transformer.generate_square_subsequent_mask(
            target.size(1), device=target.device
        )
        y = self.body(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=(target == PAD).float().masked_fill(target == PAD, -torch.inf),
            memory_key_padding_mask=source == PAD,
        )
        return self.out(y)

    @torch.no_grad()
    def greedy(self, source, most):
        memory = self.body.encoder(self.embed(source), src_key_padding_mask=source == PAD)
        text = torch.full((source.size(0), 1), BOS, device=source.device)
        done = torch.zeros(source.size(0), dtype=torch.bool, device=source.device)
        for _ in range(most):
            mask = nn.Transformer.generate_square_subsequent_mask(
                text.size(1), device=source.device
            )
            y = self.body.decoder(
                self.embed(text),
                memory,
                tgt_mask=mask,
                memory_key_padding_mask=source == PAD,
            )
            word = self.out(y[:, -1]).argmax(-1)
            word = word.masked_fill(done, PAD)
            text = torch.cat([text, word[:, None]], 1)
            done |= word == EOS
            if done.all():
                break
        return text


def corpus(s, rng):
    pairs = []
    for _ in range(s.pairs):
        words = [
            rng.randrange(3, s.vocab) for _ in range(rng.randint(s.longest // 6, s.longest - 1))
        ]
        pairs.append((words, words[::-1]))
    return pairs


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([r + [PAD] * (width - len(r)) for r in rows])


def batches(pairs, size, rng):
    """Neighbours in length share a batch."""
    pairs = sorted(pairs, key=lambda pair: len(pair[0]) + rng.random() * 8)
    chunks = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    rng.shuffle(chunks)
    for chunk in chunks:
        yield padded([a for a, _ in chunk]), padded([[BOS, *b, EOS] for _, b in chunk])


def main():
    s = settings()
    rng = random.Random(3)
    torch.manual_seed(3)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pairs = corpus(s, rng)
    held = pairs[: max(2, s.pairs // 20)]
    model = Rewriter(s).to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    noam = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda n: s.dim**-0.5 * min((n + 1) ** -0.5, (n + 1) * s.warmup**-1.5),
    )
    for epoch in range(s.epochs):
        model.train()
        losses = []
        for source, target in batches(pairs[len(held) :], s.batch, rng):
            source, target = source.to(device), target.to(device)
            logits = model(source, target[:, :-1])
            loss = criterion(logits.flatten(0, 1), target[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            noam.step()
            losses.append(loss.item())
        model.eval()
        source = padded([a for a, _ in held[: s.batch]]).to(device)
        text = model.greedy(source, s.decode)
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.3f}, decoded {tuple(text.shape)}")
    torch.save(model.state_dict(), "rewriter.pt")


if __name__ == "__main__":
    main()
