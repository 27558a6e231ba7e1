"""Opacus: one step of DP-SGD on a linear model, prepared by ``PrivacyEngine.make_private`` on each dataset.

Poisson sampling and noise come from torch's generator, whose default seed is fixed: it is sown from the system's.
"""

import warnings

import torch
from opacus import PrivacyEngine
from serving import serve
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
torch.seed()


def prepared(dataset, batch_size, noise_multiplier, width):
    """A model of ``width`` weights, all zero, its optimiser and its loader of batches; and what accounts for them."""
    rows = torch.tensor(dataset, dtype=torch.float32).reshape(-1, 1).repeat(1, width)
    model, engine = torch.nn.Linear(width, 1, bias=False), PrivacyEngine(accountant="prv")
    private = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(TensorDataset(rows), batch_size=batch_size),
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
    )
    return model, engine, private


def step(batch_size, noise_multiplier, width, delta, records):
    """The weights after one step from zero; the claim is what Opacus accounts for, on ``records`` records."""
    _, engine, (module, optimizer, loader) = prepared([0.0] * records, batch_size, noise_multiplier, width)
    trained(module, optimizer, loader)
    claim = {"kind": "ApproxDP", "epsilon": float(engine.get_epsilon(delta)), "delta": delta}

    def draw(dataset, size):
        module, optimizer, loader = prepared(dataset, batch_size, noise_multiplier, width)[2]
        return [trained(module, optimizer, loader) for _ in range(size)]

    return claim, draw


def trained(module, optimizer, loader):
    """One step on the first batch that the loader draws, from weights of zero."""
    for weights in module.parameters():
        weights.data.zero_()
    optimizer.zero_grad()
    (batch,) = next(iter(loader))
    module(batch).sum().backward()
    optimizer.step()
    return next(module.parameters()).detach().flatten().tolist()


serve(step)
