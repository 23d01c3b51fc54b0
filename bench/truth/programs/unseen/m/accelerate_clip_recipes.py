"""CLIP from scratch on recipe photos and their titles with Accelerate (bf16): torchvision ResNet-50, a small text transformer, learnt temperature, retrieval recall at the end."""

import argparse
import math

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet50


class Recipes(Dataset):
    def __init__(self, n, side, words, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.titles = torch.randint(3, vocab, (n, words), generator=g)
        used = torch.randint(4, words + 1, (n, 1), generator=g)
        self.titles[torch.arange(words)[None] >= used] = 0
        # new crops of a few photos each time
        self.photos = torch.randint(0, 256, (128, 3, side + 24, side + 24), generator=g).byte()
        self.side = side

    def __len__(self):
        return len(self.titles)

    def __getitem__(self, i):
        top, left = torch.randint(0, 25, (2,)).tolist()
        photo = self.photos[i % 128, :, top : top + self.side, left : left + self.side]
        return photo.float() / 127.5 - 1, self.titles[i]


class TextTower(nn.Module):
    def __init__(self, vocab, words, width, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(words, width) * 0.01)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        empty = ids == 0
        x = self.layers(self.tokens(ids) + self.positions, src_key_padding_mask=empty)
        keep = (~empty).unsqueeze(-1).to(x.dtype)
        return self.norm((x * keep).sum(1) / keep.sum(1))


class CLIP(nn.Module):
    def __init__(self, vocab, words, width, layers, dim):
        super().__init__()
        self.image = resnet50(num_classes=dim, zero_init_residual=True)
        self.text = TextTower(vocab, words, width, layers)
        self.project = nn.Linear(width, dim, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, photos, titles):
        a = F.normalize(self.image(photos).float(), dim=-1)
        b = F.normalize(self.project(self.text(titles)).float(), dim=-1)
        return a, b, self.log_scale.exp().clamp(max=100)


def clip_loss(a, b, scale):
    logits = scale * a @ b.t()
    labels = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--side", type=int, default=176)
    p.add_argument("--words", type=int, default=49)
    p.add_argument("--vocab", type=int, default=20_000)
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--dim", type=int, default=512)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--precision", default="bf16")
    a = p.parse_args()
    set_seed(37)
    accelerator = Accelerator(mixed_precision=a.precision)

    model = CLIP(a.vocab, a.words, a.width, a.layers, a.dim)
    gains = [q for q in model.parameters() if q.ndim < 2]
    weights = [q for q in model.parameters() if q.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": gains, "weight_decay": 0.0}, {"params": weights, "weight_decay": 0.2}],
        lr=5e-4,
        betas=(0.9, 0.98),
        eps=1e-6,
    )
    train = DataLoader(
        Recipes(a.batch * a.steps, a.side, a.words, a.vocab, 1),
        a.batch,
        shuffle=True,
        num_workers=a.workers,
        drop_last=True,
    )
    test = DataLoader(Recipes(a.batch * 3 // 2, a.side, a.words, a.vocab, 2), a.batch)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, a.steps)
    model, optimizer, train, test, cosine = accelerator.prepare(
        model, optimizer, train, test, cosine
    )

    for step, (photos, titles) in enumerate(train):
        with accelerator.autocast():
            image, text, scale = model(photos, titles)
        loss = clip_loss(image, text, scale)
        accelerator.backward(loss)
        optimizer.step()
        cosine.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            accelerator.print(f"step {step} loss {loss.item():.4f} scale {scale.item():.2f}")

    model.eval()
    images, texts = [], []
    with torch.no_grad():
        for photos, titles in test:
            image, text, _ = model(photos, titles)
            images.append(accelerator.gather_for_metrics(image))
            texts.append(accelerator.gather_for_metrics(text))
    similarity = torch.cat(images) @ torch.cat(texts).t()
    rank = (similarity > similarity.diag()[:, None]).sum(1)
    for k in (1, 5, 10):
        accelerator.print(f"recall@{k} {(rank < k).float().mean().item():.4f}")


if __name__ == "__main__":
    main()
