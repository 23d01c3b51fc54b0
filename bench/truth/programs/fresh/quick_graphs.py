"""A small recommender compiled with CUDA graphs (reduce-overhead), trained on ids."""

import torch
from torch import nn


class Next(nn.Module):
    def __init__(self, items=20000, width=256):
        super().__init__()
        self.items, self.places = (
            nn.Embedding(items, width),
            nn.Parameter(torch.zeros(1, 100, width)),
        )
        layer = nn.TransformerEncoderLayer(
            width, 4, 1024, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.core, self.norm = (
            nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
            nn.LayerNorm(width),
        )

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device)
        x = self.core(self.items(ids) + self.places[:, : ids.shape[1]], mask=mask, is_causal=True)
        return self.norm(x) @ self.items.weight.t()


model = Next().cuda()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
fast = torch.compile(model, mode="reduce-overhead")
for step in range(12):
    ids = torch.randint(0, 20000, (32, 101), device="cuda")
    loss = nn.functional.cross_entropy(fast(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
