"""Supervised fine-tuning with trl: prompt/completion pairs, LoRA on a 1.5B Qwen2, completion-only loss, evaluation."""

import argparse
import random

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import SFTConfig, SFTTrainer


def make_tokenizer(n_words):
    vocab = {"<pad>": 0, "<unk>": 1, "<eos>": 2}
    for i in range(n_words):
        vocab[f"w{i}"] = i + 3
    tok = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tok, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>"
    )


def pairs(n, n_words, longest, seed):
    rnd = random.Random(seed)

    def words(k):
        return " ".join(f"w{rnd.randrange(n_words)}" for _ in range(k))

    return Dataset.from_list(
        [
            {
                "prompt": words(rnd.randint(16, longest // 2)),
                "completion": " " + words(rnd.randint(16, longest // 2)),
            }
            for _ in range(n)
        ]
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=1536)
    ap.add_argument("--layers", type=int, default=28)
    ap.add_argument("--words", type=int, default=60000)
    ap.add_argument("--max_length", type=int, default=768)
    ap.add_argument("--train", type=int, default=160)
    ap.add_argument("--batch", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(0)

    tokenizer = make_tokenizer(args.words)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=151936 if args.words > 10000 else args.words + 3,
            hidden_size=args.hidden,
            intermediate_size=args.hidden * 35 // 6,
            num_hidden_layers=args.layers,
            num_attention_heads=12,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    ).to(torch.bfloat16)

    config = SFTConfig(
        output_dir="sft_lora",
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch,
        gradient_accumulation_steps=2,
        gradient_checkpointing=False,
        num_train_epochs=1,
        learning_rate=2e-4,
        max_length=args.max_length,
        completion_only_loss=True,
        bf16=True,
        eval_strategy="steps",
        eval_steps=5,
        logging_steps=2,
        save_strategy="no",
        report_to="none",
    )
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=pairs(args.train, args.words, args.max_length, 0),
        eval_dataset=pairs(args.batch * 3, args.words, args.max_length, 1),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=32,
            lora_alpha=16,
            lora_dropout=0.05,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )
    trainer.model.print_trainable_parameters()
    trainer.train()
    metrics = trainer.evaluate()
    print({k: round(v, 4) for k, v in metrics.items() if isinstance(v, float)})
    trainer.save_model("sft_lora/adapter")


if __name__ == "__main__":
    main()
