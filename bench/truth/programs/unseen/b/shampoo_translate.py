"""GRU encoder and decoder with attention, trained with blocked Shampoo written in Python (grafted on Adagrad)."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Reverse(Dataset):
    """Sequences to be said backwards."""

    def __init__(self, count, length, vocab):
        self.data = torch.randint(
            3, vocab, (count, length), generator=torch.Generator().manual_seed(2)
        )

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i], self.data[i].flip(0)


def inverse_root(matrix, power, eps=1e-6):
    values, vectors = torch.linalg.eigh(matrix + eps * torch.eye(len(matrix), device=matrix.device))
    return vectors @ torch.diag(values.clamp(min=eps) ** (-1.0 / power)) @ vectors.T


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1, beta=0.95, every=10, block=1024):
        super().__init__(params, {"lr": lr, "beta": beta})
        self.every, self.block, self.steps = every, block, 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "sum" not in state:
                    state["sum"] = torch.zeros_like(p)
                    state["momentum"] = torch.zeros_like(p)
                state["sum"].addcmul_(p.grad, p.grad)
                graft = p.grad / (state["sum"].sqrt() + 1e-10)
                direction = self.precondition(p, state, group["beta"]) if p.ndim == 2 else graft
                direction = direction * (graft.norm() / direction.norm().clamp(min=1e-12))
                state["momentum"].mul_(0.9).add_(direction)
                p.add_(state["momentum"], alpha=-group["lr"])

    def precondition(self, p, state, beta):
        rows = []
        for i, part in enumerate(p.grad.split(self.block, 0)):
            columns = []
            for j, g in enumerate(part.split(self.block, 1)):
                s = state.setdefault(f"block_{i}_{j}", {})
                if not s:
                    s["left"] = torch.zeros(g.size(0), g.size(0), device=g.device)
                    s["right"] = torch.zeros(g.size(1), g.size(1), device=g.device)
                s["left"].mul_(beta).add_(g @ g.T)
                s["right"].mul_(beta).add_(g.T @ g)
                if "left_root" not in s or self.steps % self.every == 0:
                    s["left_root"] = inverse_root(s["left"], 4)
                    s["right_root"] = inverse_root(s["right"], 4)
                columns.append(s["left_root"] @ g @ s["right_root"])
            rows.append(torch.cat(columns, 1))
        return torch.cat(rows, 0)


class Seq2Seq(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * dim, dim)
        self.decoder = nn.GRUCell(2 * dim, dim)
        self.query = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(2 * dim, vocab)

    def forward(self, source, target):
        memory, last = self.encoder(self.embed(source))
        memory = self.bridge(memory)
        h = torch.tanh(last.sum(0))
        word = torch.ones(len(source), dtype=torch.long, device=source.device)
        outputs = []
        for t in range(target.size(1)):
            weights = torch.softmax((memory @ self.query(h)[..., None]).squeeze(-1), 1)
            context = (weights[..., None] * memory).sum(1)
            h = self.decoder(torch.cat([self.embed(word), context], -1), h)
            outputs.append(self.out(torch.cat([h, context], -1)))
            word = target[:, t]
        return torch.stack(outputs, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=4000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--count", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Reverse(args.count, args.length, args.vocab), args.batch, shuffle=True)
    model = Seq2Seq(args.vocab, args.dim).to(device)
    optimizer = Shampoo(model.parameters(), lr=0.02)
    for epoch in range(args.epochs):
        for i, (source, target) in enumerate(loader):
            source, target = source.to(device), target.to(device)
            logits = model(source, target)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 8 == 0:
                print(f"epoch {epoch} batch {i}: {loss.item():.4f}")
    torch.save(model.state_dict(), "reverse.pt")


if __name__ == "__main__":
    main()
