"""Neural style: a picture is changed by L-BFGS until a VGG-19 sees the content of one and the style of another."""

import os

import torch
import torch.nn.functional as F
from torch import nn, optim
from torchvision.models import vgg19

SIZE = int(os.environ.get("SIZE", "768"))
STEPS = int(os.environ.get("STEPS", "60"))
STYLES = int(os.environ.get("STYLES", "2"))
CONTENT_LAYERS = ["conv_4"]
STYLE_LAYERS = ["conv_1", "conv_2", "conv_3", "conv_4", "conv_5"]
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def gram_matrix(x):
    a, b, c, d = x.size()
    features = x.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, x):
        self.loss = F.mse_loss(x, self.target)
        return x


class StyleLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = gram_matrix(target).detach()

    def forward(self, x):
        self.loss = F.mse_loss(gram_matrix(x), self.target)
        return x


class Normalization(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(-1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


def build(cnn, style, content):
    model = nn.Sequential(Normalization().to(device))
    content_losses, style_losses = [], []
    i = 0
    for layer in cnn.children():
        if isinstance(layer, nn.Conv2d):
            i += 1
            name = f"conv_{i}"
        elif isinstance(layer, nn.ReLU):
            name, layer = f"relu_{i}", nn.ReLU(inplace=False)
        else:
            name = f"pool_{i}"
        model.add_module(name, layer)
        if name in CONTENT_LAYERS:
            content_losses.append(ContentLoss(model(content)))
            model.add_module(f"content_{i}", content_losses[-1])
        if name in STYLE_LAYERS:
            style_losses.append(StyleLoss(model(style)))
            model.add_module(f"style_{i}", style_losses[-1])
        if i == 5 and isinstance(layer, nn.ReLU):
            break
    return model, content_losses, style_losses


def run_style_transfer(cnn, content, style, style_weight=1e6, content_weight=1):
    model, content_losses, style_losses = build(cnn, style, content)
    picture = content.clone().requires_grad_(True)
    model.eval()
    model.requires_grad_(False)
    optimizer = optim.LBFGS([picture])
    run = [0]
    while run[0] <= STEPS:

        def closure():
            with torch.no_grad():
                picture.clamp_(0, 1)
            optimizer.zero_grad()
            model(picture)
            style_score = sum(s.loss for s in style_losses) * style_weight
            content_score = sum(c.loss for c in content_losses) * content_weight
            loss = style_score + content_score
            loss.backward()
            run[0] += 1
            if run[0] % 20 == 0:
                print(f"run {run[0]}: style {style_score.item():.4f} {content_score.item():.4f}")
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        picture.clamp_(0, 1)
    return picture.detach()


def main():
    torch.manual_seed(2)
    cnn = vgg19(weights=None).features.to(device).eval()
    content = torch.rand(1, 3, SIZE, SIZE, device=device)
    for number in range(STYLES):
        style = torch.rand(1, 3, SIZE, SIZE, device=device)
        output = run_style_transfer(cnn, content, style)
        torch.save(output.cpu(), f"styled_{number}.pt")


if __name__ == "__main__":
    main()
