"""Sample short stories from a GraniteMoE decoder: top-p and temperature sweep, four continuations per prompt, distinct-n as the measure."""

import itertools
from dataclasses import dataclass

import torch
from transformers import GenerationConfig, GraniteMoeConfig, GraniteMoeForCausalLM


@dataclass
class Settings:
    vocab: int = 49_152
    hidden: int = 1536
    expert: int = 512
    layers: int = 18
    heads: int = 24
    experts: int = 24
    active: int = 6
    prompts: int = 10
    prompt_len: int = 640
    new: int = 90
    copies: int = 4
    temperatures: tuple = (0.7, 1.1)
    seed: int = 1001


def load(s, device):
    config = GraniteMoeConfig(
        vocab_size=s.vocab,
        hidden_size=s.hidden,
        intermediate_size=s.expert,
        num_hidden_layers=s.layers,
        num_attention_heads=s.heads,
        num_key_value_heads=s.heads // 3,
        num_local_experts=s.experts,
        num_experts_per_tok=s.active,
        max_position_embeddings=s.prompt_len + s.new,
        attention_multiplier=(s.hidden // s.heads) ** -0.5,
        logits_scaling=6.0,
        residual_multiplier=0.22,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.device(device):
        model = GraniteMoeForCausalLM(config)
    return model.to(torch.bfloat16).eval()


def distinct(tokens, n):
    grams = [tuple(row[i : i + n]) for row in tokens for i in range(len(row) - n + 1)]
    return len(set(grams)) / max(1, len(grams))


def main():
    s = Settings()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(s.seed)
    model = load(s, device)
    total = sum(p.numel() for p in model.parameters())
    print(f"{total / 1e9:.2f}B parameters on {device}")
    g = torch.Generator().manual_seed(s.seed)
    prompt = torch.randint(3, s.vocab, (s.prompts, s.prompt_len), generator=g).to(device)
    for temperature, top_p in itertools.product(s.temperatures, (0.9,)):
        config = GenerationConfig(
            do_sample=True,
            temperature=temperature,
            top_p=top_p,
            top_k=0,
            repetition_penalty=1.05,
            max_new_tokens=s.new,
            num_return_sequences=s.copies,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
        with torch.inference_mode():
            out = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), generation_config=config
            )
        new = out[:, s.prompt_len :].tolist()
        print(
            f"T={temperature} p={top_p}: distinct-1 {distinct(new, 1):.3f} distinct-2 {distinct(new, 2):.3f}"
        )


if __name__ == "__main__":
    main()
