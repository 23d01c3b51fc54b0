"""LSTM language model with truncated backpropagation, variational dropout and weight tying."""

import argparse
import math
import time

import torch
from torch import nn


class LockedDropout(nn.Module):
    """One mask for all time steps."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        mask = x.new_empty(1, x.size(1), x.size(2)).bernoulli_(1 - self.p) / (1 - self.p)
        return x * mask


class LanguageModel(nn.Module):
    def __init__(self, vocab, embed, hidden, layers, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocab, embed)
        sizes = [embed] + [hidden] * (layers - 1) + [embed]
        self.rnns = nn.ModuleList(nn.LSTM(sizes[i], sizes[i + 1]) for i in range(layers))
        self.drop = LockedDropout(dropout)
        self.decoder = nn.Linear(embed, vocab)
        self.decoder.weight = self.embed.weight
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return [
            (weight.new_zeros(1, batch, r.hidden_size), weight.new_zeros(1, batch, r.hidden_size))
            for r in self.rnns
        ]

    def forward(self, tokens, hidden):
        x = self.drop(self.embed(tokens))
        after = []
        for rnn, h in zip(self.rnns, hidden, strict=True):
            x, h = rnn(x, h)
            x = self.drop(x)
            after.append(h)
        return self.decoder(x), after


def repackage(hidden):
    return [tuple(v.detach() for v in h) for h in hidden]


def batchify(data, batch, device):
    n = data.size(0) // batch
    return data[: n * batch].view(batch, n).t().contiguous().to(device)


def evaluate(model, source, criterion, bptt, vocab):
    model.eval()
    total = 0.0
    hidden = model.init_hidden(source.size(1))
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, bptt):
            n = min(bptt, source.size(0) - 1 - i)
            out, hidden = model(source[i : i + n], hidden)
            total += (
                n * criterion(out.view(-1, vocab), source[i + 1 : i + 1 + n].reshape(-1)).item()
            )
            hidden = repackage(hidden)
    return total / (source.size(0) - 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=220_000)
    parser.add_argument("--vocab", type=int, default=20_000)
    parser.add_argument("--embed", type=int, default=400)
    parser.add_argument("--hidden", type=int, default=1150)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--eval-batch", type=int, default=10)
    parser.add_argument("--bptt", type=int, default=70)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--clip", type=float, default=0.25)
    args = parser.parse_args()
    torch.manual_seed(1111)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = torch.randint(0, args.vocab, (args.tokens,))
    cut = int(args.tokens * 0.9)
    train, val = (
        batchify(corpus[:cut], args.batch, device),
        batchify(corpus[cut:], args.eval_batch, device),
    )
    model = LanguageModel(args.vocab, args.embed, args.hidden, args.layers, 0.3).to(device)
    criterion = nn.CrossEntropyLoss()
    lr, best = 20.0, None
    for epoch in range(1, args.epochs + 1):
        model.train()
        hidden, start = model.init_hidden(args.batch), time.time()
        total, position, batch = 0.0, 0, 0
        while position < train.size(0) - 2:
            # the length of the window varies a little, as in the AWD-LSTM paper
            base = args.bptt if torch.rand(1).item() < 0.95 else args.bptt // 2
            n = min(
                max(5, int(torch.normal(float(base), 5.0, (1,)).item())),
                train.size(0) - 1 - position,
            )
            hidden = repackage(hidden)
            out, hidden = model(train[position : position + n], hidden)
            loss = criterion(
                out.view(-1, args.vocab), train[position + 1 : position + 1 + n].reshape(-1)
            )
            model.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(p.grad, alpha=-lr * n / args.bptt)
            total += loss.item()
            position += n
            batch += 1
            if batch % 10 == 0:
                print(
                    f"epoch {epoch} | {batch} | loss {total / 10:.2f} | {time.time() - start:.1f} s"
                )
                total = 0.0
        val_loss = evaluate(model, val, criterion, args.bptt, args.vocab)
        print(f"end of epoch {epoch}: valid ppl {math.exp(min(val_loss, 20)):.1f}")
        if best is None or val_loss < best:
            best = val_loss
            torch.save(model.state_dict(), "lm.pt")
        else:
            lr /= 4


if __name__ == "__main__":
    main()
