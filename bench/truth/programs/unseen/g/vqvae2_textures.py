"""VQ-VAE-2 (two levels) on textures; codebooks updated by moving averages, dead codes restarted, bf16 autocast."""

from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm


@dataclass
class Config:
    size: int = 256
    images: int = 1500
    batch: int = 64
    workers: int = 6
    channel: int = 128
    res_blocks: int = 2
    res_channel: int = 32
    embed_dim: int = 64
    n_embed: int = 512
    epochs: int = 2
    lr: float = 3e-4
    commitment: float = 0.25
    amp: bool = True
    device: str = "cuda"


class Textures(Dataset):
    def __init__(self, cfg):
        self.cfg = cfg
        g = torch.Generator().manual_seed(1)
        self.freq = torch.rand(cfg.images, 3, 2, generator=g) * 40
        axis = torch.linspace(0, 1, cfg.size)
        self.yy, self.xx = torch.meshgrid(axis, axis, indexing="ij")

    def __len__(self):
        return self.cfg.images

    def __getitem__(self, i):
        fy, fx = self.freq[i, :, 0, None, None], self.freq[i, :, 1, None, None]
        return torch.sin(fy * self.yy + fx * self.xx), i % 10


class Quantize(nn.Module):
    def __init__(self, dim, n_embed, decay=0.99, eps=1e-5):
        super().__init__()
        self.dim, self.n_embed, self.decay, self.eps = dim, n_embed, decay, eps
        embed = torch.randn(dim, n_embed)
        self.register_buffer("embed", embed)
        self.register_buffer("cluster_size", torch.ones(n_embed))
        self.register_buffer("embed_avg", embed.clone())

    @torch.autocast("cuda", enabled=False)
    def forward(self, x):
        x = x.float()
        flatten = x.reshape(-1, self.dim)
        dist = (
            flatten.pow(2).sum(1, keepdim=True)
            - 2 * flatten @ self.embed
            + self.embed.pow(2).sum(0, keepdim=True)
        )
        _, embed_ind = (-dist).max(1)
        embed_onehot = F.one_hot(embed_ind, self.n_embed).type(flatten.dtype)
        embed_ind = embed_ind.view(*x.shape[:-1])
        quantize = F.embedding(embed_ind, self.embed.transpose(0, 1))

        if self.training:
            onehot_sum = embed_onehot.sum(0)
            embed_sum = flatten.detach().transpose(0, 1) @ embed_onehot
            self.cluster_size.data.mul_(self.decay).add_(onehot_sum, alpha=1 - self.decay)
            self.embed_avg.data.mul_(self.decay).add_(embed_sum, alpha=1 - self.decay)
            n = self.cluster_size.sum()
            cluster_size = (self.cluster_size + self.eps) / (n + self.n_embed * self.eps) * n
            self.embed.data.copy_(self.embed_avg / cluster_size.unsqueeze(0))

        diff = (quantize.detach() - x).pow(2).mean()
        quantize = x + (quantize - x).detach()
        return quantize, diff, embed_ind

    @torch.no_grad()
    def restart(self, vectors, threshold=0.01):
        dead = (self.cluster_size < threshold).nonzero().flatten()
        if len(dead):
            pick = torch.randint(0, len(vectors), (len(dead),), device=vectors.device)
            self.embed[:, dead] = vectors[pick].t().float()
            self.embed_avg[:, dead] = vectors[pick].t().float()
            self.cluster_size[dead] = 1.0
        return len(dead)


class ResBlock(nn.Module):
    def __init__(self, in_channel, channel):
        super().__init__()
        self.conv = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(in_channel, channel, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channel, in_channel, 1),
        )

    def forward(self, x):
        return self.conv(x) + x


