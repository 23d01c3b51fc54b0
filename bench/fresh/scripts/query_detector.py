"""Objects as answers to learned questions: a ResNet-50, then a transformer over its last map."""

import torch
import torchvision
from torch import nn


class Detector(nn.Module):
    def __init__(self, classes, questions, width, side):
        super().__init__()
        net = torchvision.models.resnet50(weights=None)
        self.backbone = nn.Sequential(*list(net.children())[:-2])
        self.narrow = nn.Conv2d(2048, width, 1)
        self.transformer = nn.Transformer(
            width, 8, 4, 4, dim_feedforward=2048, dropout=0.1, batch_first=True
        )
        self.questions = nn.Parameter(torch.rand(questions, width))
        self.rows = nn.Parameter(torch.rand(side, width // 2))
        self.columns = nn.Parameter(torch.rand(side, width // 2))
        self.classes = nn.Linear(width, classes + 1)
        self.boxes = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4), nn.Sigmoid()
        )

    def forward(self, images):
        x = self.narrow(self.backbone(images))
        h, w = x.shape[2:]
        places = torch.cat(
            [
                self.columns[:w].unsqueeze(0).repeat(h, 1, 1),
                self.rows[:h].unsqueeze(1).repeat(1, w, 1),
            ],
            dim=-1,
        ).flatten(0, 1)
        questions = self.questions.unsqueeze(0).expand(len(x), -1, -1)
        found = self.transformer(x.flatten(2).transpose(1, 2) + places, questions)
        return self.classes(found), self.boxes(found)


def workload(batch=4, image=384, classes=80, questions=100, width=256):
    images = torch.randn(batch, 3, image, image)
    labels = torch.randint(0, classes + 1, (batch, questions))
    boxes = torch.rand(batch, questions, 4)

    def loss(model, given):
        images, labels, boxes = given
        scores, found = model(images)
        apart = nn.functional.l1_loss(found, boxes)
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()) + 5 * apart

    return {
        "model": Detector(classes, questions, width, image // 32),
        "batch": (images, labels, boxes),
        "loss": loss,
    }
