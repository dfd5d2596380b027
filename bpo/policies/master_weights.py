"""Weights in half precision that learn: the optimiser steps on a float32 copy, which is then rounded into them.

A step of AdamW moves a weight by about the learning rate. Eight bits of mantissa cannot hold a change below a 256th of the
weight, so that without the copy most weights never move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

# Types that the optimiser steps on as they are.
WIDE = (torch.float32, torch.float64)


class MasterWeights:
    """An optimiser over parameters, some of which may be narrower than float32 (mixed precision, arXiv 1710.03740).

    parameters  what is trained; gradients are read from them, and may be clipped there before `step`
    make        makes the optimiser of the weights it is given: the parameters themselves, float32 copies of narrow ones

    Where nothing is narrow this is the optimiser itself, number for number. Writing to the parameters in any other way (loading
    weights) needs `load_state_dict` or a new one afterwards. float16 gradients below 6e-8 vanish before they come here.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter], make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]):
        self._parameters = list(parameters)
        self._masters = [p if p.dtype in WIDE else p.detach().float().requires_grad_(True) for p in self._parameters]
        self.optimiser = make(self._masters)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the optimiser, whose learning rate can be set."""
        return self.optimiser.param_groups

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients of the parameters."""
        for parameter, master in self._narrow():
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self.optimiser.step()
        for parameter, master in self._narrow():
            master.grad = None
            parameter.copy_(master)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the parameters."""
        for parameter in self._parameters:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """The optimiser's state, and the copies of narrow parameters in their order."""
        return {"optimiser": self.optimiser.state_dict(), "masters": [master.detach() for _, master in self._narrow()]}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned, narrow parameters included; ValueError where it is of other parameters."""
        narrow = self._narrow()
        if [master.shape for _, master in narrow] != [saved.shape for saved in state["masters"]]:
            raise ValueError("these master weights belong to other parameters")
        self.optimiser.load_state_dict(state["optimiser"])
        for (parameter, master), saved in zip(narrow, state["masters"], strict=True):
            master.copy_(saved)
            parameter.copy_(master)

    def _narrow(self) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        pairs = zip(self._parameters, self._masters, strict=True)
        return [(parameter, master) for parameter, master in pairs if master is not parameter]
