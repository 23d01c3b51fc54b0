"""Word-level language model with a three-layer LSTM and truncated backpropagation: one epoch of SGD, then averaged SGD (ASGD), whose average is what gets validated."""

import argparse
import math

import torch
from torch import nn


class WordLSTM(nn.Module):
    def __init__(self, vocab, embed, hidden, layers, dropout=0.4):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(embed, hidden, layers, dropout=dropout)
        self.project = nn.Linear(hidden, embed)
        self.decoder = nn.Linear(embed, vocab)
        self.decoder.weight = self.embedding.weight
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, state):
        x = self.drop(self.embedding(tokens))
        x, state = self.lstm(x, state)
        x = self.drop(self.project(x))
        return self.decoder(x), x, state

    def init_state(self, batch):
        weight = next(self.parameters())
        shape = (self.lstm.num_layers, batch, self.lstm.hidden_size)
        return weight.new_zeros(shape), weight.new_zeros(shape)


def corpus(words, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    return (torch.rand(words, generator=g).pow(4) * vocab).long()


def batchify(words, columns, device):
    rows = len(words) // columns
    return words[: rows * columns].view(columns, rows).t().contiguous().to(device)


def detach(state):
    return tuple(s.detach() for s in state)


@torch.no_grad()
def evaluate(model, data, bptt, criterion):
    model.eval()
    state, total = model.init_state(data.size(1)), 0.0
    for i in range(0, len(data) - 1, bptt):
        n = min(bptt, len(data) - 1 - i)
        logits, _, state = model(data[i : i + n], state)
        total += n * criterion(logits.flatten(0, 1), data[i + 1 : i + 1 + n].flatten()).item()
    model.train()
    return total / (len(data) - 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--vocab", type=int, default=33_278)
    p.add_argument("--embed", type=int, default=400)
    p.add_argument("--hidden", type=int, default=1150)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--batch", type=int, default=120)
    p.add_argument("--eval-batch", type=int, default=20)
    p.add_argument("--bptt", type=int, default=70)
    p.add_argument("--rows", type=int, default=710)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=10.0)
    a = p.parse_args()
    torch.manual_seed(141)

    train = batchify(corpus(a.batch * a.rows, a.vocab, 1), a.batch, a.device)
    valid = batchify(corpus(a.eval_batch * a.rows // 3, a.vocab, 2), a.eval_batch, a.device)
    model = WordLSTM(a.vocab, a.embed, a.hidden, a.layers).to(a.device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=a.lr, weight_decay=1.2e-6)

    best = math.inf
    for epoch in range(a.epochs):
        state, step = model.init_state(a.batch), 0
        for i in range(0, len(train) - 2, a.bptt):
            n = min(a.bptt, len(train) - 1 - i)
            state = detach(state)
            logits, hidden, state = model(train[i : i + n], state)
            loss = criterion(logits.flatten(0, 1), train[i + 1 : i + 1 + n].flatten())
            # activation and temporal regularisation
            penalty = 2 * hidden.pow(2).mean() + (hidden[1:] - hidden[:-1]).pow(2).mean()
            optimizer.zero_grad()
            (loss + penalty).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            step += 1  # noqa: SIM113
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} ppl {math.exp(min(loss.item(), 20)):.1f}")

        if isinstance(optimizer, torch.optim.ASGD):
            kept = {q: q.detach().clone() for q in model.parameters()}
            for q in model.parameters():
                q.data = optimizer.state[q]["ax"].clone()
            held_out = evaluate(model, valid, a.bptt, criterion)
            for q in model.parameters():
                q.data = kept[q]
        else:
            held_out = evaluate(model, valid, a.bptt, criterion)
        print(f"epoch {epoch} validation {held_out:.4f}")
        if isinstance(optimizer, torch.optim.SGD):
            print("switching to ASGD")
            optimizer = torch.optim.ASGD(
                model.parameters(), lr=a.lr, t0=0, lambd=0.0, weight_decay=1.2e-6
            )
        if held_out < best:
            best = held_out
            torch.save(model.state_dict(), "words.pt")
    print("best perplexity", math.exp(min(best, 20)))


if __name__ == "__main__":
    main()
