"""Sample several answers per question from an OLMo-3 style model (sliding and full layers), keep the one with the best mean log-probability."""

import argparse

import torch
from transformers import GenerationConfig, Olmo3Config, Olmo3ForCausalLM


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=2048)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--vocab", type=int, default=100278)
    p.add_argument("--window", type=int, default=512)
    p.add_argument("--questions", type=int, default=6)
    p.add_argument("--answers", type=int, default=8)
    p.add_argument("--tokens", type=int, default=160)
    p.add_argument("--rounds", type=int, default=3)
    return p.parse_args()


def build(a, device):
    config = Olmo3Config(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=int(2.75 * a.hidden),
        num_hidden_layers=a.layers,
        num_attention_heads=a.heads,
        sliding_window=a.window,
        max_position_embeddings=4096,
        pad_token_id=1,
        eos_token_id=2,
    )
    with device:
        model = Olmo3ForCausalLM(config)
    return model.to(torch.bfloat16).eval()


@torch.inference_mode()
def main():
    a = parse()
    torch.manual_seed(27)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(a, device)
    settings = GenerationConfig(
        do_sample=True,
        temperature=0.8,
        top_p=0.95,
        top_k=0,
        num_return_sequences=a.answers,
        max_new_tokens=a.tokens,
        return_dict_in_generate=True,
        output_logits=True,
        pad_token_id=1,
        eos_token_id=2,
    )
    prompts = torch.randint(5, a.vocab, (a.questions, 700), device=device)
    for r in range(a.rounds):
        out = model.generate(
            prompts, attention_mask=torch.ones_like(prompts), generation_config=settings
        )
        new = out.sequences[:, prompts.shape[1] :]
        logits = torch.stack(out.logits, dim=1)
        logp = logits.float().log_softmax(-1).gather(-1, new[..., None]).squeeze(-1)
        score = logp.mean(1).view(a.questions, a.answers)
        best = score.argmax(1)
        rows = torch.arange(a.questions, device=device) * a.answers + best
        # the best answer and a new question make the next prompt
        more = torch.randint(5, a.vocab, (a.questions, 200), device=device)
        prompts = torch.cat([out.sequences[rows], more], dim=1)
        print(f"round {r}: best {score.max(1).values.mean():.3f}, next prompt {prompts.shape[1]}")


if __name__ == "__main__":
    main()
