"""SASRec: what will each customer buy next? Histories on the GPU, one negative each; then all items ranked."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class PointWise(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)
        self.drop1, self.drop2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x):
        y = self.drop2(self.conv2(F.relu(self.drop1(self.conv1(x.transpose(-1, -2))))))
        return x + y.transpose(-1, -2)


class SASRec(nn.Module):
    def __init__(self, items, maxlen, width, blocks, heads, dropout):
        super().__init__()
        self.item_emb = nn.Embedding(items + 1, width, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, width)
        self.dropout = nn.Dropout(dropout)
        self.attention_norms = nn.ModuleList([nn.LayerNorm(width, eps=1e-8) for _ in range(blocks)])
        self.attentions = nn.ModuleList(
            [nn.MultiheadAttention(width, heads, dropout) for _ in range(blocks)]
        )
        self.forward_norms = nn.ModuleList([nn.LayerNorm(width, eps=1e-8) for _ in range(blocks)])
        self.forwards = nn.ModuleList([PointWise(width, dropout) for _ in range(blocks)])
        self.last_norm = nn.LayerNorm(width, eps=1e-8)

    def features(self, log):
        x = self.item_emb(log) * self.item_emb.embedding_dim**0.5
        x = self.dropout(x + self.pos_emb(torch.arange(log.shape[1], device=log.device)))
        empty = (log == 0).unsqueeze(-1)
        x = x.masked_fill(empty, 0.0)
        size = log.shape[1]
        causal = ~torch.tril(torch.ones(size, size, dtype=torch.bool, device=log.device))
        for i in range(len(self.attentions)):
            x = x.transpose(0, 1)
            q = self.attention_norms[i](x)
            y, _ = self.attentions[i](q, x, x, attn_mask=causal)
            x = (q + y).transpose(0, 1)
            x = self.forwards[i](self.forward_norms[i](x)).masked_fill(empty, 0.0)
        return self.last_norm(x)

    def forward(self, log, positive, negative):
        h = self.features(log)
        return (h * self.item_emb(positive)).sum(-1), (h * self.item_emb(negative)).sum(-1)

    def rank(self, log):
        return self.features(log)[:, -1] @ self.item_emb.weight.T


def histories(users, items, maxlen):
    """Each row ends with the latest item; zeros stand before short histories."""
    g = torch.Generator().manual_seed(17)
    start = torch.randint(1, items, (users, 1), generator=g)
    stride = torch.randint(1, 9, (users, 1), generator=g)
    log = (start + stride * torch.arange(maxlen + 2)) % items + 1
    length = torch.randint(20, maxlen + 2, (users, 1), generator=g)
    return log.masked_fill(torch.arange(maxlen + 2) < maxlen + 2 - length, 0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=12000)
    p.add_argument("--items", type=int, default=150_000)
    p.add_argument("--maxlen", type=int, default=200)
    p.add_argument("--hidden_units", type=int, default=128)
    p.add_argument("--num_blocks", type=int, default=2)
    p.add_argument("--num_heads", type=int, default=2)
    p.add_argument("--dropout_rate", type=float, default=0.2)
    p.add_argument("--batch_size", type=int, default=512)
    p.add_argument("--eval_batch_size", type=int, default=2048)
    p.add_argument("--num_epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--l2_emb", type=float, default=1e-6)
    a = p.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    log = histories(a.users, a.items, a.maxlen).to(device)
    model = SASRec(a.items, a.maxlen, a.hidden_units, a.num_blocks, a.num_heads, a.dropout_rate).to(
        device
    )
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_normal_(parameter.data)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=a.lr, betas=(0.9, 0.98))
    for epoch in range(1, a.num_epochs + 1):
        model.train()
        for users in torch.randperm(a.users, device=device).split(a.batch_size):
            sequence, positive = log[users, :-2], log[users, 1:-1]
            negative = torch.randint(1, a.items + 1, positive.shape, device=device)
            pos, neg = model(sequence, positive, negative)
            index = torch.where(positive != 0)
            loss = criterion(pos[index], torch.ones_like(pos)[index])
            loss += criterion(neg[index], torch.zeros_like(neg)[index])
            loss += a.l2_emb * model.item_emb.weight.norm()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    model.eval()
    gain, hits = 0.0, 0
    with torch.no_grad():
        for rows in log.split(a.eval_batch_size):
            scores = model.rank(rows[:, 1:-1])
            scores.scatter_(1, rows[:, 1:-1], float("-inf"))
            target = rows[:, -1:]
            place = (scores > scores.gather(1, target)).sum(1)
            top = place[place < 10]
            hits += len(top)
            gain += (1 / torch.log2(top.float() + 2)).sum().item()
    print(f"NDCG@10 {gain / a.users:.4f}, HR@10 {hits / a.users:.4f}")
    torch.save(model.state_dict(), "sasrec.pth")


if __name__ == "__main__":
    main()
