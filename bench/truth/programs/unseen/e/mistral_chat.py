"""A 7B Mistral from its configuration in bf16: a few chats that go on with their cache, then one batch of questions."""

import os

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

LAYERS = int(os.environ.get("LAYERS", "32"))
WIDTH = int(os.environ.get("WIDTH", "4096"))
VOCAB = int(os.environ.get("VOCAB", "32000"))
TURNS = int(os.environ.get("TURNS", "3"))
PROMPT = int(os.environ.get("PROMPT", "400"))
ANSWER = int(os.environ.get("ANSWER", "64"))
QUESTIONS = int(os.environ.get("QUESTIONS", "8"))
device = "cuda" if torch.cuda.is_available() else "cpu"


def load_model():
    config = MistralConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=WIDTH * 7 // 2,
        num_hidden_layers=LAYERS,
        num_attention_heads=32,
        num_key_value_heads=8,
        sliding_window=None,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = MistralForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


@torch.inference_mode()
def chat(model, turns):
    """Each turn sends what was said so far; the cache holds all but the newest words."""
    cache = DynamicCache(config=model.config)
    history = torch.empty(1, 0, dtype=torch.long, device=device)
    for _ in range(turns):
        words = torch.randint(3, VOCAB, (1, PROMPT), device=device)
        history = torch.cat([history, words], 1)
        history = model.generate(
            history,
            attention_mask=torch.ones_like(history),
            past_key_values=cache,
            max_new_tokens=ANSWER,
            do_sample=True,
            temperature=0.7,
            pad_token_id=2,
        )
    return history


@torch.inference_mode()
def answer_all(model, count):
    lengths = torch.randint(PROMPT // 4, PROMPT + 1, (count,)).tolist()
    longest = max(lengths)
    ids = torch.full((count, longest), 2)
    mask = torch.zeros(count, longest, dtype=torch.long)
    for i, n in enumerate(lengths):
        ids[i, longest - n :] = torch.randint(3, VOCAB, (n,))
        mask[i, longest - n :] = 1
    return model.generate(
        ids.to(device),
        attention_mask=mask.to(device),
        max_new_tokens=ANSWER,
        do_sample=False,
        pad_token_id=2,
    )


def main():
    torch.manual_seed(0)
    model = load_model()
    size = sum(p.numel() for p in model.parameters())
    print(f"{size / 1e9:.2f} billion parameters")
    for number in range(2):
        history = chat(model, TURNS)
        print(f"chat {number}: {history.shape[1]} tokens, last {history[0, -3:].tolist()}")
    answers = answer_all(model, QUESTIONS)
    print("answers", tuple(answers.shape))
    if device == "cuda":
        print(f"{torch.cuda.max_memory_reserved() / 2**30:.2f} GiB reserved")


if __name__ == "__main__":
    main()
