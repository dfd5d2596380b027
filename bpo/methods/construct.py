"""From a row of the table and the values of a configuration to a method that can run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from bpo.errors import BadInput, choose
from bpo.methods.record import BuiltMethod
from bpo.methods.table import METHODS


def build(name: str, overrides: Mapping[str, Any] | None = None, where: str = "") -> BuiltMethod:
    """The method `name` with `overrides` on its defaults; BadInput names an unknown method, parameter or unusable value."""
    method = METHODS[choose("method", name, METHODS)]
    for key in overrides or {}:
        choose(f"parameter of {where}{name}:", key, method.parameters)
    given = {**method.defaults, **(overrides or {})}
    parameters = {key: row.checked(given[key], f"{where}{name}.{key}") for key, row in method.parameters.items()}
    try:
        method.check(parameters)
    except BadInput as error:
        raise BadInput(f"{where}{name}.{error}") from None
    growth, credit, objective = method.growth(parameters), method.credit(parameters), method.objective(parameters)
    memory, mechanism = partial(method.memory(parameters), growth), method.mechanism(parameters)
    return BuiltMethod(name, parameters, growth, credit, objective, memory, method.learner, mechanism)
