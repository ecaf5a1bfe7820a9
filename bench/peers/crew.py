"""Several processes that do the same thing at once, as Formant's workers do."""

import multiprocessing
import os
import time


def repeat(work, seconds):
    """Whole repetitions of `work` in about `seconds`; the time of the last one counts with it."""
    count, start = 0, time.perf_counter()
    while True:
        work()
        count += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return count, elapsed


def _member(main, rank, arguments, threads, barrier, results):
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(rank)
    results.put((rank, main(barrier, *arguments)))


def gather(members, results):
    """One result from each member, as it comes; an error when one of them died without any."""
    found = []
    while len(found) < len(members):
        if not results.empty():
            found.append(results.get())
        elif any(member.exitcode not in (None, 0) for member in members):
            for member in members:
                member.terminate()
            raise SystemExit("a process of the measurement failed; its traceback is above")
        else:
            time.sleep(0.01)
    for member in members:
        member.join()
    return found


def together(main, processes, threads, *arguments):
    """Calls `main(barrier, *arguments)` in each of some fresh processes; their results by rank."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes), context.SimpleQueue()
    members = [
        context.Process(target=_member, args=(main, rank, arguments, threads, barrier, results))
        for rank in range(processes)
    ]
    for member in members:
        member.start()
    found = dict(gather(members, results))
    return [found[rank] for rank in range(processes)]
