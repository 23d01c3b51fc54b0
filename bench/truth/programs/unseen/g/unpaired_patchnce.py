#!/usr/bin/env python
"""Unpaired translation (day -> night) with a contrastive patch loss: one ResNet generator, PatchGAN, MLP heads.

Three optimizers (G, D, F), LSGAN, image pool, linear decay after the first half.
"""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class UnpairedDataset(Dataset):
    def __init__(self, n_a, n_b, size, load_size):
        self.n_a, self.n_b, self.size, self.load_size = n_a, n_b, size, load_size

    def _image(self, seed, bright):
        r = np.random.RandomState(seed)
        lo = r.rand(3, 16, 16).astype(np.float32) * bright
        img = torch.from_numpy(lo)[None]
        img = F.interpolate(
            img, size=(self.load_size, self.load_size), mode="bilinear", align_corners=False
        )[0]
        top, left = r.randint(0, self.load_size - self.size + 1, size=2)
        img = img[:, top : top + self.size, left : left + self.size]
        if r.rand() > 0.5:
            img = img.flip(-1)
        return img * 2 - 1

    def __getitem__(self, index):
        return {
            "A": self._image(index % self.n_a, 1.0),
            "B": self._image(10000 + random.randrange(self.n_b), 0.4),
        }

    def __len__(self):
        return max(self.n_a, self.n_b)


class ImagePool:
    def __init__(self, pool_size):
        self.pool_size = pool_size
        self.images = []

    def query(self, images):
        if self.pool_size == 0:
            return images
        out = []
        for image in images:
            image = image.data.unsqueeze(0)
            if len(self.images) < self.pool_size:
                self.images.append(image)
                out.append(image)
            elif random.uniform(0, 1) > 0.5:
                k = random.randint(0, self.pool_size - 1)
                out.append(self.images[k].clone())
                self.images[k] = image
            else:
                out.append(image)
        return torch.cat(out, 0)


class ResnetBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv_block = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(dim, dim, 3),
            nn.InstanceNorm2d(dim),
            nn.ReLU(True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(dim, dim, 3),
            nn.InstanceNorm2d(dim),
        )

    def forward(self, x):
        return x + self.conv_block(x)


