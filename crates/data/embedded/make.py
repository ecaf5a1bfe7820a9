#!/usr/bin/env python3
"""Makes the embedded dataset `mnist-small` from the official MNIST files.

    python3 make.py DATA_DIR            write the four files next to this script
    python3 make.py DATA_DIR --check    compare the files next to this script with DATA_DIR

DATA_DIR holds MNIST in torchvision's layout: MNIST/raw/train-images-idx3-ubyte and so on, plain or
.gz. Of every class, 800 images come from the official training file and 200 from the official test
file, spaced evenly over the file: the two halves of the test file come from different writers, and
taking the first 200 of a class would see one half only. Chosen images keep the order of the file.

There is no randomness, so the same source gives the same pixels everywhere. The compressed bytes
may differ between versions of zlib; `--check` therefore compares what they decompress to.
"""

import gzip
import struct
import sys
import zlib
from pathlib import Path

CLASSES = 10
SIDE = 28
PARTS = {"train": 800, "t10k": 200}
HERE = Path(__file__).resolve().parent


def official(folder: Path, name: str) -> bytes:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            data = path.read_bytes()
            return gzip.decompress(data) if path.suffix == ".gz" else data
    sys.exit(f"{folder / name} (or .gz) is absent: DATA_DIR must hold MNIST/raw")


def idx(data: bytes, magic: int, sides: tuple[int, ...], name: str) -> tuple[int, bytes]:
    """The number of items and the payload of an IDX file whose items have the given sides."""
    header = 4 * (2 + len(sides))
    found, count, *extents = struct.unpack_from(f">{2 + len(sides)}I", data)
    size = SIDE * SIDE if sides else 1
    if found != magic or tuple(extents) != sides or len(data) != header + count * size:
        sys.exit(f"{name} is not the official MNIST file")
    return count, data[header:]


def chosen(labels: bytes, per_class: int) -> list[int]:
    """`per_class` positions of every class, evenly spaced among the positions of that class."""
    picks = []
    for digit in range(CLASSES):
        places = [i for i, label in enumerate(labels) if label == digit]
        picks += [places[i * len(places) // per_class] for i in range(per_class)]
    return sorted(picks)


def subset(folder: Path, part: str, per_class: int) -> dict[str, bytes]:
    image_file, label_file = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    count, pixels = idx(official(folder, image_file), 0x803, (SIDE, SIDE), image_file)
    label_count, labels = idx(official(folder, label_file), 0x801, (), label_file)
    if count != label_count:
        sys.exit(f"{image_file} holds {count} images, {label_file} {label_count} labels")
    picks = chosen(labels, per_class)
    size = SIDE * SIDE
    images = b"".join(pixels[i * size : (i + 1) * size] for i in picks)
    return {
        image_file: struct.pack(">4I", 0x803, len(picks), SIDE, SIDE) + images,
        label_file: struct.pack(">2I", 0x801, len(picks)) + bytes(labels[i] for i in picks),
    }


def compressed(data: bytes) -> bytes:
    """A gzip member with a fixed header: no time, no file name, unknown system."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY)
    body = deflate.compress(data) + deflate.flush()
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
    return header + body + struct.pack("<2I", zlib.crc32(data), len(data))


def main() -> None:
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    folder = Path(arguments[0]) / "MNIST" / "raw"
    for part, per_class in PARTS.items():
        for name, data in subset(folder, part, per_class).items():
            target = HERE / f"{name}.gz"
            if "--check" not in sys.argv:
                target.write_bytes(compressed(data))
            elif not target.is_file() or gzip.decompress(target.read_bytes()) != data:
                sys.exit(f"{target.name} differs from the official files")
            print(f"{target.name}: {target.stat().st_size} bytes, CRC-32 {zlib.crc32(data):08x}")


if __name__ == "__main__":
    main()
