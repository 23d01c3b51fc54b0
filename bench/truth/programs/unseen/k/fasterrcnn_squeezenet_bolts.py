"""Faster R-CNN assembled from parts (SqueezeNet features, one feature level, own anchors) to find loose bolts; evaluation at the end."""

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.rpn import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign, box_iou

KINDS = 5


class Bolts(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        h = int(torch.randint(480, 721, (1,), generator=g))
        w = int(torch.randint(640, 961, (1,), generator=g))
        image = torch.rand(3, h, w, generator=g) * 0.4
        count = int(torch.randint(3, 25, (1,), generator=g))
        side = torch.randint(16, 120, (count, 2), generator=g)
        x = (torch.rand(count, generator=g) * (w - side[:, 0] - 1)).floor()
        y = (torch.rand(count, generator=g) * (h - side[:, 1] - 1)).floor()
        boxes = torch.stack([x, y, x + side[:, 0], y + side[:, 1]], 1)
        labels = torch.randint(1, KINDS + 1, (count,), generator=g)
        for (x0, y0, x1, y1), kind in zip(boxes.long().tolist(), labels.tolist()):
            image[:, y0:y1, x0:x1] += 0.1 * kind
        return image, {"boxes": boxes, "labels": labels}


def build():
    backbone = torchvision.models.squeezenet1_1(weights=None).features
    backbone.out_channels = 512
    anchors = AnchorGenerator(sizes=((24, 48, 96, 160),), aspect_ratios=((0.5, 1.0, 2.0),))
    pool = MultiScaleRoIAlign(featmap_names=["0"], output_size=7, sampling_ratio=2)
    return FasterRCNN(
        backbone,
        num_classes=KINDS + 1,
        rpn_anchor_generator=anchors,
        box_roi_pool=pool,
        min_size=800,
        max_size=1200,
        rpn_pre_nms_top_n_train=1500,
        rpn_post_nms_top_n_train=1000,
        box_batch_size_per_image=256,
    )


def collate(batch):
    return tuple(zip(*batch))


@torch.no_grad()
def recall(model, loader, device):
    model.eval()
    found = total = 0
    for images, targets in loader:
        outputs = model([im.to(device) for im in images])
        for out, target in zip(outputs, targets):
            total += len(target["boxes"])
            if len(out["boxes"]):
                iou = box_iou(target["boxes"], out["boxes"].cpu())
                found += (iou.max(1).values > 0.5).sum().item()
    return found / max(total, 1)


def main():
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(
        Bolts(160, 0), batch_size=12, shuffle=True, collate_fn=collate, num_workers=2
    )
    test = DataLoader(Bolts(24, 10_000), batch_size=4, collate_fn=collate)
    model = build().to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.005, momentum=0.9, weight_decay=5e-4)
    for epoch in range(2):
        model.train()
        for i, (images, targets) in enumerate(train):
            images = [im.to(device) for im in images]
            targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
            losses = model(images, targets)
            loss = sum(losses.values())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 5.0)
            optimizer.step()
            if i % 10 == 0:
                parts = ", ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
                print(f"epoch {epoch} batch {i}: {parts}")
        print(f"epoch {epoch}: recall {recall(model, test, device):.3f}")


if __name__ == "__main__":
    main()
