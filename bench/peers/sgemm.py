"""What PyTorch's own matrix product reaches on this machine."""

import argparse
import json

from crew import repeat, together


def member(barrier, size, warm_up, seconds):
    import torch

    a, b, c = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)

    def multiply():
        torch.mm(a, b, out=c)

    repeat(multiply, warm_up)
    barrier.wait()
    return repeat(multiply, seconds)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--size", type=int, default=1024)
    arguments.add_argument("--seconds", type=float, default=1.0)
    arguments.add_argument("--warm-up", type=float, default=0.5)
    given = arguments.parse_args()
    done = together(member, given.processes, given.threads, given.size, given.warm_up, given.seconds)
    products = sum(count / elapsed for count, elapsed in done)
    print(json.dumps({"size": given.size, "gflops": products * 2 * given.size**3 / 1e9}))


if __name__ == "__main__":
    main()
