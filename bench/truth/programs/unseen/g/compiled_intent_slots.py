"""Joint intent classification and slot filling: a RoBERTa encoder under torch.compile, fp16 with GradScaler."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import RobertaConfig, RobertaModel, get_linear_schedule_with_warmup


class Utterances(Dataset):
    def __init__(self, n, length, vocab, intents, slots, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, vocab, (n, length), generator=g)
        self.ids[:, 0] = 0
        lengths = torch.randint(5, length + 1, (n,), generator=g)
        self.mask = (torch.arange(length)[None] < lengths[:, None]).long()
        self.ids[self.mask == 0] = 1
        self.intent = self.ids[:, 1] % intents
        self.slot = self.ids % slots
        self.slot[self.mask == 0] = -100

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.ids[i], self.mask[i], self.intent[i], self.slot[i]


class JointModel(nn.Module):
    def __init__(self, config, intents, slots):
        super().__init__()
        self.roberta = RobertaModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(0.1)
        self.intent_head = nn.Sequential(
            nn.Linear(config.hidden_size, config.hidden_size),
            nn.Tanh(),
            nn.Linear(config.hidden_size, intents),
        )
        self.slot_head = nn.Linear(config.hidden_size + intents, slots)

    def forward(self, ids, mask):
        hidden = self.dropout(self.roberta(input_ids=ids, attention_mask=mask).last_hidden_state)
        intent = self.intent_head(hidden[:, 0])
        context = intent.softmax(-1)[:, None, :].expand(-1, hidden.size(1), -1)
        return intent, self.slot_head(torch.cat([hidden, context.to(hidden.dtype)], dim=-1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--backend", default="inductor")
    ap.add_argument("--hidden", type=int, default=768)
    ap.add_argument("--layers", type=int, default=12)
    ap.add_argument("--length", type=int, default=64)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--n", type=int, default=5120)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()
    device = torch.device(args.device)
    intents, slots, vocab = 64, 129, 50265
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    config = RobertaConfig(
        vocab_size=vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=12,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=514,
        type_vocab_size=1,
    )
    model = JointModel(config, intents, slots).to(device)
    compiled = torch.compile(model, backend=args.backend)
    train = DataLoader(
        Utterances(args.n, args.length, vocab, intents, slots, 0),
        args.batch,
        shuffle=True,
        drop_last=True,
        pin_memory=True,
    )
    val = DataLoader(Utterances(args.batch * 4, args.length, vocab, intents, slots, 1), args.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    scheduler = get_linear_schedule_with_warmup(optimizer, 10, len(train) * args.epochs)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    amp_dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    ce = nn.CrossEntropyLoss()
    ce_slots = nn.CrossEntropyLoss(ignore_index=-100, label_smoothing=0.05)

    for epoch in range(args.epochs):
        model.train()
        t0 = time.time()
        for step, batch in enumerate(train):
            ids, mask, intent, slot = (t.to(device, non_blocking=True) for t in batch)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=amp_dtype):
                intent_logits, slot_logits = compiled(ids, mask)
                loss = ce(intent_logits, intent) + 2.0 * ce_slots(
                    slot_logits.flatten(0, 1), slot.flatten()
                )
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            if step % 10 == 0:
                print(
                    f"epoch {epoch} step {step:3d} loss {loss.item():.4f} scale {scaler.get_scale():.0f}"
                )
        print(f"epoch {epoch} took {time.time() - t0:.1f} s")

        model.eval()
        right_intent = right_slot = total_slot = frames = total = 0
        with torch.no_grad():
            for ids, mask, intent, slot in val:
                ids, mask, intent, slot = (
                    ids.to(device),
                    mask.to(device),
                    intent.to(device),
                    slot.to(device),
                )
                with torch.autocast(device.type, dtype=amp_dtype):
                    intent_logits, slot_logits = compiled(ids, mask)
                ok_intent = intent_logits.argmax(-1) == intent
                valid = slot != -100
                ok_slot = (slot_logits.argmax(-1) == slot) & valid
                right_intent += ok_intent.sum().item()
                right_slot += ok_slot.sum().item()
                total_slot += valid.sum().item()
                frames += (ok_intent & ((ok_slot | ~valid).all(1))).sum().item()
                total += len(ids)
        print(
            f"intent acc {right_intent / total:.3f}, slot acc {right_slot / total_slot:.3f}, frame acc {frames / total:.3f}"
        )
    torch.save({"model": model.state_dict(), "config": config.to_dict()}, "intent_slots.pt")


if __name__ == "__main__":
    main()
