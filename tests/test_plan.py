"""Plans: forks anywhere, in rounds; what is dropped, left open, auxiliary, or set aside."""

from __future__ import annotations

import numpy as np
import pytest

from bpo import credit, select
from bpo.builder import Place, TreeBuilder
from bpo.errors import BadInput
from bpo.exact import Problem, moments
from bpo.plan import CausalPlan, Fork, Plan
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, OwnPlan, grow
from bpo.sandboxes.toy import TASKS, ToyTree
from bpo.tree import ROOT, Tree
from bpo.update import make_batch
from bpo.viz.text import tree_lines

VALUES = [float(i % 3 == 0) for i in range(27)]


def grown(make, tasks=TASKS[:2], boxes=2, memory=None, spare=None, values=VALUES, width=3):
    growth = OwnPlan(make, planned_returns=1)
    policy = TabularPolicy.uniform(values, width)
    sandboxes = [ToyTree(values, width) for _ in range(boxes)]
    return grow(list(tasks), sandboxes, policy, growth, (0,), memory=memory, spare=spare)


class PruneTwins(Plan):
    """Four children at the root; of those that wrote the same, the first alone goes on."""

    def forks(self, forest, memory, rng):
        return [Fork(tree, ROOT, 4) for tree, builder in enumerate(forest.trees) if len(builder) == 1 and not forest.fresh]

    def keep(self, forest, pending):
        seen, going = set(), []
        for one in pending:
            key = (one.tree, forest.trees[one.tree].state_key[one.draw.node])
            if one.fork or key not in seen:
                going.append(one)
            seen.add(key)
        return going, ()


def test_a_plan_that_prunes_leaves_the_twins_open():
    trees, ledger = grown(PruneTwins)
    pruned = 0
    for tree in trees:
        tree.validate()
        first = tree.children[ROOT]
        assert len(first) == 4
        actions = [tree.steps[node].decision.action for node in first]
        for rank, node in enumerate(first):
            twin = actions.index(actions[rank]) < rank
            assert bool(tree.children[node]) is not twin
            assert bool(tree.ended[tree.main_leaf(node)]) is not twin
            pruned += twin
        with pytest.raises(ValueError, match="was left open"):
            credit.rloo([tree])
        said = "\n".join(tree_lines(tree))
        assert said.count("-> left open") == sum(not tree.ended[leaf] for leaf in tree.leaves)
        assert said.count("-> G = ") == sum(map(bool, tree.ended[tree.leaves]))
    assert pruned > 0
    assert ledger.returns == 8 - pruned
    assert ledger.env_steps == sum(len(tree) - 1 for tree in trees)


class Auxiliary(Plan):
    """One path; in every state of it two auxiliary rollouts that estimate its value."""

    def forks(self, forest, memory, rng):
        wanted = list(super().forks(forest, memory, rng))
        return wanted + [Fork(drawn.tree, drawn.node, 2, trained=False) for drawn in forest.fresh if not drawn.auxiliary]


def test_auxiliary_rollouts_have_no_mass_are_nobodys_children_and_are_in_no_batch():
    (tree, *_), ledger = grown(Auxiliary)
    assert len(tree.leaves) == 1
    assert list(tree.branch_points) == []
    assert tree.mass[tree.auxiliary].max() == 0
    assert tree.value[ROOT] == tree.returns[tree.leaves[0]]
    for node in tree.backbone[:-1]:
        probes = tree.auxiliary_children[node]
        assert len(probes) == 2
        assert all(tree.ended[tree.main_leaf(probe)] for probe in probes)
    assert ledger.returns == 2 * (1 + 3 * 2)
    (given,) = credit.bpo_split([tree], root_baseline="zero")
    assert not given.has_signal[tree.auxiliary].any()
    assert (given.weight[tree.auxiliary] == 0).all()
    everything = credit.Credit(np.ones(len(tree)), np.ones(len(tree)), np.ones(len(tree), bool))
    assert len(make_batch([tree], [everything]).steps) == 3
    again = Tree.from_json(tree.to_json())
    assert again.auxiliary.tolist() == tree.auxiliary.tolist()
    assert again.auxiliary_children == tree.auxiliary_children


def test_auxiliary_rollouts_draw_from_streams_of_their_own():
    """The trained path is the one that grows without them."""
    (with_probes, *_), _ = grown(Auxiliary)
    (alone, *_), _ = grown(Plan)
    path = [with_probes.steps[node].decision.action for node in with_probes.backbone[1:]]
    assert path == [alone.steps[node].decision.action for node in alone.backbone[1:]]


class Segments(Plan):
    """Three paths that rest after every action, until two rounds later; then one more from a state that was stored."""

    def __init__(self):
        self.round = 0

    def forks(self, forest, memory, rng):
        self.round += 1
        if self.round == 1:
            return [Fork(tree, ROOT, 3) for tree in range(len(forest.trees))]
        ended = [builder for builder in forest.trees if all(builder.ended[-1:])]
        if len(ended) == len(forest.trees) and not getattr(self, "late", False):
            self.late = True
            return [Fork(0, ROOT, 1)]
        return ()

    def keep(self, forest, pending):
        first = [one for one in pending if one.tree == min(other.tree for other in pending)]
        return first, [one for one in pending if one not in first]


