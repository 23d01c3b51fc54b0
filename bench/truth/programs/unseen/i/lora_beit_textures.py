"""LoRA on the attention of BEiT-large for 47 textures: fp16 with GradScaler, a new head trained in full."""

import argparse
import logging

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import BeitConfig, BeitForImageClassification

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("textures")


def textures(n, size):
    return TensorDataset(
        torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8), torch.randint(0, 47, (n,))
    )


def to_float(x, device):
    return x.to(device, non_blocking=True).float().div(127.5).sub(1.0)


@torch.no_grad()
def test(model, loader, device):
    model.eval()
    right = total = 0
    for x, y in loader:
        with torch.autocast(device, dtype=torch.float16):
            # average over the picture and its mirror image
            x = to_float(x, device)
            logits = model(pixel_values=x).logits + model(pixel_values=x.flip(-1)).logits
        right += (logits.argmax(-1).cpu() == y).sum().item()
        total += len(y)
    return right / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--batch", type=int, default=36)
    p.add_argument("--test-batch", type=int, default=120)
    p.add_argument("--train", type=int, default=330)
    p.add_argument("--test", type=int, default=200)
    p.add_argument("--device", default="cuda")
    a = p.parse_args()
    config = BeitConfig(
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=16,
        intermediate_size=4 * a.hidden,
        image_size=a.size,
        use_relative_position_bias=True,
        layer_scale_init_value=1e-5,
        num_labels=47,
    )
    model = get_peft_model(
        BeitForImageClassification(config),
        LoraConfig(
            r=8,
            lora_alpha=16,
            lora_dropout=0.1,
            target_modules=["q_proj", "v_proj"],
            modules_to_save=["classifier"],
        ),
    ).to(a.device)
    model.print_trainable_parameters()
    params = [q for q in model.parameters() if q.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=5e-4, weight_decay=1e-4)
    train = DataLoader(
        textures(a.train, a.size), batch_size=a.batch, shuffle=True, pin_memory=a.device == "cuda"
    )
    held = DataLoader(textures(a.test, a.size), batch_size=a.test_batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(train))
    scaler = torch.amp.GradScaler(a.device)

    model.train()
    for step, (x, y) in enumerate(train):
        with torch.autocast(a.device, dtype=torch.float16):
            logits = model(pixel_values=to_float(x, a.device)).logits
            loss = F.cross_entropy(logits, y.to(a.device), label_smoothing=0.05)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        log.info("step %d loss %.3f scale %.0f", step, loss.item(), scaler.get_scale())
    log.info("accuracy %.3f", test(model, held, a.device))
    model.save_pretrained("beit_textures")


if __name__ == "__main__":
    main()
