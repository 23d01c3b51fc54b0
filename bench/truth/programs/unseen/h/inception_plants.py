"""Inception v3 with its auxiliary head on leaf scans (single precision, TF32)."""

import argparse
import json

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import inception_v3

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


class LeafScans(Dataset):
    def __init__(self, count, classes, size):
        self.count, self.classes, self.size = count, classes, size
        self.base = torch.rand(classes, 3, 8, 8)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        label = i % self.classes
        picture = F.interpolate(
            self.base[label][None], size=(self.size, self.size), mode="bilinear"
        )[0]
        return picture + 0.1 * torch.randn(1, self.size, self.size), label


def run_epoch(model, loader, device, opt=None, aux_weight=0.4):
    train = opt is not None
    model.train(train)
    loss_sum = right = count = 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        with torch.set_grad_enabled(train):
            if train:
                out, aux = model(images)
                loss = F.cross_entropy(out, labels) + aux_weight * F.cross_entropy(aux, labels)
            else:
                out = model(images)
                loss = F.cross_entropy(out, labels)
        if train:
            opt.zero_grad()
            loss.backward()
            opt.step()
        loss_sum += loss.item() * len(labels)
        right += (out.argmax(1) == labels).sum().item()
        count += len(labels)
    return loss_sum / count, right / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--n_train", type=int, default=560)
    parser.add_argument("--n_val", type=int, default=160)
    parser.add_argument("--num_classes", type=int, default=38)
    parser.add_argument("--size", type=int, default=299)
    parser.add_argument("--workers", type=int, default=2)
    opt_ = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = inception_v3(
        weights=None, num_classes=opt_.num_classes, aux_logits=True, init_weights=False
    ).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, alpha=0.9, eps=1.0, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.94)

    train_loader = DataLoader(
        LeafScans(opt_.n_train, opt_.num_classes, opt_.size),
        batch_size=opt_.batch_size,
        shuffle=True,
        num_workers=opt_.workers,
    )
    val_loader = DataLoader(
        LeafScans(opt_.n_val, opt_.num_classes, opt_.size),
        batch_size=opt_.batch_size,
        num_workers=opt_.workers,
    )
    history = []
    for epoch in range(opt_.epochs):
        tl, ta = run_epoch(model, train_loader, device, optimizer)
        vl, va = run_epoch(model, val_loader, device)
        scheduler.step()
        history.append(dict(epoch=epoch, train_loss=tl, train_acc=ta, val_loss=vl, val_acc=va))
        print(history[-1])
        torch.save(
            {"state": model.state_dict(), "optimizer": optimizer.state_dict()},
            f"inception_{epoch}.pth",
        )
    with open("inception_history.json", "w") as f:
        json.dump(history, f, indent=2)


if __name__ == "__main__":
    main()
