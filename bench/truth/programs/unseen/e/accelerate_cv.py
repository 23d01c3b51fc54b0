"""Pets with accelerate: a ResNet-50, head first and then the whole network, bf16, OneCycle, metrics gathered."""

import argparse
import time

import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet50


class PetsDataset(Dataset):
    def __init__(self, count, size, seed):
        self.count, self.size, self.seed = count, size, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = i % 37
        image = torch.rand(3, self.size, self.size, generator=g) * (0.5 + label / 74)
        return {"image": image, "label": label}


def run_epoch(accelerator, model, loader, optimizer, scheduler):
    model.train()
    total_loss = 0
    for batch in loader:
        with accelerator.accumulate(model):
            outputs = model(batch["image"])
            loss = torch.nn.functional.cross_entropy(outputs, batch["label"])
            total_loss += loss.detach()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return total_loss.item() / len(loader)


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    accurate = num_elems = 0
    for batch in loader:
        predictions = model(batch["image"]).argmax(dim=-1)
        predictions, references = accelerator.gather_for_metrics((predictions, batch["label"]))
        accurate += (predictions == references).long().sum()
        num_elems += references.shape[0]
    return accurate.item() / num_elems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--head_epochs", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-2 / 25)
    parser.add_argument("--output_dir", default="pets")
    args = parser.parse_args()
    accelerator = Accelerator(
        mixed_precision="bf16" if torch.cuda.is_available() else "no",
        gradient_accumulation_steps=args.accumulation,
    )
    torch.manual_seed(42)
    train = DataLoader(
        PetsDataset(args.images, args.image_size, 0), args.batch_size, shuffle=True, num_workers=4
    )
    val = DataLoader(
        PetsDataset(args.images // 5, args.image_size, 10**6), 2 * args.batch_size, num_workers=4
    )
    model = resnet50(weights=None, num_classes=37).to(accelerator.device)
    for name, param in model.named_parameters():
        param.requires_grad = name.startswith("fc.")
    mean = torch.tensor([0.485, 0.456, 0.406])[None, :, None, None].to(accelerator.device)
    model.register_buffer("mean", mean)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = OneCycleLR(
        optimizer, max_lr=args.lr, epochs=args.head_epochs + args.epochs, steps_per_epoch=len(train)
    )
    model, optimizer, train, val, scheduler = accelerator.prepare(
        model, optimizer, train, val, scheduler
    )
    for epoch in range(args.head_epochs + args.epochs):
        if epoch == args.head_epochs:
            for param in accelerator.unwrap_model(model).parameters():
                param.requires_grad = True
            accelerator.print("the whole network from here on")
        start = time.perf_counter()
        loss = run_epoch(accelerator, model, train, optimizer, scheduler)
        accuracy = evaluate(accelerator, model, val)
        seconds = time.perf_counter() - start
        accelerator.print(f"epoch {epoch}: {loss:.3f}, {100 * accuracy:.2f} %, {seconds:.0f} s")
        accelerator.save_state(f"{args.output_dir}/epoch_{epoch}")


if __name__ == "__main__":
    main()
