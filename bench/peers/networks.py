"""The networks of the comparison, with the layers and the parameter counts of Formant's catalogue."""

from torch import nn

PARAMETERS = {"cnn": 878_538, "resnet18": 11_173_962}


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, 10),
    )


class Block(nn.Module):
    """Two 3x3 convolutions with batch norm, and a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )
        self.last = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.last(self.main(x).add_(self.short(x)))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    inputs = 64
    for stage, width in enumerate([64, 128, 256, 512]):
        for index in range(2):
            layers.append(Block(inputs, width, 2 if stage and not index else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def build(name):
    """A network by name; a count of parameters that is not Formant's would be other work."""
    network = {"cnn": cnn, "resnet18": resnet18}[name]()
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == PARAMETERS[name], f"{name} has {count} parameters, Formant's has {PARAMETERS[name]}"
    return network
