"""Formant's networks as plain PyTorch modules, and a loader for Formant's model files.

Copy this file into your project; it needs torch and safetensors.

    module, card = load("runs/quickstart-…/models/SCD/personal/3.safetensors")
    logits = module(prepare(card, pixels))      # pixels: uint8, (images, channels, height, width)
    print(card["classes"][logits.argmax(1)[0]])

Layers are named as in the file, so `load_state_dict` is strict. docs/MODELS.md describes the file.
"""

import json

import torch
from safetensors import safe_open
from torch import nn
from torch.nn import functional as F

BASIC, BOTTLENECK = 1, 4  # how many times wider a block's output is than its convolutions
RESNETS = {
    "resnet18": (BASIC, [2, 2, 2, 2]),
    "resnet34": (BASIC, [3, 4, 6, 3]),
    "resnet50": (BOTTLENECK, [3, 4, 6, 3]),
}


def load(path):
    """The module with its trained values, ready to predict, and the card of a model file."""
    with safe_open(path, framework="pt") as file:
        card = json.loads(file.metadata()["formant"])
        state = {name: file.get_tensor(name) for name in file.keys()}
    module = network(card)
    module.load_state_dict(state, strict=True)
    return module.eval(), card


def prepare(card, pixels):
    """Raw pixels (uint8; images, channels, height, width) as the network wants them."""
    per_channel = lambda key: torch.tensor([n[key] for n in card["normalisation"]]).view(-1, 1, 1)
    return (pixels.float() / 255 - per_channel("mean")) / per_channel("std")


def network(card):
    """The module that a card describes, with values as PyTorch draws them."""
    spec, shape, classes = card["network"], card["input"], len(card["classes"])
    channels, height, width = shape["channels"], shape["height"], shape["width"]
    name = spec["name"]
    if name == "logistic":
        return Logistic(channels * height * width, classes)
    if name == "mlp":
        return Mlp(channels * height * width, spec.get("hidden", [200]), classes)
    if name == "lenet5":
        return Convolutional((channels, height, width), (6, 16), [120, 84], classes)
    if name == "cnn":
        return Convolutional((channels, height, width), (32, 64), [512], classes)
    if name in RESNETS:
        stem = spec.get("stem", "cifar" if max(height, width) <= 64 else "imagenet")
        return ResNet(*RESNETS[name], spec.get("norm", "batch"), stem, spec.get("width", 64), channels, classes)
    raise ValueError(f"this file does not know the network {name}")


class Logistic(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.fc(x.flatten(1))


class Mlp(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        self.count = len(hidden)
        for i, (before, after) in enumerate(zip([inputs, *hidden], hidden)):
            setattr(self, f"fc{i + 1}", nn.Linear(before, after))
        self.head = nn.Linear([inputs, *hidden][-1], classes)

    def forward(self, x):
        x = x.flatten(1)
        for i in range(self.count):
            x = F.relu(getattr(self, f"fc{i + 1}")(x))
        return self.head(x)


class Convolutional(nn.Module):
    """`lenet5` and `cnn`: two unpadded 5x5 convolutions, each with ReLU and pooling, then linear layers."""

    def __init__(self, shape, channels, hidden, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], channels[0], 5)
        self.conv2 = nn.Conv2d(channels[0], channels[1], 5)
        height, width = (((size - 4) // 2 - 4) // 2 for size in shape[1:])
        widths = [channels[1] * height * width, *hidden, classes]
        self.count = len(widths) - 1
        for i in range(self.count):
            setattr(self, f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        for i in range(1, self.count):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.count}")(x)


def norm(kind, channels):
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(max(g for g in range(1, 33) if channels % g == 0), channels)


def conv(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3 and 1x1, beside a shortcut."""

    def __init__(self, expansion, inputs, width, stride, kind):
        super().__init__()
        outputs = width * expansion
        if expansion == BASIC:
            layers = [(inputs, width, 3, stride), (width, width, 3, 1)]
        else:
            layers = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        self.count = len(layers)
        for i, layer in enumerate(layers):
            setattr(self, f"conv{i + 1}", conv(*layer))
            setattr(self, f"bn{i + 1}", norm(kind, layer[1]))
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), norm(kind, outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        for i in range(1, self.count + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            if i < self.count:
                x = F.relu(x)
        return F.relu(x + shortcut)


class ResNet(nn.Module):
    """Torchvision's names; with `stem="cifar"` one 3x3 convolution instead of 7x7 and pooling."""

    def __init__(self, expansion, depths, kind, stem, width, channels, classes):
        super().__init__()
        large = stem == "imagenet"
        self.conv1 = conv(channels, width, 7, 2) if large else conv(channels, width, 3, 1)
        self.bn1 = norm(kind, width)
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        reached = width
        for stage, depth in enumerate(depths):
            blocks = []
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Block(expansion, reached, width << stage, stride, kind))
                reached = (width << stage) * expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(reached, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))
