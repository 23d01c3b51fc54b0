"""Masked language modelling with a compiled RoBERTa-PreLayerNorm (mode="default"), dynamic masking in the collate function, fp16 and GradScaler."""

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import RobertaPreLayerNormConfig, RobertaPreLayerNormForMaskedLM

VOCAB = 50265
MASK = 50264
LENGTH = 256
BATCH = 40
STEPS = 30
RATE = 0.15


class Lines(Dataset):
    def __init__(self, n):
        self.ids = torch.randint(4, MASK, (n, LENGTH), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.ids[i]


def mask_some(rows):
    ids = torch.stack(rows)
    labels = ids.clone()
    picked = torch.rand(ids.shape) < RATE
    labels[~picked] = -100
    dice = torch.rand(ids.shape)
    ids[picked & (dice < 0.8)] = MASK
    swap = picked & (dice > 0.9)
    ids[swap] = torch.randint(4, MASK, (int(swap.sum()),))
    return ids, labels


def main():
    torch.manual_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = RobertaPreLayerNormForMaskedLM(
        RobertaPreLayerNormConfig(
            vocab_size=VOCAB,
            num_hidden_layers=8,
            max_position_embeddings=LENGTH + 2,
            type_vocab_size=1,
        )
    ).to(device)
    compiled = torch.compile(model, mode="default")
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim == 1 else decay).append(p)
    optimizer = torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": 0.01},
            {"params": plain, "weight_decay": 0.0},
        ],
        lr=5e-4,
        eps=1e-6,
    )
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    fall = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=STEPS - 5)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], milestones=[5])
    scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
    loader = DataLoader(
        Lines(BATCH * STEPS),
        batch_size=BATCH,
        shuffle=True,
        collate_fn=mask_some,
        drop_last=True,
    )
    model.train()
    for step, (ids, labels) in enumerate(loader):
        ids, labels = ids.to(device), labels.to(device)
        with torch.autocast(device.type, dtype=torch.float16):
            loss = compiled(input_ids=ids, labels=labels).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.4f}, lr {schedule.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
