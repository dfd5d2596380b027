"""A selector: every second action, from the first or the second on."""

from bpo.methods import NamedSelector, Param
from bpo.select import CausalSelector


class Odd(CausalSelector):
    def __init__(self, first, spacing):
        super().__init__(spacing)
        self.first = first

    def wants(self, boundary):
        return boundary.depth % 2 == self.first


odd = NamedSelector(
    meaning="at every second action",
    causal=True,
    make=lambda spacing, value: Odd(int(value), spacing),
    value=Param(1, "the first depth", low=0, high=1),
)
