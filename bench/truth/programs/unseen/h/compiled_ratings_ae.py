"""Deep autoencoder over user rating vectors (dense re-feeding), compiled with torch.compile."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Ratings(Dataset):
    """A handful of ratings for each user, made dense when asked for."""

    def __init__(self, users, items, each, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = items
        self.which = torch.randint(0, items, (users, each), generator=g)
        self.stars = torch.randint(1, 6, (users, each), generator=g).float()

    def __len__(self):
        return len(self.which)

    def __getitem__(self, i):
        return self.which[i], self.stars[i]


class DeepAE(nn.Module):
    def __init__(self, items, sizes=(1024, 512, 512), drop=0.6):
        super().__init__()
        dims = [items, *sizes]
        self.enc = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.dec = nn.ModuleList(nn.Linear(b, a) for a, b in reversed(list(zip(dims, dims[1:]))))
        self.drop, self.act = nn.Dropout(drop), nn.SELU()

    def forward(self, x):
        for layer in self.enc:
            x = self.act(layer(x))
        x = self.drop(x)
        for layer in self.dec[:-1]:
            x = self.act(layer(x))
        return self.dec[-1](x)


def masked_mse(pred, target):
    mask = (target > 0).to(pred.dtype)
    return (mask * (pred - target) ** 2).sum() / mask.sum().clamp(min=1)


def dense(which, stars, items, device):
    out = torch.zeros(len(which), items, device=device)
    return out.scatter_(1, which.to(device), stars.to(device))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=18000)
    ap.add_argument("--users", type=int, default=40000)
    ap.add_argument("--batch", type=int, default=4096)
    ap.add_argument("--eval-batch", type=int, default=2048)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")

    train = DataLoader(
        Ratings(args.users, args.items, 60, 0), args.batch, shuffle=True, drop_last=True
    )
    test = DataLoader(Ratings(args.users // 5, args.items, 60, 1), args.eval_batch, drop_last=True)
    model = DeepAE(args.items).to(device)
    fast = torch.compile(model)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [2], 0.3)

    for epoch in range(args.epochs):
        fast.train()
        t0, total = time.time(), 0.0
        for which, stars in train:
            x = dense(which, stars, args.items, device)
            opt.zero_grad()
            out = fast(x)
            loss = masked_mse(out, x)
            loss.backward()
            opt.step()
            # dense re-feeding: the output is a fixed point
            again = out.detach()
            opt.zero_grad()
            refeed = ((fast(again) - again) ** 2).mean()
            refeed.backward()
            opt.step()
            total += loss.item()
        sched.step()
        model.eval()
        with torch.no_grad():
            rmse = [
                masked_mse(model(x), x).sqrt().item()
                for x in (dense(w, s, args.items, device) for w, s in test)
            ]
        print(
            f"epoch {epoch} loss {total / len(train):.4f} test RMSE {sum(rmse) / len(rmse):.4f} "
            f"{time.time() - t0:.1f}s"
        )
    torch.save(model.state_dict(), "ratings_ae.pt")


if __name__ == "__main__":
    main()
