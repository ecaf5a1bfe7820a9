"""Compares the logits of several programs for models that `scripts/check-exports` has made."""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch"))

import numpy as np
import onnx
import onnxruntime
import safetensors.numpy
import torch
from formant_networks import load, network, prepare

TOLERANCE = 1e-5


def main(folder, names):
    versions = ", ".join(f"{m.__name__} {m.__version__}" for m in (torch, onnxruntime, onnx, np))
    print("Largest difference to Formant's logits, as a part of the largest logit:\n")
    print("| model | parameters | largest logit | PyTorch | PyTorch, npz | onnxruntime | onnxruntime, one by one |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    all_differences = []
    for name in names:
        parameters, scale, differences = compare(folder / name)
        all_differences += differences
        cells = " | ".join(f"{difference:.1e}" for difference in differences)
        print(f"| {name} | {parameters:,} | {scale:.3g} | {cells} |", flush=True)
    # numpy's maximum, because Python's would pass over a difference that is not a number.
    worst = np.max(all_differences)
    print(f"\nLargest of all: {worst:.1e}; allowed: {TOLERANCE:.0e} ({versions})")
    return 0 if worst <= TOLERANCE else 1


def compare(path):
    """Parameters, largest logit, and how far each program is from Formant."""
    check = safetensors.numpy.load_file(f"{path}.check")
    pixels, ours = check["pixels"], check["logits"]
    scale = np.abs(ours).max()
    assert np.ptp(ours, axis=0).max() > 0.01 * scale, f"{path.name} does not see its images"

    module, card = load(f"{path}.safetensors")
    from_npz = with_arrays(card, f"{path}.npz")
    with torch.no_grad():
        inputs = prepare(card, torch.from_numpy(pixels))
        theirs = [module(inputs).numpy(), from_npz(inputs).numpy()]

    graph = onnx.load(f"{path}.onnx")
    onnx.checker.check_model(graph, full_check=True)
    check_metadata(graph, card)
    session = onnxruntime.InferenceSession(f"{path}.onnx", providers=["CPUExecutionProvider"])
    run = lambda images: session.run(["logits", "probabilities"], {"pixels": images})
    logits, probabilities = run(pixels)
    assert np.allclose(probabilities, torch.softmax(torch.from_numpy(logits), 1).numpy(), atol=1e-6)
    theirs += [logits, np.concatenate([run(pixels[i : i + 1])[0] for i in range(len(pixels))])]

    assert all(logits.shape == ours.shape for logits in theirs)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    return parameters, scale, [np.abs(logits - ours).max() / scale for logits in theirs]


def with_arrays(card, path):
    """The module again, with the values of the NumPy archive."""
    with np.load(path) as arrays:
        assert {k: v for k, v in card.items() if k != "check"} == json.loads(arrays["formant.json"])
        state = {name: torch.from_numpy(arrays[name]) for name in arrays.files if name != "formant.json"}
    module = network(card)
    module.load_state_dict(state, strict=True)
    return module.eval()


def check_metadata(graph, card):
    metadata = {entry.key: json.loads(entry.value) for entry in graph.metadata_props}
    assert metadata["formant"] == {k: v for k, v in card.items() if k != "check"}
    assert metadata["classes"] == card["classes"]
    batch = graph.graph.input[0].type.tensor_type.shape.dim[0]
    assert batch.dim_param == "batch", "the batch is not free"


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
