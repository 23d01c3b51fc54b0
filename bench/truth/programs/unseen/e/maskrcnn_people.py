"""Mask R-CNN on made-up people, as in torchvision's tutorial: new heads, warm-up, masks drawn on the test pictures."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import maskrcnn_resnet50_fpn
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.models.detection.mask_rcnn import MaskRCNNPredictor


class People(Dataset):
    def __init__(self, count, size, seed):
        self.count, self.size, self.seed = count, size, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        size = self.size
        height = size - int(torch.randint(0, size // 4, (1,), generator=g))
        people = int(torch.randint(1, 5, (1,), generator=g))
        image = torch.rand(3, height, size, generator=g)
        masks = torch.zeros(people, height, size, dtype=torch.uint8)
        boxes = []
        for k in range(people):
            x = int(torch.randint(0, size // 2, (1,), generator=g))
            y = int(torch.randint(0, height // 2, (1,), generator=g))
            w, h = size // 6 + k, height // 3 + k
            masks[k, y : y + h, x : x + w] = 1
            image[:, y : y + h, x : x + w] *= 0.5
            boxes.append([x, y, x + w, y + h])
        target = {
            "boxes": torch.tensor(boxes, dtype=torch.float32),
            "labels": torch.ones(people, dtype=torch.int64),
            "masks": masks,
            "image_id": i,
        }
        return image, target


def collate_fn(batch):
    return tuple(zip(*batch))


def get_model(num_classes, min_size):
    model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, min_size=min_size)
    in_features = model.roi_heads.box_predictor.cls_score.in_features
    model.roi_heads.box_predictor = FastRCNNPredictor(in_features, num_classes)
    in_mask = model.roi_heads.mask_predictor.conv5_mask.in_channels
    model.roi_heads.mask_predictor = MaskRCNNPredictor(in_mask, 256, num_classes)
    return model


def to_device(images, targets, device):
    images = [image.to(device) for image in images]
    targets = [
        {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in t.items()}
        for t in targets
    ]
    return images, targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--size", type=int, default=480)
    parser.add_argument("--min-size", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    train = DataLoader(
        People(args.images, args.size, 0),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=2,
        collate_fn=collate_fn,
    )
    test = DataLoader(People(6, args.size, 9000), batch_size=1, collate_fn=collate_fn)
    model = get_model(2, args.min_size).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.002, momentum=0.9, weight_decay=0.0005)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
    for epoch in range(args.epochs):
        model.train()
        for step, (images, targets) in enumerate(train):
            images, targets = to_device(images, targets, device)
            losses = model(images, targets)
            loss = sum(losses.values())
            if not torch.isfinite(loss):
                raise SystemExit(f"loss is {loss.item()}, stopping")
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            if step % 5 == 0:
                parts = ", ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
                print(f"epoch {epoch} [{step}/{len(train)}] {parts}")
        scheduler.step()
    model.eval()
    with torch.no_grad():
        for images, targets in test:
            output = model([image.to(device) for image in images])[0]
            found = (output["scores"] > 0.5).sum().item()
            print(f"{found} of {len(targets[0]['labels'])} people, masks {output['masks'].shape}")
    torch.save(model.state_dict(), "maskrcnn.pt")


if __name__ == "__main__":
    main()