def test_paths_that_are_left_open_go_on_later_and_a_stored_state_can_be_forked_at_any_time():
    trees, _ = grown(Segments)
    assert [len(tree.leaves) for tree in trees] == [4, 3]
    assert all(tree.ended[tree.leaves].all() for tree in trees)
    assert trees[0].weight[list(trees[0].children[ROOT])] == pytest.approx(0.25)


class Flat(Plan):
    """Sets aside a tree whose returns are all alike: here, of a single path, one that has lost."""

    def replaces(self, tree):
        return tree.value[ROOT] == 0


def test_a_tree_that_is_set_aside_is_replaced_by_one_of_a_spare_task_and_stays_in_the_ledger():
    plain, _ = grown(Plan, TASKS[:6])
    kept = [tree for tree in plain if tree.value[ROOT] > 0]
    assert 0 < len(kept) < 6
    trees, ledger = grown(Flat, TASKS[:6], spare=iter(TASKS[6:]))
    assert len(trees) == 6
    assert all(tree.value[ROOT] > 0 for tree in trees)
    assert [tree.task for tree in trees][: len(kept)] == [tree.task for tree in kept]
    assert ledger.returns > 6
    few, spent = grown(Flat, TASKS[:6], spare=iter(TASKS[6:7]))
    assert len(few) == 6
    assert spent.returns == 7


class WholeBatch(Plan):
    whole_batch = True


def test_a_plan_for_the_whole_batch_needs_a_sandbox_for_every_tree():
    with pytest.raises(BadInput, match=r"needs 2 sandboxes: there are 1 \(settings: concurrency\)"):
        grown(WholeBatch, boxes=1)
    assert len(grown(WholeBatch)[0]) == 2


def test_a_plan_is_shown_the_memory_and_has_a_stream_of_its_own():
    seen = []

    class Looks(Plan):
        def forks(self, forest, memory, rng):
            seen.append((memory, float(rng.random())))
            return super().forks(forest, memory, rng)

    grown(Looks, memory="what is remembered")
    first = seen.copy()
    seen.clear()
    grown(Looks, memory="what is remembered")
    assert seen == first
    assert {memory for memory, _ in seen} == {"what is remembered"}


def test_every_node_keeps_the_key_of_its_state():
    (tree, *_), _ = grown(Plan)
    path = tuple(int(tree.steps[node].decision.action) for node in tree.backbone[1:])
    assert [tree.state_key[node] for node in tree.backbone] == [path[:depth] for depth in range(4)]


def builder_with_a_root() -> TreeBuilder:
    builder = TreeBuilder("task", 0, [0])
    builder.append(None, None, 0.0, {})
    builder.places[ROOT] = Place(None, None)
    return builder


def test_the_builder_refuses_what_does_not_fit():
    builder = builder_with_a_root()
    with pytest.raises(ValueError, match="has 2 trained children and 3 shares"):
        builder.ask(ROOT, 2, shares=(0.2, 0.3, 0.5))
    with pytest.raises(ValueError, match="nothing can be drawn there"):
        builder.ask(1, 1)
    with pytest.raises(BadInput, match="count is 0"):
        builder.ask(ROOT, 0)
    with pytest.raises(ValueError, match="the root comes first, and once"):
        builder.append(None, None, 0.0, {})


def test_shares_that_do_not_sum_to_one_are_no_tree():
    class Wrong(Plan):
        def forks(self, forest, memory, rng):
            started = list(super().forks(forest, memory, rng))
            return [Fork(fork.tree, ROOT, 2, shares=(0.5, 0.4)) for fork in started]

    with pytest.raises(ValueError, match="must sum to one"):
        grown(Wrong)


def test_the_exact_engine_takes_a_plan_of_ones_own():
    """Enumerated tree by tree it has the moments of the growth that it carries out."""
    problem = Problem.from_spec({"p": [0.6, 0.3, 0.8], "r": [0, 1, 0.4, 0]})
    growth = Growth(select.RootOnly(), points=1, width=2, root=True)
    own = OwnPlan(lambda: CausalPlan(growth), planned_returns=2, causal=True)
    one, other = (moments(problem, each, credit.rloo) for each in (growth, own))
    assert other.mean == pytest.approx(one.mean, abs=1e-14)
    assert other.trace_cov == pytest.approx(one.trace_cov, abs=1e-14)
    assert other.bias < 1e-12


@pytest.mark.parametrize("field", ["points", "width", "trees"])
def test_a_growth_has_whole_numbers(field):
    with pytest.raises(BadInput, match=rf"^{field} is 2\.5; it must be a whole number"):
        Growth(select.RootOnly(), **{"points": 1, "width": 2, field: 2.5})


def test_an_unknown_root_baseline_is_refused():
    trees, _ = grown(Plan)
    with pytest.raises(ValueError, match="root_baseline is 'x'; it must be 'trees', 'running' or 'zero'"):
        credit.bpo_split(trees, root_baseline="x")
