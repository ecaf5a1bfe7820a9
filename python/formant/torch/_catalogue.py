"""Formant's own networks as PyTorch modules, with the names that its model files use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from formant._errors import FormantError

BASIC, BOTTLENECK = 1, 4  # how many times wider a block's output is than its convolutions
RESNETS: dict[str, tuple[int, list[int]]] = {
    "resnet18": (BASIC, [2, 2, 2, 2]),
    "resnet34": (BASIC, [3, 4, 6, 3]),
    "resnet50": (BOTTLENECK, [3, 4, 6, 3]),
}
# Networks whose batches have their channels last: a quarter quicker on CPUs, and the same numbers. No others. PyTorch's
# batch norm is ten times less exact that way, which flips units of residual networks, and its 1x1 convolutions
# with stride 2 write where they must not (2.15, two threads, few channels: the process dies).
CHANNELS_LAST = ("lenet5", "cnn")
NAMES = ("logistic", "mlp", "lenet5", "cnn", *RESNETS)


def build(spec: Mapping[str, Any], shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The module that ``[network]`` of an experiment describes, with values as PyTorch draws them.

    >>> sum(p.numel() for p in build({"name": "cnn"}, (3, 32, 32), 10).parameters())
    878538
    """
    channels, height, width = shape
    name = spec["name"]
    if name == "logistic":
        return Logistic(channels * height * width, classes)
    if name == "mlp":
        return Mlp(channels * height * width, _or(spec, "hidden", [200]), classes)
    if name == "lenet5":
        return Convolutional(shape, (6, 16), [120, 84], classes)
    if name == "cnn":
        return Convolutional(shape, (32, 64), [512], classes)
    if name in RESNETS:
        stem = _or(spec, "stem", "cifar" if max(height, width) <= 64 else "imagenet")
        expansion, depths = RESNETS[name]
        kind, first = _or(spec, "norm", "batch"), _or(spec, "width", 64)
        return ResNet(expansion, depths, kind, stem, first, channels, classes)
    if name == "module":
        raise FormantError(
            "the network is a module, and this engine has Formant's own networks alone",
            hint="give formant.torch.network(module) as the network",
        )
    raise FormantError(f"the PyTorch engine has no network {name!r}", hint=f"there are {', '.join(NAMES)}")


def _or(spec: Mapping[str, Any], key: str, default: Any) -> Any:
    """An option, or its default where none is set."""
    value = spec.get(key)
    return default if value is None else value


class Logistic(nn.Module):
    """Softmax regression on the pixels."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(x.flatten(1))
        return logits


class Mlp(nn.Module):
    """Linear layers with ReLU."""

    def __init__(self, inputs: int, hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        self.count = len(hidden)
        for i, (before, after) in enumerate(zip([inputs, *hidden], hidden)):
            setattr(self, f"fc{i + 1}", nn.Linear(before, after))
        self.head = nn.Linear([inputs, *hidden][-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        for i in range(self.count):
            x = F.relu(getattr(self, f"fc{i + 1}")(x))
        logits: Tensor = self.head(x)
        return logits


class Convolutional(nn.Module):
    """``lenet5`` and ``cnn``: two unpadded 5x5 convolutions, each with ReLU and pooling, then linear layers."""

    def __init__(
        self, shape: tuple[int, int, int], channels: tuple[int, int], hidden: Sequence[int], classes: int
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], channels[0], 5)
        self.conv2 = nn.Conv2d(channels[0], channels[1], 5)
        height, width = (((size - 4) // 2 - 4) // 2 for size in shape[1:])
        if height < 1 or width < 1:
            raise FormantError(
                f"samples of {shape[1]}x{shape[2]} are too small for two 5x5 convolutions",
                hint='take network "mlp" or "logistic", or larger images (16x16 and up)',
            )
        widths = [channels[1] * height * width, *hidden, classes]
        self.count = len(widths) - 1
        for i in range(self.count):
            setattr(self, f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        for i in range(1, self.count):
            x = F.relu(getattr(self, f"fc{i}")(x))
        logits: Tensor = getattr(self, f"fc{self.count}")(x)
        return logits


def _norm(kind: str, channels: int) -> nn.Module:
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(max(g for g in range(1, 33) if channels % g == 0), channels)


def _conv(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Module:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3 and 1x1, beside a shortcut."""

    def __init__(self, expansion: int, inputs: int, width: int, stride: int, kind: str) -> None:
        super().__init__()
        outputs = width * expansion
        if expansion == BASIC:
            layers = [(inputs, width, 3, stride), (width, width, 3, 1)]
        else:
            layers = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        self.count = len(layers)
        for i, layer in enumerate(layers):
            setattr(self, f"conv{i + 1}", _conv(*layer))
            setattr(self, f"bn{i + 1}", _norm(kind, layer[1]))
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(_conv(inputs, outputs, 1, stride), _norm(kind, outputs))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        for i in range(1, self.count + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            if i < self.count:
                x = F.relu(x)
        return F.relu(x + shortcut)


class ResNet(nn.Module):
    """Torchvision's names; with ``stem="cifar"`` one 3x3 convolution instead of 7x7 and pooling."""

    def __init__(
        self, expansion: int, depths: Sequence[int], kind: str, stem: str, width: int, channels: int, classes: int
    ) -> None:
        super().__init__()
        large = stem == "imagenet"
        self.conv1 = _conv(channels, width, 7, 2) if large else _conv(channels, width, 3, 1)
        self.bn1 = _norm(kind, width)
        self.pool: nn.Module = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        reached = width
        for stage, depth in enumerate(depths):
            blocks: list[nn.Module] = []
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Block(expansion, reached, width << stage, stride, kind))
                reached = (width << stage) * expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(reached, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
