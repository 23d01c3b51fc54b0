import pathlib
import tempfile

import torch
import torch.nn.functional as F
import yaml
from torchvision.utils import save_image

from . import fields, scene


def pick(store, step, cfg, g):
    """Rays of the middle first, of the whole picture later."""
    origins, directions, colours = store
    height, width = cfg["scene"]["height"], cfg["scene"]["width"]
    picture = torch.randint(0, len(origins), (1,), generator=g).item()
    margin = 0.25 if step < cfg["train"]["precrop"] else 0.0
    y = torch.rand(cfg["train"]["rays"], generator=g) * (1 - 2 * margin) + margin
    x = torch.rand(cfg["train"]["rays"], generator=g) * (1 - 2 * margin) + margin
    index = ((y * height).long() * width + (x * width).long()).to(origins.device)
    return (origins[picture, index], directions[picture, index]), colours[picture, index]


@torch.no_grad()
def view(nets, angle, cfg, device):
    origin, direction = (r.to(device) for r in scene.rays_of(angle, cfg["scene"]))
    chunk = cfg["render"]["chunk"]
    parts = zip(origin.split(chunk), direction.split(chunk))
    out = [fields.render_rays(*nets, rays, cfg)[1] for rays in parts]
    return torch.cat(out).view(cfg["scene"]["height"], cfg["scene"]["width"], 3)


def main():
    cfg = yaml.safe_load((pathlib.Path(__file__).parent / "config.yaml").read_text())
    torch.manual_seed(cfg["seed"])
    g = torch.Generator().manual_seed(cfg["seed"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    store = [part.to(device) for part in scene.load(cfg["scene"])]
    nets = [fields.Field(cfg["network"]).to(device) for _ in range(2)]
    weights = [p for net in nets for p in net.parameters()]
    optimizer = torch.optim.Adam(weights, lr=cfg["train"]["lr"])
    schedule = torch.optim.lr_scheduler.ExponentialLR(
        optimizer, cfg["train"]["decay"] ** (1 / cfg["train"]["steps"])
    )
    for step in range(cfg["train"]["steps"]):
        rays, truth = pick(store, step, cfg, g)
        first, second = fields.render_rays(*nets, rays, cfg)
        fine_loss = F.mse_loss(second, truth)
        loss = fine_loss + F.mse_loss(first, truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"{step}: PSNR {-10 * torch.log10(fine_loss).item():.2f}")
    with tempfile.TemporaryDirectory() as folder:
        torch.save([net.state_dict() for net in nets], f"{folder}/radiance.pt")
        for i in range(cfg["render"]["views"]):
            image = view(nets, 0.1 + i, cfg, device)
            save_image(image.permute(2, 0, 1), f"{folder}/view{i}.png")
    print(tuple(image.shape))


main()
