"""LoRA on a Phi of 1.3 billion parameters: bf16 weights, checkpointing, Trainer, then merged and asked."""

import argparse
import random

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import PhiConfig, PhiForCausalLM, Trainer, TrainingArguments, set_seed


def instructions(count, vocab, longest, seed):
    """A question that is not learned, and an answer that is."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        question = [rng.randrange(20, vocab) for _ in range(rng.randint(20, longest // 2))]
        answer = [t + 1 if t + 1 < vocab else 20 for t in question[::-1]][: longest // 2]
        ids = [1, *question, 3, *answer, 2]
        rows.append(
            {"input_ids": ids, "labels": [-100] * (len(question) + 2) + ids[len(question) + 2 :]}
        )
    return rows


def pad_to(longest):
    """Every batch has the same width, as with padding="max_length"."""

    def collate(rows):
        batch = {"input_ids": [], "labels": [], "attention_mask": []}
        for row in rows:
            ids, labels = row["input_ids"][:longest], row["labels"][:longest]
            rest = longest - len(ids)
            batch["input_ids"].append(ids + [0] * rest)
            batch["labels"].append(labels + [-100] * rest)
            batch["attention_mask"].append([1] * len(ids) + [0] * rest)
        return {key: torch.tensor(value) for key, value in batch.items()}

    return collate


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--vocab", type=int, default=51200)
    p.add_argument("--rows", type=int, default=160)
    p.add_argument("--longest", type=int, default=768)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--rank", type=int, default=32)
    p.add_argument("--new", type=int, default=48)
    a = p.parse_args()
    set_seed(21)
    gpu = torch.cuda.is_available()
    config = PhiConfig(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=4 * a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=a.hidden // 64,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.device("cuda" if gpu else "cpu"):
        model = PhiForCausalLM(config).to(torch.bfloat16)
    model.config.use_cache = False
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model = get_peft_model(
        model,
        LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            r=a.rank,
            lora_alpha=2 * a.rank,
            lora_dropout=0.05,
            target_modules=["q_proj", "k_proj", "v_proj", "fc1", "fc2"],
            use_rslora=True,
        ),
    )
    model.print_trainable_parameters()
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="phi-lora",
            num_train_epochs=1,
            per_device_train_batch_size=a.batch,
            per_device_eval_batch_size=2 * a.batch,
            gradient_accumulation_steps=a.accumulate,
            learning_rate=2e-4,
            lr_scheduler_type="cosine",
            warmup_steps=2,
            max_grad_norm=0.3,
            bf16=gpu,
            use_cpu=not gpu,
            eval_strategy="epoch",
            prediction_loss_only=True,
            save_strategy="no",
            logging_steps=2,
            report_to="none",
        ),
        train_dataset=instructions(a.rows, a.vocab, a.longest, 1),
        eval_dataset=instructions(a.rows // 5, a.vocab, a.longest, 2),
        data_collator=pad_to(a.longest),
    )
    trainer.train()
    model.save_pretrained("phi-adapter")
    merged = model.merge_and_unload()
    merged.config.use_cache = True
    merged.eval()
    ids = torch.randint(20, a.vocab, (8, 64), device=merged.device)
    out = merged.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=a.new,
        do_sample=True,
        top_p=0.9,
        pad_token_id=0,
    )
    print(out[:2, 64:].tolist())


if __name__ == "__main__":
    main()
