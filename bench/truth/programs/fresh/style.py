"""The style of one picture put onto another: features of VGG-19, the picture itself optimized with LBFGS."""

import torch
import torchvision
from torch import nn

device = torch.device("cuda")
torch.set_default_device(device)
features = torchvision.models.vgg19(weights=None).features.to(device).eval()
content, style = torch.rand(1, 3, 384, 384), torch.rand(1, 3, 384, 384)


def gram(x):
    b, c, h, w = x.shape
    flat = x.view(b * c, h * w)
    return flat @ flat.t() / (b * c * h * w)


class Held(nn.Module):
    def __init__(self, target, by):
        super().__init__()
        self.by, self.target, self.loss = by, by(target).detach(), 0

    def forward(self, x):
        self.loss = nn.functional.mse_loss(self.by(x), self.target)
        return x


net, contents, styles, number = nn.Sequential(), [], [], 0
for layer in features.children():
    if isinstance(layer, nn.ReLU):
        layer = nn.ReLU(inplace=False)
    net.add_module(str(len(net)), layer)
    if isinstance(layer, nn.Conv2d):
        number += 1
        if number == 4:
            contents.append(Held(net(content), lambda x: x))
            net.add_module("content", contents[-1])
        if number <= 5:
            styles.append(Held(net(style), gram))
            net.add_module(f"style{number}", styles[-1])
    if number == 5:
        break
picture = content.clone().requires_grad_(True)
net.eval().requires_grad_(False)
optimizer = torch.optim.LBFGS([picture])
run = [0]
while run[0] <= 60:

    def closure():
        with torch.no_grad():
            picture.clamp_(0, 1)
        optimizer.zero_grad()
        net(picture)
        loss = 1e6 * sum(s.loss for s in styles) + sum(c.loss for c in contents)
        loss.backward()
        run[0] += 1
        if run[0] % 20 == 0:
            print(run[0], loss.item())
        return loss

    optimizer.step(closure)
