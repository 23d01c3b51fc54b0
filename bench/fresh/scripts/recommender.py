"""A recommender: summed embeddings of many tables, products of pairs, layers above them."""

import torch
from torch import nn

TABLES = 20


class Recommender(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(TABLES))
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + width, 768), nn.ReLU(), nn.Linear(768, 256), nn.ReLU()
        )
        self.head = nn.Linear(256, 1)

    def forward(self, given):
        numbers, choices = given
        dense = self.dense(numbers)
        every = [dense] + [table(choices[i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack([one.to(dense.dtype) for one in every], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(TABLES + 1, TABLES + 1, -1, device=dense.device)
        mixed = torch.cat([dense, products[:, rows, columns]], dim=1)
        return self.head(self.top(mixed)).squeeze(-1)


def workload(batch=16384, rows=100000, width=64):
    given = (torch.randn(batch, 13), torch.randint(0, rows, (TABLES, batch, 4)))
    clicked = torch.rand(batch).round()
    return {
        "model": Recommender(rows, width),
        "batch": (given, clicked),
        "loss": lambda model, given: nn.functional.binary_cross_entropy_with_logits(
            model(given[0]), given[1]
        ),
    }
