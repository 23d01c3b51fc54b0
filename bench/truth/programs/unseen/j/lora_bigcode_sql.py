"""LoRA on a GPTBigCode (multi-query attention) whose weights are kept in bf16; text-to-SQL, plain loop."""

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM, get_linear_schedule_with_warmup

SEQ = 1536
BATCH = 6
STEPS = 20
VOCAB = 49152
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIG = GPTBigCodeConfig(
    vocab_size=VOCAB,
    n_embd=2048,
    n_layer=24,
    n_head=16,
    n_positions=2048,
    use_cache=False,
    bos_token_id=0,
    eos_token_id=0,
)


class SqlPairs(Dataset):
    """The schema and question are masked out of the loss."""

    def __init__(self, n):
        g = torch.Generator().manual_seed(50)
        self.ids = torch.randint(1, VOCAB, (n, SEQ), generator=g)
        self.question = torch.randint(SEQ // 2, SEQ - 8, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        labels = self.ids[i].clone()
        labels[: self.question[i]] = -100
        return self.ids[i], labels


def get_model():
    torch.manual_seed(50)
    with torch.device(DEVICE):
        base = GPTBigCodeForCausalLM(CONFIG)
    base = base.to(torch.bfloat16)
    lora = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=32,
        lora_alpha=64,
        lora_dropout=0.05,
        target_modules=["c_attn", "c_proj", "c_fc"],
    )
    model = get_peft_model(base, lora)
    model.print_trainable_parameters()
    return model


def train():
    model = get_model()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=2e-4)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, STEPS)
    loader = DataLoader(SqlPairs(BATCH * STEPS), batch_size=BATCH, shuffle=True)
    model.train()
    for step, (ids, labels) in enumerate(loader, 1):
        ids, labels = ids.to(DEVICE), labels.to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 5 == 0:
            print(f"{step:3d} {loss.item():.4f}")
    model.save_pretrained("lora_sql_adapter")


if __name__ == "__main__":
    train()
