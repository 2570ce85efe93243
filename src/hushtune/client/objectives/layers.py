"""Linear and convolution layers that know how to run for many rows of weights at once.

`vmap`'s own rules copy a shared input for every row, and turn convolutions into grouped ones, which are slow on a CPU.
Here a shared input is multiplied with all rows' weights in one matrix product; other convolutions go row by row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class _Linear(torch.autograd.Function):
    """x W' + b."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        flat = gradient.reshape(-1, gradient.shape[-1])
        return gradient @ weight, flat.T @ x.reshape(-1, x.shape[-1]), flat.sum(0)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, int]:
        rows = info.batch_size
        weight, bias = _stacked(weight, in_dims[1], rows), _stacked(bias, in_dims[2], rows)
        if in_dims[0] is None:
            out = functional.linear(x, weight.reshape(-1, weight.shape[-1]), bias.reshape(-1))
            return out.unflatten(-1, (rows, -1)).movedim(-2, 0), 0
        x = x.movedim(in_dims[0], 0)
        flat = x.reshape(rows, -1, x.shape[-1])
        out = torch.baddbmm(bias[:, None], flat, weight.transpose(1, 2))
        return out.reshape(*x.shape[:-1], -1), 0


class _Conv(torch.autograd.Function):
    """A two-dimensional convolution without groups and dilation."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
        return functional.conv2d(x, weight, bias, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])
        ctx.stride, ctx.padding = inputs[3], inputs[4]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        to_x = torch.nn.grad.conv2d_input(x.shape, weight, gradient, ctx.stride, ctx.padding)
        to_weight = torch.nn.grad.conv2d_weight(x, weight.shape, gradient, ctx.stride, ctx.padding)
        return to_x, to_weight, gradient.sum((0, 2, 3)), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int
    ) -> tuple[Tensor, int]:
        rows = info.batch_size
        weight, bias = _stacked(weight, in_dims[1], rows), _stacked(bias, in_dims[2], rows)
        if in_dims[0] is None:
            return _shared_conv(x, weight, bias, stride, padding), 0
        each = zip(x.movedim(in_dims[0], 0).unbind(), weight.unbind(), bias.unbind(), strict=True)
        return torch.stack([functional.conv2d(own, w, b, stride, padding) for own, w, b in each]), 0


def _shared_conv(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """One input, many rows of weights: all patches of the input times all weights, in one matrix product."""
    rows, out, _, high, wide = weight.shape
    x = functional.pad(x, (padding,) * 4) if padding else x
    patches = x.unfold(2, high, stride).unfold(3, wide, stride)  # batch, channels, down, across, high, wide
    batch, _, down, across = patches.shape[:4]
    columns = patches.permute(1, 4, 5, 0, 2, 3).reshape(-1, batch * down * across)
    found = torch.addmm(bias.reshape(-1, 1), weight.reshape(rows * out, -1), columns)
    return found.view(rows, out, batch, down, across).transpose(1, 2)


def _stacked(value: Tensor, at: int | None, rows: int) -> Tensor:
    return value.movedim(at, 0) if at is not None else value.expand(rows, *value.shape)


class Linear(nn.Linear):
    """`nn.Linear`, fast for many rows."""

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Linear` computes it, also for many rows of weights at once."""
        found: Tensor = _Linear.apply(x, self.weight, self.bias)
        return found


class Conv2d(nn.Conv2d):
    """`nn.Conv2d`, fast for many rows."""

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Conv2d` computes it, also for many rows of weights at once."""
        found: Tensor = _Conv.apply(x, self.weight, self.bias, self.stride[0], int(self.padding[0]))
        return found


def quicken(layer: nn.Module) -> None:
    """Gives a plain linear or convolution layer the class above; leaves all others as they are."""
    if type(layer) is nn.Linear and layer.bias is not None:
        layer.__class__ = Linear
    elif type(layer) is nn.Conv2d and layer.bias is not None and _simple(layer):
        layer.__class__ = Conv2d


def _simple(layer: nn.Conv2d) -> bool:
    square = len(set(layer.stride)) == 1 and len(set(layer.padding)) == 1
    plain = layer.groups == 1 and set(layer.dilation) == {1} and layer.padding_mode == "zeros"
    return square and plain and not isinstance(layer.padding, str)
