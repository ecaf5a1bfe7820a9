"""The Flower client of the comparison: model and data are made once per actor, weights travel as NumPy arrays.

A module of its own, so that Ray sends a reference to these functions and not their code. Personal models live in
the client's context, which is where Flower keeps what a client keeps.
"""

import functools
import os

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from federation import Plan
from networks import build

PLAN_VARIABLE = "FORMANT_BENCH_PLAN"
app = ClientApp()


@functools.cache
def actor():
    """What an actor needs for every client that it plays: read once."""
    import json

    torch.set_num_threads(1)
    plan = Plan(**json.loads(os.environ[PLAN_VARIABLE]))
    model = build("cnn").to(memory_format=torch.channels_last)
    holdings, _ = plan.load()
    return plan, model, holdings


def load(model, arrays):
    """Weights in, without new tensors."""
    with torch.no_grad():
        for parameter, array in zip(model.parameters(), arrays.to_numpy_ndarrays()):
            parameter.copy_(torch.from_numpy(array))


def unload(model):
    return ArrayRecord([parameter.detach().numpy() for parameter in model.parameters()])


def epoch(model, plan, data, anchor=None):
    """One pass of plain SGD in random order; with an anchor, Ditto's proximal term as weight decay towards it."""
    pixels, labels = data
    parameters = list(model.parameters())
    optimiser = torch.optim.SGD(parameters, lr=plan.learning_rate, fused=True)
    for chosen in torch.randperm(len(labels)).split(plan.batch):
        optimiser.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen]).backward()
        if anchor is not None:
            with torch.no_grad():
                gradients = [parameter.grad for parameter in parameters]
                torch._foreach_add_(gradients, torch._foreach_sub(parameters, anchor), alpha=plan.proximal)
        optimiser.step()


@app.train()
def train(message, context):
    plan, model, holdings = actor()
    data = holdings[context.node_config["partition-id"]][0]
    received = message.content["arrays"]
    load(model, received)
    anchor = [parameter.detach().clone() for parameter in model.parameters()] if plan.method == "ditto" else None
    epoch(model, plan, data)
    sent = unload(model)
    if anchor is not None:
        load(model, context.state["personal"] if "personal" in context.state else received)
        epoch(model, plan, data, anchor)
        context.state["personal"] = unload(model)
    metrics = MetricRecord({"num-examples": len(data[1])})
    return Message(RecordDict({"arrays": sent, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    plan, model, holdings = actor()
    pixels, labels = holdings[context.node_config["partition-id"]][1]
    load(model, context.state["personal"] if plan.method == "ditto" else message.content["arrays"])
    with torch.inference_mode():
        right = int(model(pixels).argmax(1).eq(labels).sum())
    metrics = MetricRecord({"accuracy": right / len(labels), "num-examples": len(labels)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
