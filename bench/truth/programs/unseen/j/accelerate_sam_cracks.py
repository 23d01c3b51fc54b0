"""Fine-tune SAM's mask decoder to segment cracks in concrete from a box prompt (image encoder frozen)."""

import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import SamConfig, SamModel, SamPromptEncoderConfig, SamVisionConfig

IMAGE = 1024
PATCH = 16
WIDTH = 768
LAYERS = 12
GLOBAL_LAYERS = [2, 5, 8, 11]
BATCH = 4
SCANS = 48
EPOCHS = 2


class Cracks(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        corner = torch.rand(2, generator=g) * IMAGE / 2
        box = torch.cat([corner, corner + IMAGE / 3])
        side = IMAGE // 4
        return {
            "pixel_values": torch.randn(3, IMAGE, IMAGE, generator=g),
            "input_boxes": box[None],
            "mask": (torch.rand(side, side, generator=g) > 0.8).float(),
        }


def dice_loss(logits, target):
    p = logits.sigmoid().flatten(1)
    t = target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


def build():
    config = SamConfig(
        vision_config=SamVisionConfig(
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            image_size=IMAGE,
            patch_size=PATCH,
            global_attn_indexes=GLOBAL_LAYERS,
            initializer_range=0.02,
        ).to_dict(),
        prompt_encoder_config=SamPromptEncoderConfig(
            image_size=IMAGE, patch_size=PATCH, image_embedding_size=IMAGE // PATCH
        ).to_dict(),
    )
    model = SamModel(config)
    for name, p in model.named_parameters():
        if name.startswith(("vision_encoder", "prompt_encoder")):
            p.requires_grad_(False)
    return model


def main():
    set_seed(64)
    accelerator = Accelerator(mixed_precision="bf16")
    model = build()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4, weight_decay=0.0)
    loader = DataLoader(Cracks(SCANS), batch_size=BATCH, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.print(f"training {sum(p.numel() for p in trainable) / 1e6:.2f}M weights")

    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(EPOCHS):
            model.train()
            for batch in loader:
                out = model(
                    pixel_values=batch["pixel_values"],
                    input_boxes=batch["input_boxes"],
                    multimask_output=False,
                )
                logits = out.pred_masks.float().squeeze(1).squeeze(1)
                loss = dice_loss(logits, batch["mask"]) + F.binary_cross_entropy_with_logits(
                    logits, batch["mask"]
                )
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            accelerator.save_state(str(Path(folder) / f"epoch_{epoch}"))
            accelerator.print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
