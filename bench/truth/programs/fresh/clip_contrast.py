"""Images and texts brought together, as CLIP does: half precision with a scaler, two learning rates."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import CLIPConfig, CLIPModel, get_cosine_schedule_with_warmup

torch.manual_seed(1)
device = "cuda"
config = CLIPConfig(
    text_config={
        "hidden_size": 384,
        "num_hidden_layers": 8,
        "num_attention_heads": 6,
        "intermediate_size": 1536,
    },
    vision_config={
        "hidden_size": 512,
        "num_hidden_layers": 10,
        "num_attention_heads": 8,
        "intermediate_size": 2048,
        "patch_size": 32,
    },
)
model = CLIPModel(config).to(device)
data = TensorDataset(torch.randn(800, 3, 224, 224), torch.randint(0, 49000, (800, 77)))
loader = DataLoader(
    data, batch_size=192, shuffle=True, drop_last=True, pin_memory=True, num_workers=2
)
decay = [p for n, p in model.named_parameters() if p.ndim > 1]
plain = [p for n, p in model.named_parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0}],
    lr=5e-4,
    betas=(0.9, 0.98),
)
schedule = get_cosine_schedule_with_warmup(optimizer, 2, 12)
scaler = torch.amp.GradScaler()
for epoch in range(3):
    for images, texts in loader:
        images, texts = images.to(device, non_blocking=True), texts.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(input_ids=texts, pixel_values=images)
            labels = torch.arange(len(images), device=device)
            loss = (
                F.cross_entropy(out.logits_per_image, labels)
                + F.cross_entropy(out.logits_per_text, labels)
            ) / 2
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        model.logit_scale.data.clamp_(0, 4.6052)
        print(f"{epoch}: {loss.item():.3f} at {schedule.get_last_lr()[0]:.2e}")
