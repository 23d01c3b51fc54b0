"""A language model of words with an LSTM: truncated backpropagation, annealing, the best one saved and loaded."""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


class RNNModel(nn.Module):
    def __init__(self, kind, words, width, layers, dropout):
        super().__init__()
        self.words, self.kind, self.layers, self.width = words, kind, layers, width
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, width)
        self.rnn = getattr(nn, kind)(width, width, layers, dropout=dropout)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, hidden):
        emb = self.drop(self.encoder(tokens))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        shape = (self.layers, bsz, self.width)
        if self.kind == "LSTM":
            return (weight.new_zeros(shape), weight.new_zeros(shape))
        return weight.new_zeros(shape)


def batchify(data, bsz, device):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous().to(device)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


@torch.no_grad()
def evaluate(model, source, args):
    model.eval()
    total = 0.0
    hidden = model.init_hidden(args.eval_batch_size)
    for i in range(0, source.size(0) - 1, args.bptt):
        data, targets = get_batch(source, i, args.bptt)
        output, hidden = model(data, hidden)
        hidden = repackage_hidden(hidden)
        total += len(data) * F.nll_loss(output, targets).item()
    return total / (len(source) - 1)


def train(model, source, args, lr):
    model.train()
    total, start = 0.0, time.time()
    hidden = model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, source.size(0) - 1, args.bptt)):
        data, targets = get_batch(source, i, args.bptt)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = F.nll_loss(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item()
        if batch % args.log_interval == 0 and batch > 0:
            cur = total / args.log_interval
            ms = (time.time() - start) * 1000 / args.log_interval
            print(
                f"| {batch:5d} batches | lr {lr:02.2f} | ms/batch {ms:5.2f} | ppl {math.exp(min(cur, 20)):8.2f}"
            )
            total, start = 0.0, time.time()


def main():
    parser = argparse.ArgumentParser(description="RNN language model")
    parser.add_argument("--model", default="LSTM")
    parser.add_argument("--words", type=int, default=33278)
    parser.add_argument("--nhid", type=int, default=1500)
    parser.add_argument("--nlayers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=20)
    parser.add_argument("--clip", type=float, default=0.25)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=160)
    parser.add_argument("--eval-batch-size", type=int, default=40)
    parser.add_argument("--bptt", type=int, default=70)
    parser.add_argument("--tokens", type=int, default=400_000)
    parser.add_argument("--dropout", type=float, default=0.65)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--save", default="model.pt")
    args = parser.parse_args()
    torch.manual_seed(1111)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = (torch.rand(args.tokens).pow(4) * args.words).long()
    cut = int(args.tokens * 0.9)
    train_data = batchify(corpus[:cut], args.batch_size, device)
    val_data = batchify(corpus[cut:], args.eval_batch_size, device)
    model = RNNModel(args.model, args.words, args.nhid, args.nlayers, args.dropout).to(device)
    lr, best = args.lr, None
    for epoch in range(1, args.epochs + 1):
        train(model, train_data, args, lr)
        val_loss = evaluate(model, val_data, args)
        print(f"| end of epoch {epoch} | valid loss {val_loss:5.2f}")
        if not best or val_loss < best:
            with open(args.save, "wb") as f:
                torch.save(model, f)
            best = val_loss
        else:
            lr /= 4.0
    with open(args.save, "rb") as f:
        model = torch.load(f, weights_only=False)
        model.rnn.flatten_parameters()
    print(f"| end of training | test loss {evaluate(model, val_data, args):5.2f}")


if __name__ == "__main__":
    main()
