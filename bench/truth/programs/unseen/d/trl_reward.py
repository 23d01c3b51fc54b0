"""A reward model with TRL: two answers to each question, one of them better; a Qwen2 with one number as its output."""

import argparse
import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification
from trl import RewardConfig, RewardTrainer

WORDS = [f"word{i}" for i in range(200)]


def word_tokenizer():
    vocab = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>", *WORDS, "?", ".", ":"])}
    core = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def comparisons(count, longest, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        question = " ".join(rng.choices(WORDS, k=rng.randint(10, 40))) + " ?"
        good = " ".join(rng.choices(WORDS[:120], k=rng.randint(30, longest))) + " ."
        bad = " ".join(rng.choices(WORDS[80:], k=rng.randint(5, longest))) + " ."
        rows.append({"chosen": f"{question} {good}", "rejected": f"{question} {bad}"})
    return Dataset.from_list(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=320)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--longest", type=int, default=450)
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(3)
    gpu = torch.cuda.is_available()
    tokenizer = word_tokenizer()
    model = Qwen2ForSequenceClassification(
        Qwen2Config(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            intermediate_size=args.hidden * 4,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            num_key_value_heads=args.hidden // 128,
            num_labels=1,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(
            output_dir="reward",
            max_length=args.max_length,
            per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=args.batch * 2,
            gradient_accumulation_steps=2,
            gradient_checkpointing=False,
            num_train_epochs=1,
            learning_rate=1e-5,
            center_rewards_coefficient=0.01,
            bf16=gpu,
            use_cpu=not gpu,
            eval_strategy="epoch",
            save_strategy="no",
            logging_steps=5,
            report_to="none",
        ),
        train_dataset=comparisons(args.pairs, args.longest, 1),
        eval_dataset=comparisons(args.pairs // 5, args.longest, 2),
        processing_class=tokenizer,
    )
    trainer.train()
    print({k: v for k, v in trainer.evaluate().items() if "accuracy" in k or "loss" in k})
    trainer.save_model("reward/final")


if __name__ == "__main__":
    main()
