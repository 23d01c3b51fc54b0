"""Direct preference optimisation of a small SmolLM3 with trl (full weights, explicit reference model)."""

import copy
import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, SmolLM3Config, SmolLM3ForCausalLM, set_seed
from trl import DPOConfig, DPOTrainer

WORDS = 32000
HIDDEN = 1024
LAYERS = 16
PAIRS = 200
MAX_LENGTH = 768
PROMPT_WORDS = (64, 256)
ANSWER_WORDS = (64, 448)
BATCH = 4
STEPS = 15


def word_tokenizer():
    vocab = {"<pad>": 0, "<unk>": 1, "<bos>": 2, "<eos>": 3}
    vocab.update({f"t{i}": i + 4 for i in range(WORDS - 4)})
    raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
    )


def preferences(n, seed):
    rng = random.Random(seed)

    def say(bounds):
        return " ".join(f"t{rng.randrange(WORDS - 4)}" for _ in range(rng.randint(*bounds)))

    rows = []
    for _ in range(n):
        rows.append(
            {
                "prompt": say(PROMPT_WORDS),
                "chosen": " " + say(ANSWER_WORDS),
                "rejected": " " + say(ANSWER_WORDS),
            }
        )
    return Dataset.from_list(rows)


def main():
    set_seed(12)
    tokenizer = word_tokenizer()
    policy = SmolLM3ForCausalLM(
        SmolLM3Config(
            vocab_size=WORDS,
            hidden_size=HIDDEN,
            intermediate_size=4 * HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=16,
            num_key_value_heads=4,
            max_position_embeddings=2048,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
        )
    )
    reference = copy.deepcopy(policy).eval()
    args = DPOConfig(
        output_dir="dpo_smollm3",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=2,
        learning_rate=5e-6,
        beta=0.1,
        loss_type="sigmoid",
        max_length=MAX_LENGTH,
        gradient_checkpointing=False,
        bf16=True,
        logging_steps=3,
        save_strategy="no",
        report_to="none",
    )
    trainer = DPOTrainer(
        model=policy,
        ref_model=reference,
        args=args,
        train_dataset=preferences(PAIRS, 5),
        processing_class=tokenizer,
    )
    trainer.train()
    print("margin:", [h.get("rewards/margins") for h in trainer.state.log_history][-3:])
    if torch.cuda.is_available():
        print(f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
