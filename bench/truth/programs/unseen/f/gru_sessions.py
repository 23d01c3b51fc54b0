"""The next click of a session: a GRU over packed sequences, sampled negatives, all items ranked at the end."""

import random
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


class CFG:
    items = 250_000
    embed = 256
    hidden = 768
    layers = 2
    negatives = 4096
    batch = 256
    eval_batch = 1024
    sessions = 12_000
    longest = 60
    epochs = 2
    lr = 0.05
    topk = 20
    seed = 2024


class SessionDataset(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        rng = random.Random(seed)
        self.sessions = []
        for _ in range(count):
            length = min(CFG.longest, 3 + int(rng.expovariate(1 / 12)))
            start = rng.randrange(1, CFG.items)
            self.sessions.append(
                [(start + rng.randrange(50) * i) % (CFG.items - 1) + 1 for i in range(length)]
            )

    def __len__(self):
        return len(self.sessions)

    def __getitem__(self, i):
        return torch.tensor(self.sessions[i])


def collate(sessions):
    sessions = sorted(sessions, key=len, reverse=True)
    lengths = torch.tensor([len(s) - 1 for s in sessions])
    inputs = pad_sequence([s[:-1] for s in sessions], batch_first=True)
    targets = pad_sequence([s[1:] for s in sessions], batch_first=True)
    return inputs, targets, lengths


class GRU4Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(CFG.items, CFG.embed, padding_idx=0)
        self.drop = nn.Dropout(0.2)
        self.gru = nn.GRU(CFG.embed, CFG.hidden, CFG.layers, batch_first=True, dropout=0.1)
        self.out = nn.Linear(CFG.hidden, CFG.embed)
        self.bias = nn.Embedding(CFG.items, 1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, inputs, lengths):
        x = self.drop(self.items(inputs))
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        x, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return self.out(x)

    def score(self, states, items):
        return states @ self.items(items).T + self.bias(items).T


def sampled_loss(model, states, targets):
    keep = targets > 0
    states, targets = states[keep], targets[keep]
    negatives = torch.randint(1, CFG.items, (CFG.negatives,), device=targets.device)
    positive = (states * model.items(targets)).sum(-1, keepdim=True) + model.bias(targets)
    negative = model.score(states, negatives)
    negative = negative.masked_fill(negatives[None] == targets[:, None], -1e4)
    logits = torch.cat([positive, negative], 1)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = reciprocal = total = 0
    every = torch.arange(CFG.items, device=device)
    for inputs, targets, lengths in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        states = model(inputs, lengths)
        last = (lengths - 1).to(device)
        rows = torch.arange(len(inputs), device=device)
        scores = model.score(states[rows, last], every)
        top = scores.topk(CFG.topk, dim=1).indices
        where = top == targets[rows, last][:, None]
        hits += where.any(1).sum().item()
        reciprocal += (where / torch.arange(1, CFG.topk + 1, device=device)).sum().item()
        total += len(inputs)
    model.train()
    return hits / total, reciprocal / total


def main():
    torch.manual_seed(CFG.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(
        SessionDataset(CFG.sessions, 0),
        CFG.batch,
        shuffle=True,
        collate_fn=collate,
        num_workers=3,
        drop_last=True,
    )
    val = DataLoader(
        SessionDataset(CFG.sessions // 4, 1), CFG.eval_batch, collate_fn=collate, num_workers=1
    )
    model = GRU4Rec().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=CFG.lr, initial_accumulator_value=0.1)
    for epoch in range(CFG.epochs):
        start, running = time.time(), 0.0
        for inputs, targets, lengths in train:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = sampled_loss(model, model(inputs, lengths), targets)
            if torch.isnan(loss):
                raise ValueError("loss is NaN")
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.gru.parameters(), 1.0)
            optimizer.step()
            running += loss.item()
        recall, mrr = evaluate(model, val, device)
        spent = time.time() - start
        print(
            f"epoch {epoch}: loss {running / len(train):.3f}, recall {recall:.4f}, MRR {mrr:.4f}, {spent:.1f} s"
        )


if __name__ == "__main__":
    main()
