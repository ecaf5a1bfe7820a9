#!/usr/bin/env python3
"""Makes the pickles in this folder: batches of CIFAR-10 with two pictures each.

    python3 make.py        needs NumPy

protocol-N.gz is what Python 3 writes in protocol N. python-2.gz is put together here byte by byte, as
Python 2 with NumPy 1 wrote the files that the authors of CIFAR hand out: texts are bytes, and so are
the pixels.
"""

import gzip
import pathlib
import pickle
import struct

import numpy

HERE = pathlib.Path(__file__).resolve().parent
PIXELS = numpy.array([[(i * 7 + n * 31) % 256 for i in range(3072)] for n in range(2)], dtype=numpy.uint8)
LABELS = [6, 9]
FILENAMES = [b"leptodactylus_pentadactylus_s_000004.png", b"camion_s_000148.png"]


def python2():
    memo = iter(range(256))

    def put(code):
        return code + b"q" + bytes([next(memo)])

    def text(value):
        length = bytes([len(value)])
        return put(b"U" + length + value)

    pixels = PIXELS.tobytes()
    array = put(b"cnumpy.core.multiarray\n_reconstruct\n") + put(b"cnumpy\nndarray\n")
    array = put(array + put(b"K\x00\x85") + text(b"b") + b"\x87") + put(b"R")
    kind = put(b"cnumpy\ndtype\n") + put(text(b"u1") + b"K\x00K\x01\x87") + put(b"R")
    kind += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t" + b"b"
    state = b"(K\x01" + put(b"K\x02M\x00\x0c\x86") + kind + b"\x89"
    state += put(b"T" + struct.pack("<i", len(pixels)) + pixels) + b"t" + b"b"
    labels = put(b"]") + b"(" + b"".join(b"K" + bytes([label]) for label in LABELS) + b"e"
    names = put(b"]") + b"(" + b"".join(map(text, FILENAMES)) + b"e"
    body = text(b"data") + array + state + text(b"labels") + labels
    body += text(b"batch_label") + text(b"testing batch 1 of 1") + text(b"filenames") + names
    return b"\x80\x02" + put(b"}") + b"(" + body + b"u."


def write(name, content):
    (HERE / name).write_bytes(gzip.compress(content, mtime=0))


batch = {b"batch_label": b"testing batch 1 of 1", b"labels": LABELS, b"data": PIXELS, b"filenames": FILENAMES}
for protocol in range(6):
    write(f"protocol-{protocol}.gz", pickle.dumps(batch, protocol=protocol))
write("python-2.gz", python2())
known = pickle.loads(python2(), encoding="bytes")
assert (known[b"data"] == PIXELS).all() and known[b"labels"] == LABELS and known[b"filenames"] == FILENAMES
