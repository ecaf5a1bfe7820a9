"""The machine's own peak: the best matrix product that anybody here has."""

from ..figures import shown, spread, table

SIZES = [1024, 2048]


def measure(bench):
    engines = {}
    for size in SIZES:
        for at_once in (1, 2):
            common = ["--size", size, "--seconds", bench.seconds(1.0)]
            engines[f"PyTorch, {size}, {at_once} at once"] = (
                lambda common=common, n=at_once: bench.peer("sgemm.py", *common, "--processes", n))
            engines[f"Formant's bench, {size}, {at_once} at once"] = (
                lambda common=common, n=at_once: bench.formant_bench("sgemm", *common, "--threads", n))
        engines[f"PyTorch, {size}, 2 threads"] = (
            lambda common=common: bench.peer("sgemm.py", *common, "--threads", 2))
    return bench.alternate("sgemm", engines)


def gflops(raw):
    """Figures by what was multiplied and by how many cores."""
    figures = {1: {}, 2: {}}
    for name, results in raw["results"].items():
        cores = 1 if name.endswith("1 at once") else 2
        if name.startswith("PyTorch"):
            figures[cores][name] = spread(result["gflops"] for result in results)
        else:
            for key, crate in [("gemm_crate_gflops", "gemm crate"), ("formant_gflops", "Formant's product")]:
                figures[cores][name.replace("Formant's bench", crate)] = spread(result[key] for result in results)
    return figures


def peaks(raw):
    """The best median of each, for one core and for two; Formant's own product does not set the mark."""
    return {
        cores: max(figure["median"] for name, figure in found.items() if not name.startswith("Formant"))
        for cores, found in gflops(raw).items()
    }


def report(raw, _everything):
    found, best = gflops(raw), peaks(raw)
    rows = [[name, str(cores), shown(figure)] for cores in (1, 2) for name, figure in found[cores].items()]
    return (
        f"The peak that shares below refer to: **{best[1]:.0f} GFLOP/s on one core, {best[2]:.0f} on two**.\n\n"
        + table(["square matrices", "cores", "GFLOP/s"], rows)
    )
