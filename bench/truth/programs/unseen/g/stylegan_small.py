"""A small StyleGAN2: mapping network, modulated convolutions, lazy R1 and path length regularisation, EMA."""

import argparse
import math
from copy import deepcopy

import torch
from torch import autograd, nn, optim
from torch.nn import functional as F


class EqualLinear(nn.Module):
    def __init__(self, in_dim, out_dim, bias_init=0.0, lr_mul=1.0, act=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_dim, in_dim) / lr_mul)
        self.bias = nn.Parameter(torch.full((out_dim,), float(bias_init)))
        self.scale = lr_mul / math.sqrt(in_dim)
        self.lr_mul = lr_mul
        self.act = act

    def forward(self, x):
        out = F.linear(x, self.weight * self.scale, self.bias * self.lr_mul)
        return F.leaky_relu(out, 0.2) * math.sqrt(2) if self.act else out


class EqualConv2d(nn.Module):
    def __init__(self, cin, cout, k, stride=1, padding=0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin, k, k))
        self.bias = nn.Parameter(torch.zeros(cout))
        self.scale = 1 / math.sqrt(cin * k * k)
        self.stride, self.padding = stride, padding

    def forward(self, x):
        return F.conv2d(x, self.weight * self.scale, self.bias, self.stride, self.padding)


class ModulatedConv2d(nn.Module):
    def __init__(self, cin, cout, k, style_dim, demodulate=True):
        super().__init__()
        self.cout, self.k, self.demodulate = cout, k, demodulate
        self.weight = nn.Parameter(torch.randn(1, cout, cin, k, k))
        self.scale = 1 / math.sqrt(cin * k * k)
        self.modulation = EqualLinear(style_dim, cin, bias_init=1)

    def forward(self, x, style):
        b, c, h, w = x.shape
        style = self.modulation(style).view(b, 1, c, 1, 1)
        weight = self.scale * self.weight * style
        if self.demodulate:
            demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)
            weight = weight * demod.view(b, self.cout, 1, 1, 1)
        weight = weight.view(b * self.cout, c, self.k, self.k)
        out = F.conv2d(x.reshape(1, b * c, h, w), weight, padding=self.k // 2, groups=b)
        return out.view(b, self.cout, h, w)


class StyledConv(nn.Module):
    def __init__(self, cin, cout, style_dim, upsample=False):
        super().__init__()
        self.upsample = upsample
        self.conv = ModulatedConv2d(cin, cout, 3, style_dim)
        self.noise_weight = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1, cout, 1, 1))

    def forward(self, x, style):
        if self.upsample:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = self.conv(x, style)
        noise = torch.randn(x.shape[0], 1, x.shape[2], x.shape[3], device=x.device)
        x = x + self.noise_weight * noise + self.bias
        return F.leaky_relu(x, 0.2) * math.sqrt(2)


class Generator(nn.Module):
    def __init__(self, size, style_dim, n_mlp, channels):
        super().__init__()
        self.style_dim = style_dim
        self.style = nn.Sequential(
            *[EqualLinear(style_dim, style_dim, lr_mul=0.01, act=True) for _ in range(n_mlp)]
        )
        self.input = nn.Parameter(torch.randn(1, channels[4], 4, 4))
        self.conv1 = StyledConv(channels[4], channels[4], style_dim)
        self.to_rgb1 = ModulatedConv2d(channels[4], 3, 1, style_dim, demodulate=False)
        self.log_size = int(math.log2(size))
        self.convs, self.to_rgbs = nn.ModuleList(), nn.ModuleList()
        cin = channels[4]
        for i in range(3, self.log_size + 1):
            cout = channels[2**i]
            self.convs.append(StyledConv(cin, cout, style_dim, upsample=True))
            self.convs.append(StyledConv(cout, cout, style_dim))
            self.to_rgbs.append(ModulatedConv2d(cout, 3, 1, style_dim, demodulate=False))
            cin = cout
        self.n_latent = self.log_size * 2 - 2

    def forward(self, styles, return_latents=False, inject_index=None):
        styles = [self.style(F.normalize(s, dim=1) * math.sqrt(self.style_dim)) for s in styles]
        if len(styles) < 2:
            latent = styles[0].unsqueeze(1).repeat(1, self.n_latent, 1)
        else:
            if inject_index is None:
                inject_index = int(torch.randint(1, self.n_latent, ()))
            latent = torch.cat(
                [
                    styles[0].unsqueeze(1).repeat(1, inject_index, 1),
                    styles[1].unsqueeze(1).repeat(1, self.n_latent - inject_index, 1),
                ],
                1,
            )
        out = self.input.repeat(latent.shape[0], 1, 1, 1)
        out = self.conv1(out, latent[:, 0])
        skip = self.to_rgb1(out, latent[:, 1])
        i = 1
        for conv1, conv2, to_rgb in zip(self.convs[::2], self.convs[1::2], self.to_rgbs):
            out = conv1(out, latent[:, i])
            out = conv2(out, latent[:, i + 1])
            skip = F.interpolate(skip, scale_factor=2, mode="bilinear", align_corners=False)
            skip = skip + to_rgb(out, latent[:, min(i + 2, self.n_latent - 1)])
            i += 2
        return (skip, latent) if return_latents else (skip, None)


class ResBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = EqualConv2d(cin, cin, 3, padding=1)
        self.conv2 = EqualConv2d(cin, cout, 3, padding=1)
        self.skip = EqualConv2d(cin, cout, 1)

    def forward(self, x):
        out = F.leaky_relu(self.conv1(x), 0.2)
        out = F.avg_pool2d(F.leaky_relu(self.conv2(out), 0.2), 2)
        return (out + self.skip(F.avg_pool2d(x, 2))) / math.sqrt(2)


class Discriminator(nn.Module):
    def __init__(self, size, channels):
        super().__init__()
        layers = [EqualConv2d(3, channels[size], 1), nn.LeakyReLU(0.2)]
        cin = channels[size]
        for i in range(int(math.log2(size)), 2, -1):
            cout = channels[2 ** (i - 1)]
            layers.append(ResBlock(cin, cout))
            cin = cout
        self.convs = nn.Sequential(*layers)
        self.final_conv = EqualConv2d(cin + 1, channels[4], 3, padding=1)
        self.final = nn.Sequential(
            EqualLinear(channels[4] * 16, channels[4], act=True), EqualLinear(channels[4], 1)
        )

    def forward(self, x):
        out = self.convs(x)
        b, c, h, w = out.shape
        group = min(b, 4)
        std = out.view(group, -1, 1, c, h, w)
        std = torch.sqrt(std.var(0, unbiased=False) + 1e-8).mean([2, 3, 4], keepdim=True).squeeze(2)
        out = torch.cat([out, std.repeat(group, 1, h, w)], 1)
        out = F.leaky_relu(self.final_conv(out), 0.2)
        return self.final(out.flatten(1))


def requires_grad(model, flag=True):
    for p in model.parameters():
        p.requires_grad = flag


def accumulate(model1, model2, decay=0.999):
    par1, par2 = dict(model1.named_parameters()), dict(model2.named_parameters())
    for k in par1:
        par1[k].data.mul_(decay).add_(par2[k].data, alpha=1 - decay)


def make_noise(batch, dim, n, device):
    return torch.randn(n, batch, dim, device=device).unbind(0)


def mixing_noise(batch, dim, prob, device):
    return (
        make_noise(batch, dim, 2, device)
        if torch.rand(()).item() < prob
        else [torch.randn(batch, dim, device=device)]
    )


