"""Images in the layouts that Formant's loaders read: random, from a fixed seed, and learnable.

Every class has a pattern, every image is its class's pattern under noise, so that an engine which does not train
is seen in its accuracy. What an image shows does not change what it costs.
"""

import argparse
import json
import pathlib
import struct

CIFAR_FOLDER = "cifar-10-batches-bin"
MNIST_FOLDER = "MNIST/raw"
# The catalogue of Formant normalises with these.
CIFAR_MEAN, CIFAR_DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def images(count, channels, size, seed):
    """`count` images as bytes, shape (count, channels, size, size), and labels; classes in equal numbers."""
    import numpy

    patterns = numpy.random.default_rng(7).normal(size=(10, channels, size, size)).astype("float32")
    random = numpy.random.default_rng(seed)
    labels = (numpy.arange(count) % 10).astype("uint8")
    random.shuffle(labels)
    pixels = numpy.empty((count, channels, size, size), dtype="uint8")
    for start in range(0, count, 1000):  # a thousand at a time: the noise takes four times the memory
        part = labels[start:start + 1000]
        noise = random.normal(size=(len(part), channels, size, size)).astype("float32")
        pixels[start:start + 1000] = numpy.clip(128 + 32 * patterns[part] + 48 * noise, 0, 255)
    return pixels, labels


def write_cifar(folder, train, test):
    """The binary version: records of a label byte and the pixels, training images in five files."""
    import numpy

    folder.mkdir(parents=True, exist_ok=True)

    def write(name, pixels, labels):
        records = numpy.concatenate([labels[:, None], pixels.reshape(len(pixels), -1)], axis=1)
        (folder / name).write_bytes(records.tobytes())

    pixels, labels = images(train, 3, 32, seed=1)
    for index, part in enumerate(numpy.array_split(numpy.arange(train), 5)):
        write(f"data_batch_{index + 1}.bin", pixels[part], labels[part])
    write("test_batch.bin", *images(test, 3, 32, seed=2))


def write_mnist(folder, train, test):
    """Two IDX files a set."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, seed in [("train", train, 1), ("t10k", test, 2)]:
        pixels, labels = images(count, 1, 28, seed)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, 28, 28) + pixels.tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels.tobytes())


def cifar(folder):
    """What `write_cifar` wrote, as Formant loads it: (train, test), each normalised floats and labels."""
    import torch

    mean, deviation = torch.tensor(CIFAR_MEAN).view(3, 1, 1), torch.tensor(CIFAR_DEVIATION).view(3, 1, 1)

    def read(names):
        raw = b"".join((pathlib.Path(folder) / CIFAR_FOLDER / name).read_bytes() for name in names)
        records = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, 3073)
        pixels = records[:, 1:].reshape(-1, 3, 32, 32).float().div_(255).sub_(mean).div_(deviation)
        return pixels, records[:, 0].long()

    return read([f"data_batch_{index}.bin" for index in range(1, 6)]), read(["test_batch.bin"])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("layout", choices=["cifar", "mnist"])
    arguments.add_argument("--folder", type=pathlib.Path, required=True)
    arguments.add_argument("--train", type=int, required=True)
    arguments.add_argument("--test", type=int, required=True)
    given = arguments.parse_args()
    if given.layout == "cifar":
        write_cifar(given.folder / CIFAR_FOLDER, given.train, given.test)
    else:
        write_mnist(given.folder / MNIST_FOLDER, given.train, given.test)
    print(json.dumps({"train": given.train, "test": given.test}))


if __name__ == "__main__":
    main()
