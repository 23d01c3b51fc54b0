"""Pictures and captions into one space: two towers, two optimizers, then ranks over the whole gallery."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


@dataclass
class Config:
    batch: int = 384
    size: int = 128
    words: int = 30000
    length: int = 48
    width: int = 512
    heads: int = 8
    layers: int = 6
    embed: int = 256
    steps: int = 45
    gallery: int = 12288
    eval_batch: int = 1024
    max_norm: float = 1.0


class TextTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.token = nn.Embedding(cfg.words, cfg.width, padding_idx=0)
        self.position = nn.Parameter(torch.zeros(cfg.length, cfg.width))
        layer = nn.TransformerEncoderLayer(
            cfg.width, cfg.heads, 4 * cfg.width, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, cfg.embed, bias=False)

    def forward(self, ids):
        pad = ids == 0
        x = self.token(ids) + self.position[: ids.shape[1]]
        x = self.norm(self.encoder(x, src_key_padding_mask=pad))
        last = (~pad).sum(1) - 1
        return self.head(x[torch.arange(len(x), device=x.device), last])


class Towers(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.image = torchvision.models.resnet50(num_classes=cfg.embed)
        self.text = TextTower(cfg)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images, ids):
        a = F.normalize(self.image(images), dim=-1)
        b = F.normalize(self.text(ids), dim=-1)
        return a, b, self.scale.exp().clamp(max=100)


def pairs(count, cfg, g):
    images = torch.rand(count, 3, cfg.size, cfg.size, generator=g, device=g.device)
    ids = torch.randint(2, cfg.words, (count, cfg.length), generator=g, device=g.device)
    lengths = torch.randint(8, cfg.length + 1, (count, 1), generator=g, device=g.device)
    ids = ids.masked_fill(torch.arange(cfg.length, device=g.device) >= lengths, 0)
    return images, ids


@torch.no_grad()
def retrieval(model, cfg, g):
    model.eval()
    left, right = [], []
    for _ in range(cfg.gallery // cfg.eval_batch):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            a, b, _ = model(*pairs(cfg.eval_batch, cfg, g))
        left.append(a.float())
        right.append(b.float())
    similarity = torch.cat(left) @ torch.cat(right).T
    order = similarity.argsort(dim=1, descending=True)
    truth = torch.arange(len(order), device=order.device)[:, None]
    rank = (order == truth).float().argmax(1)
    model.train()
    return {f"R@{k}": (rank < k).float().mean().item() for k in (1, 5, 10)}


def main():
    cfg = Config()
    torch.manual_seed(7)
    device = torch.device("cuda")
    g = torch.Generator(device).manual_seed(7)
    model = Towers(cfg).to(device)
    image_optimizer = torch.optim.SGD(
        model.image.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4
    )
    text_optimizer = torch.optim.AdamW(
        [
            {"params": model.text.parameters(), "weight_decay": 0.1},
            {"params": [model.scale], "weight_decay": 0.0, "lr": 1e-3},
        ],
        lr=5e-4,
        betas=(0.9, 0.98),
    )
    warmup = torch.optim.lr_scheduler.LinearLR(text_optimizer, 0.01, 1.0, 10)
    for step in range(cfg.steps):
        images, ids = pairs(cfg.batch, cfg, g)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            a, b, scale = model(images, ids)
            logits = scale * a @ b.T
            target = torch.arange(len(logits), device=device)
            loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
        image_optimizer.zero_grad()
        text_optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), cfg.max_norm)
        image_optimizer.step()
        text_optimizer.step()
        warmup.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}, norm {norm.item():.2f}")
    print(retrieval(model, cfg, g))


if __name__ == "__main__":
    main()
