"""The parts of a Llama layer, with their derivatives where training needs them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as nn


@dataclass(frozen=True)
class Layer:
    """Folded weights of a layer, [out, in] each: queries, keys and values in one; gate and up in one."""

    qkv: torch.Tensor
    out: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True)
class Shape:
    """heads that ask, heads of keys and values, entries of a head; eps is what a norm adds to the mean square."""

    heads: int
    kv_heads: int
    size: int
    eps: float

    @property
    def groups(self) -> int:
        """Heads that ask the same keys."""
        return self.heads // self.kv_heads


def normed(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Rows of x divided by the root of their mean square."""
    return nn.rms_norm(x, x.shape[1:], None, eps)


def turn(heads: torch.Tensor, turns: torch.Tensor) -> None:
    """Turn the entries of heads [tokens, heads, head size], pair by pair, in place."""
    torch.view_as_complex(heads.unflatten(2, (-1, 2))).mul_(turns)


def normed_back(grad: torch.Tensor, x: torch.Tensor, y: torch.Tensor, eps: float) -> torch.Tensor:
    """Derivative with respect to x of `normed`, whose value was y, from that with respect to y (overwritten)."""
    scale = torch.linalg.vector_norm(x, dim=1, keepdim=True).square_().div_(x.shape[1]).add_(eps).rsqrt_()
    along = torch.linalg.vecdot(grad, y)[:, None].div_(x.shape[1])
    return grad.addcmul_(y, along, value=-1).mul_(scale)


class FeedForward(torch.autograd.Function):
    """x [tokens, size] and the feed-forward layer on top of it; what is cheap is computed again for the derivative."""

    @staticmethod
    def forward(ctx, x, gate_up, down, eps: float):
        between = nn.linear(normed(x, eps), gate_up)
        ctx.save_for_backward(x, between, gate_up, down)
        ctx.eps = eps
        gate, up = between.chunk(2, 1)
        return torch.addmm(x, nn.silu(gate).mul_(up), down.T)

    @staticmethod
    def backward(ctx, grad):
        x, between, gate_up, down = ctx.saved_tensors
        gate, up = between.chunk(2, 1)
        opened = nn.silu(gate)
        of_product = grad @ down
        of_between = torch.empty_like(between)
        of_gate, of_up = of_between.chunk(2, 1)
        torch.mul(of_product, opened, out=of_up)
        torch.ops.aten.silu_backward.grad_input(of_product.mul_(up), gate, grad_input=of_gate)
        of_down = grad.T @ opened.mul_(up)
        y = normed(x, ctx.eps)
        of_gate_up = of_between.T @ y
        return normed_back(of_between @ gate_up, x, y, ctx.eps).add_(grad), of_gate_up, of_down, None


class Projected(torch.autograd.Function):
    """Heads [tokens, heads, head size] of x [tokens, size]; the first `turning` of them are turned."""

    @staticmethod
    def forward(ctx, x, weight, turns, turning: int, shape: Shape):
        heads = nn.linear(normed(x, shape.eps), weight).view(len(x), -1, shape.size)
        turn(heads[:, :turning], turns)
        ctx.save_for_backward(x, weight, turns)
        ctx.turning, ctx.shape = turning, shape
        return heads

    @staticmethod
    def backward(ctx, grad):
        x, weight, turns = ctx.saved_tensors
        grad = grad.clone()
        turn(grad[:, : ctx.turning], turns.conj().resolve_conj())
        grad, y = grad.view(len(x), -1), normed(x, ctx.shape.eps)
        return normed_back(grad @ weight, x, y, ctx.shape.eps), grad.T @ y, None, None, None
