"""The record of the lights."""

from bpo.param import Param
from bpo.sandboxes.record import SandboxSpec, Walk
from bpo_friends.lights import TASKS, Lights

SMOKE = {"scale": "three lights; numbers mean nothing", "options": {"buttons": 3}, "policy": {"kind": "tabular"}}


def table_of_logits(options):
    from bpo.policies.tabular import TabularPolicy

    buttons = options.get("buttons", 2)
    return TabularPolicy({f"lit: {lit}": [0.0] * buttons for lit in range(buttons)})


lights = SandboxSpec(
    summary="press the lit button",
    make=Lights,
    options={"buttons": Param(2, "buttons on the panel", low=2)},
    tasks=lambda options: "panels of lights",
    table_of_logits=table_of_logits,
    walk=lambda games, steps, data: Walk(Lights, Lights, TASKS),
    presets=lambda: {"smoke": SMOKE},
)
