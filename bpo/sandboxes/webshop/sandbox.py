"""The WebShop sandbox: sessions in one shop, forkable at the price of a reference."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from bpo.errors import BadInput, choose, counted, require_text, scalar
from bpo.files import expanded
from bpo.sandbox import Observation, Outcome, SnapshotError
from bpo.sandboxes.webshop import pages
from bpo.sandboxes.webshop.catalogue import Catalogue, open_catalogue
from bpo.sandboxes.webshop.goals import SPLITS, Leaks, leaks
from bpo.sandboxes.webshop.pages import ShopState
from bpo.sandboxes.webshop.records import Goal
from bpo.sandboxes.webshop.shop import Shop

OBSERVATIONS = ("text", "text_rich", "brief")
# What the field trains with, and what the paper reports: step limit, and whether the reward is graded.
PROTOCOLS = {"field": (15, False), "paper": (50, True)}
# The field's reward for a purchase that fits entirely; anything else earns nothing there.
FIELD_REWARD = 10.0
WRITE_QUERY = "search[<your query>]"


@dataclass(frozen=True)
class PortableShop:
    """A session for another instance or another process: plain values only."""

    task: str
    state: tuple
    steps: int


@dataclass(frozen=True)
class ShoppingTask:
    """A task with the shop it is done in: what rule policies and demonstrations need to know."""

    task: str
    shop: Shop
    goal: Goal
    max_steps: int


class _ShopSession:
    """One episode of one sandbox; its identity is what a snapshot belongs to."""

    __slots__ = ("goal", "task")

    def __init__(self, task: str, goal: Goal):
        self.task, self.goal = task, goal


@dataclass(frozen=True, slots=True)
class WebShopSnapshot:
    """A reached state of one session: restorable any number of times, in any order, until the next reset or close."""

    session: _ShopSession
    state: ShopState
    steps: int

    @property
    def size_bytes(self) -> int:
        """Estimate of the memory this snapshot keeps alive on its own."""
        state = self.state
        parts = (state, state.query, state.options, state.opened, *state.options)
        return sum(sys.getsizeof(part) for part in parts) + sys.getsizeof(self)

    def portable(self) -> PortableShop:
        """The same state as plain values; `WebShop.resume` returns to it."""
        s = self.state
        plain = (s.page, s.query, s.number, s.asin, s.options, tuple(sorted(s.opened)), s.sub)
        return PortableShop(self.session.task, plain, self.steps)


class WebShop:
    """WebShop: find a product that fits an instruction, choose its options, buy it.

    data         folder with WebShop's files (see `files`); None: the embedded catalogue of generated products
    size         with data: "small" (1,000 products) or "full" (1.18 million, goals written by people)
    goals        "synthetic" or "human"; the embedded catalogue has synthetic ones
    splits       "field": test, eval, train by position, which share products; "products": train, panel, valid_seen,
                 valid_unseen, the last without products of train (new here). Default: field with data, products without
    observation  "text" or "text_rich", as the original prints them; "brief": text without the instruction, which is the task
    protocol     "field": 15 steps, reward 10 for a purchase that fits entirely (R = 1), else 0; "paper": 50 steps, reward R
    max_steps    step limit, where it is not the protocol's
    page_size    products on a page of results; the original shows 10
    queries      what the admissible actions say about searching: "phrases" lists searches for runs of the instruction's
                 phrases, so that constrained writing covers the whole action (new here); "free" shows the field's placeholder
    catalogue    one of your own (see `catalogue.build`) instead of data, size and goals

    A session ends with a purchase or at the step limit. An action that means nothing here changes nothing and costs a step.
    `info`: score (R of the purchase, 0 without one), won (R = 1), truncated, task_type (department), task.
    """

    def __init__(
        self,
        data: str | os.PathLike | None = None,
        size: str = "small",
        goals: str | None = None,
        splits: str | None = None,
        observation: str = "text",
        protocol: str = "field",
        max_steps: int | None = None,
        page_size: int = 10,
        queries: str = "phrases",
        catalogue: Catalogue | None = None,
    ):
        for name, value in (("size", size), ("goals", goals), ("splits", splits)):
            if value is not None:
                scalar(str, value, name)
        self.observation = choose("observation", observation, OBSERVATIONS)
        self.protocol = choose("protocol", protocol, PROTOCOLS)
        self.queries = choose("queries", queries, ("phrases", "free"))
        limit, self._graded = PROTOCOLS[protocol]
        self.max_steps = limit if max_steps is None else max_steps
        for name, value in (("max_steps", self.max_steps), ("page_size", page_size)):
            if scalar(int, value, name) < 1:
                raise BadInput(f"{name} is {value}, it must be at least 1")
        self.page_size = page_size
        self.data = None if data is None else str(expanded(data))
        catalogue = catalogue or open_catalogue(self.data, size, goals)
        self.size, self.goals = size, catalogue.kind
        self.splits = choose("splits", splits or ("products" if data is None else "field"), SPLITS)
        self._shop = Shop(catalogue, page_size)
        self._positions = SPLITS[self.splits](catalogue.goals)
        self._session: _ShopSession | None = None
        self._closed = False

    @property
    def shop(self) -> Shop:
        """The shop behind every session: catalogue, pages, rewards."""
        return self._shop

    @property
    def state(self) -> ShopState:
        """The session's state, a small frozen record."""
        self._running()
        return self._state

    @property
    def goal(self) -> Goal:
        """What the session is asked to buy."""
        return self._running().goal

    def tasks(self, split: str) -> Sequence[str]:
        """Ids of a split, fixed and ordered."""
        return [f"goal/{position}" for position in self._of(split)]

    def leaks(self, split: str) -> Leaks:
        """What a split shares with the training split: products, and whole instructions."""
        return leaks(self._shop.catalogue.goals, self._of(split), self._of("train"))

    def _of(self, split: str) -> Sequence[int]:
        return self._positions[choose(f"split where splits is {self.splits!r}:", split, self._positions)]

    def game(self, task: str) -> ShoppingTask:
        """The task with its shop and goal."""
        return ShoppingTask(task, self._shop, self._goal(task), self.max_steps)

    def reset(self, task: str) -> Observation:
        """Start a session; snapshots of the former one become invalid."""
        if self._closed:
            raise RuntimeError("this sandbox is closed")
        self._session = _ShopSession(task, self._goal(task))
        self._state, self._steps = ShopState(), 0
        return self._observe()

    def step(self, action: str) -> Outcome:
        """Play one action; white space around it, which free writing leaves there, does not matter."""
        session = self._running()
        require_text("the action", action)
        if self.done:
            raise RuntimeError("this session is over; call reset or restore before the next step")
        self._state, self._steps = self._shop.advance(self._state, action.strip()), self._steps + 1
        score = self._shop.reward(self._state, session.goal).total if self._bought else 0.0
        won = score == 1.0
        earned = score if self._graded else FIELD_REWARD * won
        info = {"score": score, "won": won, "truncated": self.done and not self._bought, "task_type": self._department}
        return Outcome(self._observe(), earned, self.done, MappingProxyType({**info, "task": session.task}))

    @property
    def done(self) -> bool:
        """Whether the session is over: something was bought, or the step limit is reached."""
        return self._bought or self._steps >= self.max_steps

    def snapshot(self) -> WebShopSnapshot:
        """A handle on the present state; costs a few references."""
        return WebShopSnapshot(self._running(), self._state, self._steps)

    def restore(self, snapshot: WebShopSnapshot) -> Observation:
        """Return to a snapshot of this session; SnapshotError for any other."""
        if self._closed:
            raise SnapshotError("this sandbox is closed, nothing can be restored in it")
        if not isinstance(snapshot, WebShopSnapshot):
            raise SnapshotError(f"a WebShop snapshot is needed, not {type(snapshot).__name__}")
        if snapshot.session is not self._session:
            raise SnapshotError(
                f"the snapshot (of task {snapshot.session.task!r}) belongs to another sandbox or to a session before the last "
                "reset; use portable() and resume() to carry a state over"
            )
        self._state, self._steps = snapshot.state, snapshot.steps
        return self._observe()

    def resume(self, portable: PortableShop) -> Observation:
        """Start the session of a portable state and go there; exact in any instance or process."""
        if not isinstance(portable, PortableShop):
            raise SnapshotError(f"a portable shop state is needed, not {type(portable).__name__}")
        self.reset(portable.task)
        page, query, number, asin, options, opened, sub = portable.state
        options = tuple(tuple(pair) for pair in options)
        self._state, self._steps = ShopState(page, query, number, asin, options, frozenset(opened), sub), portable.steps
        return self._observe()

    def fork(self, n: int) -> list[WebShop]:
        """`n` independent sandboxes at the present state; they share the shop, which nothing changes."""
        session = self._running()
        forks = []
        for _ in range(counted("the number of forks", n)):
            other = object.__new__(WebShop)
            other.__dict__.update(self.__dict__)
            other._session = _ShopSession(session.task, session.goal)
            forks.append(other)
        return forks

    def state_key(self) -> Hashable:
        """Identity of the state (not of the text, which a click on an option leaves as it was): task, steps, state."""
        return (self._running().task, self._steps, self._state)

    def close(self) -> None:
        """End the session; may be called twice."""
        self._session, self._closed = None, True

    def __enter__(self) -> WebShop:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _goal(self, task: str) -> Goal:
        goals = self._shop.catalogue.goals
        kind, _, number = str(task).partition("/")
        if kind != "goal" or not number.isdecimal() or int(number) >= len(goals):
            raise BadInput(f"unknown task {task!r}: ids of this sandbox are 'goal/0' to 'goal/{len(goals) - 1}'")
        return goals[int(number)]

    def _running(self) -> _ShopSession:
        if self._closed:
            raise RuntimeError("this sandbox is closed")
        if self._session is None:
            raise RuntimeError("no session has been started; call reset first")
        return self._session

    @property
    def _bought(self) -> bool:
        return self._state.page == pages.DONE

    @property
    def _department(self) -> str:
        category = self._shop.catalogue.product(self._session.goal.asin).category
        return category.split("›")[0].strip()

    def _observe(self) -> Observation:
        session = self._session
        text = self._shop.view(self._state, session.goal, self.observation)
        return Observation(text, self._actions(), session.goal.text, self._steps)

    def _actions(self) -> tuple[str, ...]:
        if self._state.page == pages.INDEX:
            return self._shop.searches(self._session.goal.text) if self.queries == "phrases" else (WRITE_QUERY,)
        return self._shop.clicks(self._state)
