"""Intent classification in many languages: XLM-R large with LoRA, fp16 autocast and GradScaler."""

import torch
import torch.nn.functional as F
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

VOCAB = 250002
HIDDEN = 1024
LAYERS = 24
HEADS = 16
INTENTS = 60
LENGTH = 96
TRAIN = 1000
VALID = 400
BATCH = 48
EPOCHS = 2
DEVICE = "cuda"


def utterances(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, INTENTS, (n,), generator=g)
    ids = torch.randint(10, VOCAB, (n, LENGTH), generator=g)
    ids[:, 1:6] = y[:, None] * 5 + torch.arange(5) + 10
    lengths = torch.randint(10, LENGTH + 1, (n, 1), generator=g)
    mask = (torch.arange(LENGTH)[None] < lengths).long()
    ids = ids.masked_fill(mask == 0, 1)
    ids[:, 0] = 0
    return TensorDataset(ids, mask, y)


def evaluate(model, loader):
    model.eval()
    hits, loss, seen = 0, 0.0, 0
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.float16):
        for ids, mask, y in loader:
            ids, mask, y = ids.to(DEVICE), mask.to(DEVICE), y.to(DEVICE)
            logits = model(input_ids=ids, attention_mask=mask).logits
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            hits += (logits.argmax(-1) == y).sum().item()
            seen += len(y)
    return hits / seen, loss / seen


def main():
    config = XLMRobertaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * HIDDEN,
        max_position_embeddings=514,
        type_vocab_size=1,
        num_labels=INTENTS,
        pad_token_id=1,
    )
    with torch.device(DEVICE):
        model = XLMRobertaForSequenceClassification(config)
    lora = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=8,
        lora_alpha=16,
        lora_dropout=0.1,
        target_modules=["query", "value"],
    )
    model = get_peft_model(model, lora).to(DEVICE)
    model.print_trainable_parameters()

    train = DataLoader(
        utterances(TRAIN, 0), batch_size=BATCH, shuffle=True, pin_memory=DEVICE != "cpu"
    )
    valid = DataLoader(utterances(VALID, 1), batch_size=3 * BATCH)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: max(0.0, 1 - s / (EPOCHS * len(train)))
    )
    scaler = torch.amp.GradScaler(DEVICE)

    best = 0.0
    for epoch in range(EPOCHS):
        model.train()
        for step, (ids, mask, y) in enumerate(train):
            ids, mask, y = (t.to(DEVICE, non_blocking=True) for t in (ids, mask, y))
            with torch.autocast(DEVICE, dtype=torch.float16):
                loss = model(input_ids=ids, attention_mask=mask, labels=y).loss
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            if step % 10 == 0:
                print(
                    f"epoch {epoch} step {step} loss {loss.item():.3f} scale {scaler.get_scale():.0f}"
                )
        accuracy, valid_loss = evaluate(model, valid)
        print(f"epoch {epoch} accuracy {accuracy:.3f} loss {valid_loss:.3f}")
        if accuracy >= best:
            best = accuracy
            model.save_pretrained("xlmr-intents-lora")


if __name__ == "__main__":
    main()