def encoder(cin, c, n_res, res_c, stride):
    if stride == 4:
        blocks = [
            nn.Conv2d(cin, c // 2, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(c // 2, c, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(c, c, 3, padding=1),
        ]
    else:
        blocks = [
            nn.Conv2d(cin, c // 2, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(c // 2, c, 3, padding=1),
        ]
    blocks += [ResBlock(c, res_c) for _ in range(n_res)] + [nn.ReLU(inplace=True)]
    return nn.Sequential(*blocks)


def decoder(cin, cout, c, n_res, res_c, stride):
    blocks = (
        [nn.Conv2d(cin, c, 3, padding=1)]
        + [ResBlock(c, res_c) for _ in range(n_res)]
        + [nn.ReLU(inplace=True)]
    )
    if stride == 4:
        blocks += [
            nn.ConvTranspose2d(c, c // 2, 4, 2, 1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(c // 2, cout, 4, 2, 1),
        ]
    else:
        blocks += [nn.ConvTranspose2d(c, cout, 4, 2, 1)]
    return nn.Sequential(*blocks)


class VQVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c, r, rc, d = cfg.channel, cfg.res_blocks, cfg.res_channel, cfg.embed_dim
        self.enc_b = encoder(3, c, r, rc, 4)
        self.enc_t = encoder(c, c, r, rc, 2)
        self.quantize_conv_t = nn.Conv2d(c, d, 1)
        self.quantize_t = Quantize(d, cfg.n_embed)
        self.dec_t = decoder(d, d, c, r, rc, 2)
        self.quantize_conv_b = nn.Conv2d(d + c, d, 1)
        self.quantize_b = Quantize(d, cfg.n_embed)
        self.upsample_t = nn.ConvTranspose2d(d, d, 4, 2, 1)
        self.dec = decoder(d + d, 3, c, r, rc, 4)

    def forward(self, x):
        enc_b = self.enc_b(x)
        enc_t = self.enc_t(enc_b)
        z_t = self.quantize_conv_t(enc_t).permute(0, 2, 3, 1)
        quant_t, diff_t, id_t = self.quantize_t(z_t)
        quant_t = quant_t.permute(0, 3, 1, 2)
        enc_b = torch.cat([self.dec_t(quant_t), enc_b], 1)
        z_b = self.quantize_conv_b(enc_b).permute(0, 2, 3, 1)
        quant_b, diff_b, id_b = self.quantize_b(z_b)
        quant_b = quant_b.permute(0, 3, 1, 2)
        dec = self.dec(torch.cat([self.upsample_t(quant_t), quant_b], 1))
        return dec, diff_t + diff_b, id_t, id_b, z_t, z_b


def perplexity(ids, n):
    p = torch.bincount(ids.flatten(), minlength=n).float()
    p = p / p.sum()
    return torch.exp(-(p * (p + 1e-10).log()).sum())


def main():
    cfg = Config()
    print(asdict(cfg))
    loader = DataLoader(
        Textures(cfg),
        batch_size=cfg.batch,
        shuffle=True,
        num_workers=cfg.workers,
        pin_memory=True,
        persistent_workers=cfg.workers > 0,
    )
    model = VQVAE(cfg).to(cfg.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, cfg.lr, total_steps=cfg.epochs * len(loader)
    )

    for epoch in range(cfg.epochs):
        model.train()
        mse_sum, mse_n = 0, 0
        bar = tqdm(loader, mininterval=5)
        for i, (img, label) in enumerate(bar):
            img = img.to(cfg.device, non_blocking=True)
            model.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=cfg.amp):
                out, latent_loss, id_t, id_b, z_t, z_b = model(img)
                recon_loss = F.mse_loss(out, img)
                loss = recon_loss + cfg.commitment * latent_loss
            loss.backward()
            optimizer.step()
            scheduler.step()

            part = recon_loss.item() * img.shape[0]
            mse_sum += part
            mse_n += img.shape[0]
            if i % 10 == 9:
                n_t = model.quantize_t.restart(z_t.detach().reshape(-1, cfg.embed_dim))
                n_b = model.quantize_b.restart(z_b.detach().reshape(-1, cfg.embed_dim))
                bar.set_description(
                    f"epoch {epoch} mse {recon_loss.item():.5f} latent {latent_loss.item():.3f} "
                    f"avg {mse_sum / mse_n:.5f} restarted {n_t}+{n_b}"
                )
        print(
            f"epoch {epoch}: mse {mse_sum / mse_n:.5f} perplexity top {perplexity(id_t, cfg.n_embed).item():.1f} "
            f"bottom {perplexity(id_b, cfg.n_embed).item():.1f}"
        )

        model.eval()
        sample = img[:25]
        with torch.no_grad():
            rec, *_ = model(sample)
        print("reconstruction error", (rec - sample).abs().mean().item())


if __name__ == "__main__":
    main()
