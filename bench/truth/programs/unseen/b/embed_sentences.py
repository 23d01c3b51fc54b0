"""Embed a pile of sentences with a compiled encoder: three padded widths, and the nearest neighbours after."""

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn

WIDTHS = (64, 128, 256)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (
            self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(b, t, d)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, dim), nn.Embedding(max(WIDTHS), dim)
        self.layers = nn.ModuleList(Layer(dim, dim // 64) for _ in range(depth))

    def forward(self, ids, lengths):
        keep = torch.arange(ids.size(1), device=ids.device)[None] < lengths[:, None]
        x = self.words(ids) + self.places.weight[: ids.size(1)]
        for layer in self.layers:
            x = layer(x, keep[:, None, None, :])
        x = (x * keep[..., None]).sum(1) / lengths[:, None]
        return F.normalize(x, dim=-1)


def batches(sentences, size):
    """Each width has batches of its own; the last one of a width is filled up with empty sentences."""
    for low, high in zip((0, *WIDTHS), WIDTHS, strict=False):
        rows = [s for s in sentences if low < len(s) <= high]
        for i in range(0, len(rows), size):
            part = rows[i : i + size]
            part += [[1]] * (size - len(part))
            ids = torch.zeros(size, high, dtype=torch.long)
            for j, row in enumerate(part):
                ids[j, : len(row)] = torch.tensor(row)
            yield ids, torch.tensor([len(row) for row in part])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    args = parser.parse_args()
    rng = random.Random(42)
    torch.manual_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Encoder(args.vocab, args.dim, args.depth).to(device).eval()
    if device.type == "cuda":
        model.half()
    run = torch.compile(model, dynamic=False) if args.compile else model
    sentences = [
        [rng.randrange(2, args.vocab) for _ in range(rng.randint(5, max(WIDTHS)))]
        for _ in range(args.sentences)
    ]
    vectors = []
    with torch.inference_mode():
        for n, (ids, lengths) in enumerate(batches(sentences, args.batch)):
            vectors.append(run(ids.to(device), lengths.to(device)).float())
            if n % 10 == 0:
                print(f"batch {n}: {tuple(ids.shape)}")
        everything = torch.cat(vectors)
        similar = everything @ everything.T
        similar.fill_diagonal_(-1)
        value, index = similar.topk(5, dim=1)
    print(f"{len(everything)} vectors, mean similarity of the nearest {value[:, 0].mean():.3f}")
    torch.save({"vectors": everything.cpu(), "nearest": index.cpu()}, "index.pt")


if __name__ == "__main__":
    main()
