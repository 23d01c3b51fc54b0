"""Preference learning without a library: a policy writes, a reward model judges, a frozen copy keeps it near."""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Model


@dataclass
class Args:
    vocab: int = 151936
    hidden: int = 896
    intermediate: int = 4864
    layers: int = 24
    heads: int = 14
    prompts: int = 32
    prompt_length: int = 48
    answer_length: int = 64
    rounds: int = 4
    ppo_epochs: int = 2
    minibatch: int = 16
    kl: float = 0.05
    clip: float = 0.2
    lr: float = 1e-6
    seed: int = 61


def config_of(a):
    return Qwen2Config(
        vocab_size=a.vocab,
        hidden_size=a.hidden,
        intermediate_size=a.intermediate,
        num_hidden_layers=a.layers,
        num_attention_heads=a.heads,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )


class Scorer(nn.Module):
    """A number for each token; the last one judges the whole answer."""

    def __init__(self, config):
        super().__init__()
        self.body = Qwen2Model(config)
        self.head = nn.Linear(config.hidden_size, 1, bias=False)

    def forward(self, ids):
        return self.head(self.body(ids, use_cache=False).last_hidden_state).squeeze(-1)


def log_probs(model, ids, start):
    logits = model(ids, use_cache=False).logits[:, start - 1 : -1].float()
    chosen = ids[:, start:, None]
    return F.log_softmax(logits, -1).gather(-1, chosen).squeeze(-1)


def whiten(x):
    return (x - x.mean()) * torch.rsqrt(x.var() + 1e-8)


def advantages(rewards, values, gamma=1.0, lam=0.95):
    last, out = torch.zeros_like(values[:, 0]), []
    for t in reversed(range(rewards.shape[1])):
        following = values[:, t + 1] if t + 1 < values.shape[1] else 0.0
        last = rewards[:, t] + gamma * following - values[:, t] + gamma * lam * last
        out.append(last)
    return torch.stack(out[::-1], 1)


def main():
    a = Args()
    torch.manual_seed(a.seed)
    device = torch.device("cuda")
    with device:
        policy = Qwen2ForCausalLM(config_of(a))
        critic = Scorer(config_of(a))
        judge = Scorer(config_of(a)).to(torch.bfloat16).eval().requires_grad_(False)
    reference = copy.deepcopy(policy).to(torch.bfloat16).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(
        [*policy.parameters(), *critic.parameters()], lr=a.lr, weight_decay=0.0
    )
    for number in range(a.rounds):
        prompt = torch.randint(3, a.vocab, (a.prompts, a.prompt_length), device=device)
        policy.eval()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            ids = policy.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                max_new_tokens=a.answer_length,
                min_new_tokens=a.answer_length,
                pad_token_id=0,
            )
            old = log_probs(policy, ids, a.prompt_length)
            base = log_probs(reference, ids, a.prompt_length)
            values = critic(ids)[:, a.prompt_length - 1 : -1].float()
            score = judge(ids)[:, -1].float()
        rewards = -a.kl * (old - base)
        rewards[:, -1] += score.clamp(-5, 5)
        gain = advantages(rewards, values)
        returns, gain = gain + values, whiten(gain)
        torch.cuda.empty_cache()
        policy.train()
        for _ in range(a.ppo_epochs):
            for part in torch.randperm(a.prompts, device=device).split(a.minibatch):
                with torch.autocast("cuda", torch.bfloat16):
                    new = log_probs(policy, ids[part], a.prompt_length)
                    value = critic(ids[part])[:, a.prompt_length - 1 : -1].float()
                ratio = torch.exp(new - old[part])
                clipped = ratio.clamp(1 - a.clip, 1 + a.clip)
                policy_loss = -torch.min(ratio * gain[part], clipped * gain[part]).mean()
                value_loss = 0.5 * F.mse_loss(value, returns[part])
                loss = policy_loss + 0.1 * value_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
                optimizer.step()
        print(
            f"round {number}: score {score.mean().item():.3f}, KL {(old - base).mean().item():.4f}"
        )
    policy.save_pretrained("policy")


if __name__ == "__main__":
    main()
