"""A GPT-2 medium learns stories with the Trainer: fp16, Adafactor, checkpointing, accumulation; it tells some after."""

import argparse
import math

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
)


class Blocks(torch.utils.data.Dataset):
    def __init__(self, count, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, vocab, (count, length), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class TellStory(TrainerCallback):
    """After each evaluation a few stories, as a look at how it goes."""

    def __init__(self, count, new):
        self.count, self.new = count, new

    def on_evaluate(self, args, state, control, model=None, **kwargs):
        model.eval()
        start = torch.full((self.count, 4), 50, device=model.device)
        out = model.generate(
            start, max_new_tokens=self.new, do_sample=True, top_k=50, pad_token_id=0
        )
        print(f"step {state.global_step}: {out[0, :12].tolist()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_layer", type=int, default=24)
    parser.add_argument("--n_embd", type=int, default=1024)
    parser.add_argument("--n_head", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--block_size", type=int, default=1024)
    parser.add_argument("--train_blocks", type=int, default=192)
    parser.add_argument("--eval_blocks", type=int, default=20)
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    parser.add_argument("--stories", type=int, default=16)
    parser.add_argument("--new_tokens", type=int, default=100)
    args = parser.parse_args()
    config = GPT2Config(
        vocab_size=args.vocab,
        n_positions=args.block_size,
        n_embd=args.n_embd,
        n_layer=args.n_layer,
        n_head=args.n_head,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    print(f"{model.num_parameters() / 1e6:.0f}M parameters")
    gpu = torch.cuda.is_available()
    training_args = TrainingArguments(
        output_dir="stories",
        per_device_train_batch_size=args.per_device_train_batch_size,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=args.gradient_accumulation_steps,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        num_train_epochs=1,
        fp16=gpu,
        optim="adafactor",
        learning_rate=1e-3,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=2,
        max_grad_norm=1.0,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=3,
        prediction_loss_only=True,
        save_strategy="no",
        report_to=[],
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=Blocks(args.train_blocks, args.block_size, args.vocab, 0),
        eval_dataset=Blocks(args.eval_blocks, args.block_size, args.vocab, 1),
        data_collator=default_data_collator,
        callbacks=[TellStory(args.stories, args.new_tokens)],
    )
    result = trainer.train()
    trainer.save_model()
    trainer.log_metrics("train", result.metrics)
    metrics = trainer.evaluate()
    print(f"perplexity {math.exp(min(metrics['eval_loss'], 20)):.1f}")


if __name__ == "__main__":
    main()