def real_batches(n, size, device):
    """Blobs of colour, made on the card."""
    yy, xx = torch.meshgrid(
        torch.linspace(-1, 1, size, device=device),
        torch.linspace(-1, 1, size, device=device),
        indexing="ij",
    )
    while True:
        c = torch.rand(n, 3, 2, 1, 1, device=device) * 1.2 - 0.6
        d = (xx - c[:, :, 0]) ** 2 + (yy - c[:, :, 1]) ** 2
        yield torch.exp(-6 * d) * 2 - 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iter", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--latent", type=int, default=512)
    parser.add_argument("--n_mlp", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--r1", type=float, default=10)
    parser.add_argument("--path_regularize", type=float, default=2)
    parser.add_argument("--path_batch_shrink", type=int, default=2)
    parser.add_argument("--d_reg_every", type=int, default=16)
    parser.add_argument("--g_reg_every", type=int, default=4)
    parser.add_argument("--mixing", type=float, default=0.9)
    parser.add_argument("--n_sample", type=int, default=64)
    args = parser.parse_args()
    device = "cuda"

    w = args.width
    channels = {4: w, 8: w, 16: w, 32: w, 64: w // 2, 128: w // 4, 256: w // 8}
    generator = Generator(args.size, args.latent, args.n_mlp, channels).to(device)
    discriminator = Discriminator(args.size, channels).to(device)
    g_ema = deepcopy(generator).eval()
    accumulate(g_ema, generator, 0)

    g_reg_ratio = args.g_reg_every / (args.g_reg_every + 1)
    d_reg_ratio = args.d_reg_every / (args.d_reg_every + 1)
    g_optim = optim.Adam(
        generator.parameters(), lr=0.002 * g_reg_ratio, betas=(0**g_reg_ratio, 0.99**g_reg_ratio)
    )
    d_optim = optim.Adam(
        discriminator.parameters(),
        lr=0.002 * d_reg_ratio,
        betas=(0**d_reg_ratio, 0.99**d_reg_ratio),
    )

    loader = real_batches(args.batch, args.size, device)
    sample_z = torch.randn(args.n_sample, args.latent, device=device)
    mean_path_length = torch.zeros((), device=device)
    r1_loss = torch.tensor(0.0, device=device)
    path_loss = torch.tensor(0.0, device=device)

    for i in range(args.iter):
        real_img = next(loader)

        requires_grad(generator, False)
        requires_grad(discriminator, True)
        fake_img, _ = generator(mixing_noise(args.batch, args.latent, args.mixing, device))
        fake_pred, real_pred = discriminator(fake_img), discriminator(real_img)
        d_loss = F.softplus(-real_pred).mean() + F.softplus(fake_pred).mean()
        discriminator.zero_grad()
        d_loss.backward()
        d_optim.step()

        if i % args.d_reg_every == 0:
            real_img.requires_grad = True
            real_pred = discriminator(real_img)
            (grad_real,) = autograd.grad(
                outputs=real_pred.sum(), inputs=real_img, create_graph=True
            )
            r1_loss = grad_real.pow(2).reshape(grad_real.shape[0], -1).sum(1).mean()
            discriminator.zero_grad()
            (args.r1 / 2 * r1_loss * args.d_reg_every + 0 * real_pred[0, 0]).backward()
            d_optim.step()

        requires_grad(generator, True)
        requires_grad(discriminator, False)
        fake_img, _ = generator(mixing_noise(args.batch, args.latent, args.mixing, device))
        g_loss = F.softplus(-discriminator(fake_img)).mean()
        generator.zero_grad()
        g_loss.backward()
        g_optim.step()

        if i % args.g_reg_every == 0:
            path_batch = max(1, args.batch // args.path_batch_shrink)
            fake_img, latents = generator(
                mixing_noise(path_batch, args.latent, args.mixing, device), return_latents=True
            )
            noise = torch.randn_like(fake_img) / math.sqrt(fake_img.shape[2] * fake_img.shape[3])
            (grad,) = autograd.grad(
                outputs=(fake_img * noise).sum(), inputs=latents, create_graph=True
            )
            path_lengths = torch.sqrt(grad.pow(2).sum(2).mean(1))
            path_mean = mean_path_length + 0.01 * (path_lengths.mean() - mean_path_length)
            path_loss = (path_lengths - path_mean).pow(2).mean()
            mean_path_length = path_mean.detach()
            generator.zero_grad()
            weighted = args.path_regularize * args.g_reg_every * path_loss
            weighted += 0 * fake_img[0, 0, 0, 0]
            weighted.backward()
            g_optim.step()

        accumulate(g_ema, generator, 0.5 ** (32 / (10 * 1000)))

        if i % 10 == 0:
            print(
                f"{i:4d} d: {d_loss.item():.4f}; g: {g_loss.item():.4f}; r1: {r1_loss.item():.4f}; "
                f"path: {path_loss.item():.4f}; mean path: {mean_path_length.item():.4f}"
            )

    with torch.no_grad():
        sample, _ = g_ema([sample_z])
    print("samples", tuple(sample.shape), sample.min().item(), sample.max().item())
