# Prompt tuning (20 virtual tokens) of a Llama, ~1.3B, frozen in bf16, for complaint classification as LM.
import torch
from peft import PromptTuningConfig, PromptTuningInit, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

device = "cuda"
HIDDEN = 2048
LAYERS = 24
VOCAB = 32000
MAX_LENGTH = 192
N_TRAIN, N_EVAL = 256, 64
BATCH = 16
EPOCHS = 3
LR = 3e-2
PAD = 0
LABELS = {"complaint": [4960, 524, 2], "no complaint": [694, 15313, 2]}

torch.manual_seed(42)


def make(n, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for i in range(n):
        length = int(torch.randint(20, MAX_LENGTH - 8, (1,), generator=g))
        text = torch.randint(100, VOCAB, (length,), generator=g).tolist()
        rows.append((text, list(LABELS.values())[text[0] % 2]))
    return rows


def train_collate(rows):
    # left padding, labels only on the answer
    ids, labels, mask = [], [], []
    for text, answer in rows:
        answer = [a % VOCAB for a in answer]
        pad = MAX_LENGTH - len(text) - len(answer)
        ids.append([PAD] * pad + text + answer)
        mask.append([0] * pad + [1] * (len(text) + len(answer)))
        labels.append([-100] * (pad + len(text)) + answer)
    return {
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(mask),
        "labels": torch.tensor(labels),
    }


def test_collate(rows):
    longest = max(len(t) for t, _ in rows)
    ids = torch.tensor([[PAD] * (longest - len(t)) + t for t, _ in rows])
    mask = torch.tensor([[0] * (longest - len(t)) + [1] * len(t) for t, _ in rows])
    return {"input_ids": ids, "attention_mask": mask}, torch.tensor([a[0] % VOCAB for _, a in rows])


config = LlamaConfig(
    vocab_size=VOCAB,
    hidden_size=HIDDEN,
    intermediate_size=HIDDEN * 43 // 16,
    num_hidden_layers=LAYERS,
    num_attention_heads=16,
    num_key_value_heads=16,
    max_position_embeddings=2048,
    pad_token_id=PAD,
    bos_token_id=1,
    eos_token_id=2,
)
model = LlamaForCausalLM(config).to(dtype=torch.bfloat16)
peft_config = PromptTuningConfig(
    task_type=TaskType.CAUSAL_LM, prompt_tuning_init=PromptTuningInit.RANDOM, num_virtual_tokens=20
)
model = get_peft_model(model, peft_config)
model.print_trainable_parameters()
model = model.to(device)

train_loader = DataLoader(
    make(N_TRAIN, 0), batch_size=BATCH, shuffle=True, collate_fn=train_collate
)
eval_loader = DataLoader(make(N_EVAL, 1), batch_size=BATCH, collate_fn=train_collate)
test_loader = DataLoader(make(N_EVAL, 2), batch_size=BATCH * 2, collate_fn=test_collate)

optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
scheduler = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=LR, total_steps=len(train_loader) * EPOCHS
)

best, bad_epochs = float("inf"), 0
for epoch in range(EPOCHS):
    model.train()
    total_loss = 0.0
    for batch in train_loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        total_loss += loss.item()

    model.eval()
    eval_loss = 0.0
    eval_preds = []
    for batch in eval_loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        with torch.no_grad():
            outputs = model(**batch)
        eval_loss += outputs.loss.item()
        eval_preds.extend(torch.argmax(outputs.logits, -1).detach().cpu().numpy().tolist())
    eval_loss /= len(eval_loader)
    print(
        f"epoch {epoch}: train {total_loss / len(train_loader):.4f} eval {eval_loss:.4f} ({len(eval_preds)} rows)"
    )
    if eval_loss < best:
        best, bad_epochs = eval_loss, 0
        model.save_pretrained("prompt_tuned")
    else:
        bad_epochs += 1
        if bad_epochs >= 2:
            print("no better for two epochs, stopping")
            break

hits = total = 0
with torch.no_grad():
    for inputs, answers in test_loader:
        inputs = {k: v.to(device) for k, v in inputs.items()}
        out = model.generate(
            **inputs, max_new_tokens=6, do_sample=False, eos_token_id=2, pad_token_id=PAD
        )
        first = out[:, inputs["input_ids"].shape[1]].cpu()
        hits += (first == answers).sum().item()
        total += len(answers)
print(f"test: {hits}/{total}")
