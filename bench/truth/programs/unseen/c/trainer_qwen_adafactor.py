"""A small Qwen2 on arithmetic texts: Trainer with fp16, Adafactor and checkpointing, a callback that lets it speak."""

import sys

import torch
import yaml
from torch.utils.data import IterableDataset
from transformers import (
    Qwen2Config,
    Qwen2ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

SETTINGS = """
vocab: 32000
hidden: 1024
layers: 16
heads: 16
kv_heads: 4
width: 512
batch: 12
accumulate: 2
steps: 24
speak_every: 12
new_tokens: 48
"""


class Sums(IterableDataset):
    """Texts of 'a b a+b' as numbers of words."""

    def __init__(self, vocab, width, seed):
        self.vocab, self.width, self.seed = vocab, width, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        while True:
            a = torch.randint(3, self.vocab // 2, (self.width // 3 + 1, 2), generator=g)
            ids = torch.cat([a, a.sum(1, keepdim=True) % self.vocab], 1).flatten()[: self.width]
            yield {"input_ids": ids, "labels": ids.clone()}


class Speak(TrainerCallback):
    def __init__(self, every, new_tokens):
        self.every, self.new_tokens = every, new_tokens

    def on_step_end(self, args, state, control, model=None, **_):
        if state.global_step % self.every:
            return
        model.eval()
        prompt = torch.arange(3, 19, device=model.device)[None].repeat(4, 1)
        with torch.no_grad():
            text = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=self.new_tokens,
                do_sample=False,
                pad_token_id=0,
            )
        print(f"step {state.global_step}: {text[0, -8:].tolist()}")
        model.train()


def main():
    s = yaml.safe_load(SETTINGS) | dict(
        yaml.safe_load(w.replace("=", ": ")).popitem() for w in sys.argv[1:]
    )
    set_seed(13)
    gpu = torch.cuda.is_available()
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=s["vocab"],
            hidden_size=s["hidden"],
            intermediate_size=s["hidden"] * 3,
            num_hidden_layers=s["layers"],
            num_attention_heads=s["heads"],
            num_key_value_heads=s["kv_heads"],
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            bos_token_id=1,
            eos_token_id=2,
        )
    )
    arguments = TrainingArguments(
        output_dir="sums",
        max_steps=s["steps"],
        per_device_train_batch_size=s["batch"],
        gradient_accumulation_steps=s["accumulate"],
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        optim="adafactor",
        learning_rate=1e-3,
        fp16=gpu,
        use_cpu=not gpu,
        max_grad_norm=0.5,
        logging_steps=6,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=Sums(s["vocab"], s["width"], 13),
        callbacks=[Speak(s["speak_every"], s["new_tokens"])],
    )
    result = trainer.train()
    print(f"loss {result.training_loss:.3f}")
    trainer.save_model("sums/last")


if __name__ == "__main__":
    main()
