"""A small OLMoE (sparse experts) from scratch: bf16 weights, Adafactor, load-balancing loss."""

import torch
from transformers import OlmoeConfig, OlmoeForCausalLM, Trainer, TrainingArguments, set_seed

cfg = dict(
    vocab_size=50304,
    hidden_size=1024,
    intermediate_size=512,
    num_hidden_layers=12,
    num_attention_heads=16,
    num_key_value_heads=16,
    num_experts=32,
    num_experts_per_tok=4,
)
SEQ = 1024
BATCH = 8
STEPS = 16
ROWS = 160


class Tokens(torch.utils.data.Dataset):
    def __init__(self, rows, seq, vocab):
        self.data = torch.randint(0, vocab, (rows, seq), generator=torch.Generator().manual_seed(6))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return {"input_ids": self.data[i], "labels": self.data[i]}


def make_model(device):
    config = OlmoeConfig(
        **cfg,
        max_position_embeddings=2048,
        output_router_logits=True,
        router_aux_loss_coef=0.01,
        use_cache=False,
    )
    with torch.device(device):
        model = OlmoeForCausalLM(config)
    return model.to(torch.bfloat16)


if __name__ == "__main__":
    set_seed(6)
    model = make_model("cuda" if torch.cuda.is_available() else "cpu")
    total = sum(p.numel() for p in model.parameters())
    print(f"{total / 1e9:.2f}B parameters, dtype {next(model.parameters()).dtype}")

    training = TrainingArguments(
        output_dir="olmoe_experts",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        optim="adafactor",
        learning_rate=1e-3,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=4,
        max_grad_norm=1.0,
        logging_steps=4,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(
        model=model, args=training, train_dataset=Tokens(ROWS, SEQ, cfg["vocab_size"])
    )
    out = trainer.train()
    print(out.metrics)
