"""LoRA on a ViT-large with PEFT in a plain loop: fp16 with a scaler, adapters saved, merged to predict."""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import ViTConfig, ViTForImageClassification, get_cosine_schedule_with_warmup


class Food(Dataset):
    def __init__(self, count, size, classes, seed):
        self.count, self.size, self.classes, self.seed = count, size, classes, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        label = i % self.classes
        return torch.randn(3, self.size, self.size, generator=g) + label / self.classes, label


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=640)
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--batch_size", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--r", type=int, default=16)
    parser.add_argument("--classes", type=int, default=101)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = ViTConfig(
        image_size=args.image_size,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        num_labels=args.classes,
    )
    model = ViTForImageClassification(config)
    lora = LoraConfig(
        r=args.r,
        lora_alpha=16,
        target_modules="all-linear",
        lora_dropout=0.1,
        bias="none",
        modules_to_save=["classifier"],
    )
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    model.to(device)
    train = DataLoader(
        Food(args.images, args.image_size, args.classes, 0),
        args.batch_size,
        shuffle=True,
        num_workers=4,
        pin_memory=device.type == "cuda",
    )
    test = DataLoader(Food(args.images // 4, args.image_size, args.classes, 10**6), args.batch_size)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=5e-3)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 2, args.epochs * len(train))
    scaler = torch.amp.GradScaler(enabled=device.type == "cuda")
    for epoch in range(args.epochs):
        model.train()
        for pixels, labels in train:
            pixels, labels = pixels.to(device, non_blocking=True), labels.to(device)
            with torch.autocast(device.type, torch.float16, enabled=device.type == "cuda"):
                loss = model(pixel_values=pixels, labels=labels).loss
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
        model.save_pretrained(f"food-lora/epoch-{epoch}")
    merged = model.merge_and_unload().eval()
    if device.type == "cuda":
        merged.half()
    right = 0
    with torch.no_grad():
        for pixels, labels in test:
            logits = merged(pixels.to(device, merged.dtype)).logits
            right += (logits.argmax(-1).cpu() == labels).sum().item()
    print(f"accuracy {right / len(test.dataset):.3f}")


if __name__ == "__main__":
    main()
