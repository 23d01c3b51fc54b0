"""AdaLoRA on ERNIE for five-star reviews: the ranks are pruned while training (update_and_allocate)."""

import torch
from peft import AdaLoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import ErnieConfig, ErnieForSequenceClassification

STARS = 5
LENGTH = 384
BATCH = 64
LAYERS = 12
TOTAL_STEPS = 36
TINIT = 6
TFINAL = 12
VOCAB = 40000


def reviews(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(10, VOCAB, (n, LENGTH), generator=g)
    keep = torch.randint(LENGTH // 4, LENGTH + 1, (n, 1), generator=g)
    mask = (torch.arange(LENGTH)[None] < keep).long()
    return TensorDataset(ids * mask, mask, torch.randint(0, STARS, (n,), generator=g))


def make_model(device):
    base = ErnieForSequenceClassification(
        ErnieConfig(
            vocab_size=VOCAB,
            hidden_size=768,
            num_hidden_layers=LAYERS,
            intermediate_size=4 * 768,
            num_labels=STARS,
        )
    )
    config = AdaLoraConfig(
        task_type=TaskType.SEQ_CLS,
        init_r=16,
        target_r=6,
        lora_alpha=32,
        lora_dropout=0.1,
        tinit=TINIT,
        tfinal=TFINAL,
        deltaT=3,
        total_step=TOTAL_STEPS,
        orth_reg_weight=0.5,
        target_modules=["query", "key", "value", "dense"],
        modules_to_save=["classifier"],
    )
    model = get_peft_model(base, config).to(device)
    model.print_trainable_parameters()
    return model


def test(model, loader, device):
    model.eval()
    right = total = 0
    with torch.inference_mode():
        for ids, mask, stars in loader:
            logits = model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
            right += (logits.argmax(-1).cpu() == stars).sum().item()
            total += len(stars)
    model.train()
    return right / total


def main():
    torch.manual_seed(88)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = True
    model = make_model(device)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    train = DataLoader(reviews(TOTAL_STEPS * BATCH, 1), batch_size=BATCH, shuffle=True)
    held_out = DataLoader(reviews(4 * BATCH, 2), batch_size=2 * BATCH)

    for step, (ids, mask, stars) in enumerate(train):
        out = model(
            input_ids=ids.to(device), attention_mask=mask.to(device), labels=stars.to(device)
        )
        out.loss.backward()
        optimizer.step()
        model.base_model.update_and_allocate(step)
        optimizer.zero_grad()
        if step % 12 == 11:
            print(
                f"step {step}: loss {out.loss.item():.3f} accuracy {test(model, held_out, device):.3f}"
            )


if __name__ == "__main__":
    main()
