"""Supervised fine-tuning with TRL: texts packed into full blocks, LoRA, bf16, evaluation before and after."""

import argparse
import random

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

NOUNS = ["engine", "garden", "letter", "bridge", "violin", "kitchen", "mirror", "storm"]
VERBS = ["repair", "describe", "draw", "measure", "paint", "compare"]


def byte_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(["<pad>", "<eos>", *alphabet])}
    core = Tokenizer(models.BPE(vocab, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>")


def texts(count, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        lines = [
            f"Please {rng.choice(VERBS)} the {rng.choice(NOUNS)}."
            for _ in range(rng.randint(2, 20))
        ]
        rows.append({"text": "\n".join(lines)})
    return Dataset.from_list(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-texts", type=int, default=1500)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--max-length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = byte_tokenizer()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32000,
            hidden_size=args.hidden,
            intermediate_size=args.hidden * 3,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            num_key_value_heads=args.hidden // 128,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
    config = SFTConfig(
        output_dir="sft",
        max_length=args.max_length,
        packing=True,
        packing_strategy="wrapped",
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch,
        gradient_accumulation_steps=2,
        gradient_checkpointing=False,
        max_steps=args.steps,
        learning_rate=2e-4,
        bf16=torch.cuda.is_available(),
        eval_strategy="steps",
        eval_steps=10,
        save_strategy="no",
        logging_steps=5,
        report_to="none",
    )
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=texts(args.train_texts, 1),
        eval_dataset=texts(args.train_texts // 8, 2),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
    )
    print(trainer.evaluate())
    trainer.train()
    trainer.save_model("sft-final")


if __name__ == "__main__":
    main()
