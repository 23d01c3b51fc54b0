"""Route support tickets with SqueezeBERT: accelerate in fp16, gathers metrics, unfreezes the embeddings after the first epoch."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    SqueezeBertConfig,
    SqueezeBertForSequenceClassification,
    get_linear_schedule_with_warmup,
)

QUEUES = 27
LENGTH = 320
TRAIN, VALID = 960, 256
BATCH, VALID_BATCH = 48, 128
EPOCHS = 2


def tickets(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1000, 30522, (n, LENGTH), generator=g)
    used = torch.randint(20, LENGTH + 1, (n, 1), generator=g)
    mask = (torch.arange(LENGTH)[None] < used).long()
    return TensorDataset(ids * mask, mask, torch.randint(0, QUEUES, (n,), generator=g))


def main():
    accelerator = Accelerator(mixed_precision="fp16")
    set_seed(23)
    model = SqueezeBertForSequenceClassification(SqueezeBertConfig(num_labels=QUEUES))
    embeddings = model.get_input_embeddings()
    embeddings.weight.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    train = DataLoader(tickets(TRAIN, 1), batch_size=BATCH, shuffle=True, drop_last=True)
    valid = DataLoader(tickets(VALID, 2), batch_size=VALID_BATCH)
    schedule = get_linear_schedule_with_warmup(optimizer, 4, EPOCHS * len(train))
    model, optimizer, train, valid, schedule = accelerator.prepare(
        model, optimizer, train, valid, schedule
    )

    for epoch in range(EPOCHS):
        if epoch == 1:
            embeddings.weight.requires_grad_(True)
        model.train()
        for step, (ids, mask, queue) in enumerate(train):
            loss = model(input_ids=ids, attention_mask=mask, labels=queue).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if step % 5 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.3f}")
        model.eval()
        right = total = 0
        for ids, mask, queue in valid:
            with torch.no_grad():
                logits = model(input_ids=ids, attention_mask=mask).logits
            guess, truth = accelerator.gather_for_metrics((logits.argmax(-1), queue))
            right += (guess == truth).sum().item()
            total += len(truth)
        accelerator.print(f"epoch {epoch} accuracy {right / total:.3f}")


if __name__ == "__main__":
    main()
