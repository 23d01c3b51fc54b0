"""GRPO without a library: a group of sampled answers per prompt, a rule-based reward, clipped update, KL to the start."""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM


@dataclass
class Config:
    device: str = "cuda"
    hidden: int = 896
    layers: int = 24
    vocab: int = 65536
    prompts_per_step: int = 4
    group: int = 8
    prompt_len: int = 96
    answer_len: int = 128
    steps: int = 5
    updates: int = 2
    minibatch: int = 8
    clip: float = 0.2
    kl_coef: float = 0.04
    lr: float = 1e-6


def reward_fn(answers, eos):
    """more even tokens is better, answers that end are better"""
    even = (answers % 2 == 0).float().mean(1)
    ended = (answers == eos).any(1).float()
    return even + 0.2 * ended


def token_logps(model, ids, mask, answer_len):
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=answer_len + 1).logits[:, :-1]
    targets = ids[:, -answer_len:]
    logps = []
    # row by row: the whole log_softmax at once is too much
    for row_logits, row_ids in zip(logits, targets):
        row = F.log_softmax(row_logits.float(), dim=-1)
        logps.append(row.gather(1, row_ids[:, None]).squeeze(1))
    return torch.stack(logps)


def main(cfg=Config()):
    torch.manual_seed(3)
    pad, eos = 0, 1
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=cfg.vocab,
            hidden_size=cfg.hidden,
            intermediate_size=cfg.hidden * 38 // 7,
            num_hidden_layers=cfg.layers,
            num_attention_heads=14,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            eos_token_id=eos,
            pad_token_id=pad,
            bos_token_id=None,
        )
    ).to(cfg.device, torch.bfloat16)
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.99))
    generation = GenerationConfig(
        max_new_tokens=cfg.answer_len,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        pad_token_id=pad,
        eos_token_id=eos,
    )

    for step in range(cfg.steps):
        # prompts of different lengths, padded on the left
        lengths = torch.randint(cfg.prompt_len // 3, cfg.prompt_len + 1, (cfg.prompts_per_step,))
        prompts = torch.randint(5, cfg.vocab, (cfg.prompts_per_step, cfg.prompt_len))
        p_mask = (torch.arange(cfg.prompt_len)[None] >= (cfg.prompt_len - lengths)[:, None]).long()
        prompts = (prompts * p_mask).to(cfg.device).repeat_interleave(cfg.group, 0)
        p_mask = p_mask.to(cfg.device).repeat_interleave(cfg.group, 0)

        model.eval()
        with torch.no_grad():
            ids = model.generate(
                input_ids=prompts, attention_mask=p_mask, generation_config=generation
            )
        ids = F.pad(ids, (0, cfg.prompt_len + cfg.answer_len - ids.shape[1]), value=pad)
        answers = ids[:, cfg.prompt_len :]
        is_eos = answers == eos
        a_mask = ((is_eos.cumsum(1) - is_eos.int()) == 0).long()
        mask = torch.cat([p_mask, a_mask], 1)

        rewards = reward_fn(answers, eos)
        grouped = rewards.view(cfg.prompts_per_step, cfg.group)
        advantages = (
            (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)
        ).flatten()

        with torch.no_grad():
            old, ref = [], []
            for i in range(0, len(ids), cfg.minibatch):
                s = slice(i, i + cfg.minibatch)
                old.append(token_logps(model, ids[s], mask[s], cfg.answer_len))
                ref.append(token_logps(reference, ids[s], mask[s], cfg.answer_len))
            old, ref = torch.cat(old), torch.cat(ref)

        model.train()
        stats = []
        for _ in range(cfg.updates):
            order = torch.randperm(len(ids), device=cfg.device)
            optimizer.zero_grad()
            for chunk in order.split(cfg.minibatch):
                new = token_logps(model, ids[chunk], mask[chunk], cfg.answer_len)
                ratio = torch.exp(new - old[chunk])
                adv = advantages[chunk, None]
                surrogate = torch.min(ratio * adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv)
                delta = ref[chunk] - new
                kl = torch.exp(delta) - delta - 1
                per_token = -(surrogate - cfg.kl_coef * kl)
                m = a_mask[chunk].float()
                loss = ((per_token * m).sum(1) / m.sum(1)).mean() * len(chunk) / len(ids)
                loss.backward()
                stats.append(((kl * m).sum() / m.sum()).item())
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(
            f"step {step}: reward {rewards.mean().item():.3f} +- {rewards.std().item():.3f}, "
            f"kl {sum(stats) / len(stats):.5f}, length {a_mask.sum(1).float().mean().item():.1f}, grad norm {float(norm):.3f}"
        )


if __name__ == "__main__":
    main()
