"""The Markdown report, from the raw figures alone."""

from .figures import percent, spread
from .sections import memory, rounds, scaling, sgemm, spectral, startup, steps

# In the order of the report.
SECTIONS = {
    "sgemm": ("The machine's peak", sgemm),
    "steps": ("Training steps, images a second", steps),
    "rounds": ("Whole rounds", rounds),
    "spectral": ("The spectral term", spectral),
    "memory": ("Peak memory of a run", memory),
    "startup": ("Start-up to first round", startup),
    "scaling": ("How Formant grows", scaling),
}
# From which share of the machine on somebody else's work makes the figures doubtful.
QUIET = 0.10


def render(raw):
    machine, versions = raw["machine"], raw["versions"]
    lines = ["# Formant and its peers: one run of `bench/run`\n"]
    lines.append(f"- {raw['date']}, {machine['cpu']} ({', '.join(machine['vector_extensions'])}), "
                 f"{machine['cores_used']} of {machine['cores_of_machine']} cores, {machine['memory']}, {machine['system']}")
    lines.append(f"- Formant {versions['formant']}, {versions['rustc']}, RUSTFLAGS `{versions['RUSTFLAGS']}`")
    lines.append("- " + ", ".join(f"{name} {versions[name]}" for name in ("python", "torch", "flwr", "ray", "pfl", "numpy")
                             if name in versions))
    repeated = f"{raw['repetitions']} repetition{'s' * (raw['repetitions'] > 1)}"
    lines.append(f"- {repeated}{', quick: too short to quote' if raw['quick'] else ''}; figures are medians "
                 "(least–greatest); ratios are medians of the ratios within each repetition; in each repetition the "
                 "engines take turns, every measurement in a fresh process")
    if raw["loads"]:
        load = spread(raw["loads"])
        lines.append(f"- Other work on the machine, watched before each measurement: {percent(load['median'])} in the "
                     f"median, {percent(load['max'])} at most")
        if load["median"] > QUIET:
            lines.append("\n**The machine was not quiet: do not quote these figures.**")
    text = "\n".join(lines) + "\n"
    for name, (title, section) in SECTIONS.items():
        if name in raw["sections"]:
            text += f"\n## {title}\n\n" + section.report(raw["sections"][name], raw["sections"]).lstrip("\n")
    return text
