"""A sandbox: press the lit one of two buttons, three times; forked by playing the path again."""

from bpo.replay import ReplaySandbox
from bpo.sandbox import Observation, Outcome

TASKS = tuple(f"lights-{number}" for number in range(40))


class Panel:
    def __init__(self, buttons=2):
        self.buttons = tuple(map(str, range(buttons)))

    def tasks(self, split):
        return TASKS

    def reset(self, task):
        self.number, self.pressed = int(task.rpartition("-")[2]), []
        return self.seen()

    def step(self, action):
        self.pressed.append(action == self.lit())
        done = len(self.pressed) == 3
        won = done and all(self.pressed)
        return Outcome(self.seen(), float(won), done, {"won": won, "truncated": False, "task_type": "lights"})

    def lit(self):
        return str((self.number + len(self.pressed)) % len(self.buttons))

    def seen(self):
        return Observation(f"lit: {self.lit()}", self.buttons, "press what is lit", len(self.pressed))


class Lights(ReplaySandbox):
    def __init__(self, buttons=2):
        super().__init__(lambda: Panel(buttons))
