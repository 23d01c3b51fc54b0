"""Prefix tuning of a frozen bf16 Helium model on short notes: projected prefix, plain loop, held-out loss after each pass."""

import torch
from peft import PrefixTuningConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import (
    HeliumConfig,
    HeliumForCausalLM,
    get_cosine_schedule_with_warmup,
)

VOCAB = 48000
HIDDEN = 2048
LAYERS = 16
HEADS = 16
PREFIX = 40
LENGTH = 512
BATCH = 12
PASSES = 2


class Notes(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(4, VOCAB, (n, LENGTH), generator=g)
        self.used = torch.randint(LENGTH // 3, LENGTH + 1, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        mask = (torch.arange(LENGTH) < self.used[i]).long()
        labels = self.ids[i].masked_fill(mask == 0, -100)
        return {
            "input_ids": self.ids[i] * mask + 3 * (1 - mask),
            "attention_mask": mask,
            "labels": labels,
        }


def build(device):
    config = HeliumConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=5632,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HIDDEN // HEADS,
        max_position_embeddings=2048,
    )
    with device:
        base = HeliumForCausalLM(config).to(torch.bfloat16)
    peft_config = PrefixTuningConfig(
        task_type=TaskType.CAUSAL_LM,
        num_virtual_tokens=PREFIX,
        prefix_projection=True,
        encoder_hidden_size=512,
    )
    model = get_peft_model(base, peft_config).to(device)
    model.print_trainable_parameters()
    return model


def main():
    torch.manual_seed(70)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(device)
    train = DataLoader(Notes(180, 1), batch_size=BATCH, shuffle=True)
    test = DataLoader(Notes(48, 2), batch_size=2 * BATCH)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 3, PASSES * len(train))
    for number in range(PASSES):
        model.train()
        for batch in train:
            batch = {k: v.to(device) for k, v in batch.items()}
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        model.eval()
        held = []
        with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
            for batch in test:
                held.append(model(**{k: v.to(device) for k, v in batch.items()}).loss.item())
        print(f"pass {number}: train {loss.item():.3f} held out {sum(held) / len(held):.3f}")


if __name__ == "__main__":
    main()
