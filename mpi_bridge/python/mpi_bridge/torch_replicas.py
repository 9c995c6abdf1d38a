# SPDX-License-Identifier: Apache-2.0
"""Hashes of torch tensors for the comparison of replicas, made where the tensors are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from .replicas import Checks

_PIECE = 1 << 18  # elements at a time, so that little memory is needed
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32}  # by the bytes of an element
_WORD = 8
_MODULUS = 1 << 64


def compare(checks: Checks, named: Mapping[torch.Tensor, str]) -> None:
    """Collective: raise MismatchError if the tensors' bits are not the same on all ranks."""
    described = [
        f'"{name}" ({str(tensor.dtype).rpartition(".")[2]}, {tuple(tensor.shape)})'
        for tensor, name in named.items()
    ]
    checks.compare(described, hashes_of(named))


def hashes_of(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Return a hash of 64 bits of each tensor's bits; the same on every kind of device."""
    factors: dict[torch.device, torch.Tensor] = {}
    found: list[torch.Tensor] = []
    with torch.no_grad():
        for tensor in tensors:
            if tensor.device not in factors:
                factors[tensor.device] = _odd_numbers(0, _PIECE, tensor.device)
            found.append(_hash(tensor, factors[tensor.device]))
    by_device: dict[torch.device, list[int]] = {}
    for number, each in enumerate(found):
        by_device.setdefault(each.device, []).append(number)
    hashes = [0] * len(found)
    for numbers in by_device.values():
        # One copy from each device.
        for number, value in zip(numbers, torch.stack([found[i] for i in numbers]).tolist()):
            hashes[number] = value % _MODULUS
    return hashes


def _hash(tensor: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Return the sum of the words of a tensor, each multiplied by an odd number of its own.

    Sums and products are those modulo 2^64, so their order does not matter.
    """
    words = _words(tensor)
    sums = [
        (words[start : start + _PIECE].to(torch.int64) * factors[: words.numel() - start]).sum()
        for start in range(0, words.numel(), _PIECE)
    ]
    if not sums:
        return torch.zeros((), dtype=torch.int64, device=tensor.device)
    return (torch.stack(sums) * _odd_numbers(_PIECE, len(sums), tensor.device)).sum()


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's bits as integers, which are as long as their number allows."""
    elements = tensor.detach().contiguous().view(-1)
    size = elements.element_size()
    if elements.numel() * size % _WORD:
        return elements.view(_INTEGERS[size])
    if elements.storage_offset() * size % _WORD:
        elements = elements.clone()
    return elements.view(torch.int64)


def _odd_numbers(first: int, count: int, device: torch.device) -> torch.Tensor:
    """Return numbers of a random sequence from the one with this index: SplitMix64's finaliser."""
    numbers = torch.arange(first + 1, first + count + 1, device=device)
    numbers = numbers * _signed(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> shift)) * _signed(factor)
    return numbers | 1


def _signed(number: int) -> int:
    return number - _MODULUS if number >= _MODULUS // 2 else number