class ResnetGenerator(nn.Module):
    def __init__(self, ngf=64, n_blocks=9):
        super().__init__()
        model = [nn.ReflectionPad2d(3), nn.Conv2d(3, ngf, 7), nn.InstanceNorm2d(ngf), nn.ReLU(True)]
        for i in range(2):
            mult = 2**i
            model += [
                nn.Conv2d(ngf * mult, ngf * mult * 2, 3, stride=2, padding=1),
                nn.InstanceNorm2d(ngf * mult * 2),
                nn.ReLU(True),
            ]
        model += [ResnetBlock(ngf * 4) for _ in range(n_blocks)]
        for i in range(2):
            mult = 2 ** (2 - i)
            model += [
                nn.ConvTranspose2d(
                    ngf * mult, ngf * mult // 2, 3, stride=2, padding=1, output_padding=1
                ),
                nn.InstanceNorm2d(ngf * mult // 2),
                nn.ReLU(True),
            ]
        model += [nn.ReflectionPad2d(3), nn.Conv2d(ngf, 3, 7), nn.Tanh()]
        self.model = nn.Sequential(*model)

    def forward(self, x, layers=(), encode_only=False):
        if len(layers) == 0:
            return self.model(x)
        feats = []
        for i, layer in enumerate(self.model):
            x = layer(x)
            if i in layers:
                feats.append(x)
            if encode_only and i == layers[-1]:
                return feats
        return x, feats


class NLayerDiscriminator(nn.Module):
    def __init__(self, ndf=64, n_layers=3):
        super().__init__()
        seq = [nn.Conv2d(3, ndf, 4, 2, 1), nn.LeakyReLU(0.2, True)]
        mult = 1
        for n in range(1, n_layers + 1):
            prev, mult = mult, min(2**n, 8)
            stride = 2 if n < n_layers else 1
            seq += [
                nn.Conv2d(ndf * prev, ndf * mult, 4, stride, 1),
                nn.InstanceNorm2d(ndf * mult),
                nn.LeakyReLU(0.2, True),
            ]
        seq += [nn.Conv2d(ndf * mult, 1, 4, 1, 1)]
        self.model = nn.Sequential(*seq)

    def forward(self, x):
        return self.model(x)


class PatchSampleF(nn.Module):
    def __init__(self, channels, nc=256):
        super().__init__()
        self.mlps = nn.ModuleList(
            [nn.Sequential(nn.Linear(c, nc), nn.ReLU(), nn.Linear(nc, nc)) for c in channels]
        )

    def forward(self, feats, num_patches, patch_ids=None):
        ids, out = [], []
        for i, (feat, mlp) in enumerate(zip(feats, self.mlps)):
            feat = feat.permute(0, 2, 3, 1).flatten(1, 2)
            if patch_ids is not None:
                patch_id = patch_ids[i]
            else:
                patch_id = torch.randperm(feat.shape[1], device=feat.device)[:num_patches]
            x = mlp(feat[:, patch_id, :].flatten(0, 1))
            ids.append(patch_id)
            out.append(F.normalize(x, dim=1))
        return out, ids


def patch_nce(feat_q, feat_k, batch_size, T=0.07):
    feat_k = feat_k.detach()
    n, dim = feat_q.shape
    l_pos = torch.bmm(feat_q.view(n, 1, dim), feat_k.view(n, dim, 1)).view(n, 1)
    q, k = feat_q.view(batch_size, -1, dim), feat_k.view(batch_size, -1, dim)
    npatches = q.size(1)
    l_neg = torch.bmm(q, k.transpose(2, 1))
    diagonal = torch.eye(npatches, device=q.device, dtype=torch.bool)[None]
    l_neg.masked_fill_(diagonal, -10.0)
    out = torch.cat((l_pos, l_neg.view(-1, npatches)), dim=1) / T
    return F.cross_entropy(out, torch.zeros(out.size(0), dtype=torch.long, device=out.device))


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad = flag


def init_weights(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
        nn.init.xavier_normal_(m.weight, 0.02)
        nn.init.zeros_(m.bias)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--n_epochs", type=int, default=2)
    p.add_argument("--n_epochs_decay", type=int, default=1)
    p.add_argument("--batch_size", type=int, default=6)
    p.add_argument("--images", type=int, default=80)
    p.add_argument("--crop_size", type=int, default=256)
    p.add_argument("--load_size", type=int, default=286)
    p.add_argument("--ngf", type=int, default=64)
    p.add_argument("--num_patches", type=int, default=256)
    p.add_argument("--pool_size", type=int, default=50)
    p.add_argument("--num_threads", type=int, default=4)
    p.add_argument("--print_freq", type=int, default=5)
    opt = p.parse_args()
    device = torch.device("cuda")
    nce_layers = [0, 4, 8, 12, 16]

    dataset = UnpairedDataset(opt.images, opt.images - 7, opt.crop_size, opt.load_size)
    loader = DataLoader(
        dataset,
        batch_size=opt.batch_size,
        shuffle=True,
        num_workers=opt.num_threads,
        drop_last=True,
    )
    netG = ResnetGenerator(opt.ngf).apply(init_weights).to(device)
    netD = NLayerDiscriminator(opt.ngf).apply(init_weights).to(device)
    with torch.no_grad():
        probe = netG(torch.zeros(1, 3, 64, 64, device=device), nce_layers, encode_only=True)
    netF = PatchSampleF([f.shape[1] for f in probe]).apply(init_weights).to(device)

    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optF = torch.optim.Adam(netF.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def lambda_rule(epoch):
        return 1.0 - max(0, epoch + 1 - opt.n_epochs) / float(opt.n_epochs_decay + 1)

    schedulers = [torch.optim.lr_scheduler.LambdaLR(o, lambda_rule) for o in (optG, optD, optF)]
    pool = ImagePool(opt.pool_size)
    mse = nn.MSELoss()

    def nce_loss(src, tgt):
        feat_q = netG(tgt, nce_layers, encode_only=True)
        feat_k = netG(src, nce_layers, encode_only=True)
        k_pool, ids = netF(feat_k, opt.num_patches)
        q_pool, _ = netF(feat_q, opt.num_patches, ids)
        return sum(patch_nce(q, k, src.size(0)) for q, k in zip(q_pool, k_pool)) / len(nce_layers)

    total = 0
    for epoch in range(opt.n_epochs + opt.n_epochs_decay):
        for data in loader:
            real_A, real_B = data["A"].to(device), data["B"].to(device)
            fake = netG(torch.cat((real_A, real_B), dim=0))
            fake_B, idt_B = fake[: real_A.size(0)], fake[real_A.size(0) :]

            set_requires_grad(netD, True)
            optD.zero_grad()
            pred_fake, pred_real = netD(pool.query(fake_B.detach())), netD(real_B)
            loss_D = 0.5 * (
                mse(pred_fake, torch.zeros_like(pred_fake))
                + mse(pred_real, torch.ones_like(pred_real))
            )
            loss_D.backward()
            optD.step()

            set_requires_grad(netD, False)
            optG.zero_grad()
            optF.zero_grad()
            pred_fake = netD(fake_B)
            loss_GAN = mse(pred_fake, torch.ones_like(pred_fake))
            loss_NCE = nce_loss(real_A, fake_B)
            loss_idt = nce_loss(real_B, idt_B)
            loss_G = loss_GAN + 0.5 * (loss_NCE + loss_idt)
            loss_G.backward()
            optG.step()
            optF.step()

            if total % opt.print_freq == 0:
                message = "(epoch: %d, iters: %d) " % (epoch, total)
                for k, v in {
                    "G_GAN": loss_GAN,
                    "D": loss_D,
                    "NCE": loss_NCE,
                    "NCE_Y": loss_idt,
                }.items():
                    message += "%s: %.3f " % (k, v.item())
                print(message)
            total += 1
        for s in schedulers:
            s.step()
        print("learning rate = %.7f" % optG.param_groups[0]["lr"])

    netG.eval()
    with torch.no_grad():
        for i in range(3):
            out = netG(dataset[i]["A"].unsqueeze(0).to(device))
            print("image %d mean %.3f" % (i, out.mean().item()))


if __name__ == "__main__":
    main()
