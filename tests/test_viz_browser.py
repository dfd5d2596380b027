"""The page in a real browser: what is under the pointer or the focus is said, and subtrees fold. Skips where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from places import BROWSER, FLAGS

from bpo import select, tree_log
from bpo.credit import bpo_split
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import ToyTree
from bpo.tree_log import SavedTree
from bpo.viz.page import page

HOSTILE = "</script><script>document.title = 'broken'</script><b id='broken'>"


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def one() -> SavedTree:
    """Two branch points, the root and a state of the backbone two steps on; the second action's observation is hostile."""
    growth = Growth(select.Every(2), points=2, width=2, root=True)
    values = [0, 1, 2, 3, 4, 5, 6, 7]
    (tree,), _ = grow(["tree-00"], [ToyTree(values)], TabularPolicy.uniform(values), growth, (1,))
    record = tree_log.of_update(2, "bpo_split", [tree], bpo_split([tree]))[0]
    texts = list(record.observations)
    texts[1] = HOSTILE
    return replace(record, observations=tuple(texts))


@pytest.fixture(params=["light", "dark"])
def opened(browser, one, tmp_path, request):
    """The page in a window that fails the test on any error, message of the browser, or request but the file itself."""
    file = tmp_path / "tree.html"
    file.write_text(page(one))
    window = browser.new_page(color_scheme=request.param, viewport={"width": 1100, "height": 700})
    complaints = []
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.on("console", lambda message: complaints.append(message.text))
    window.on("request", lambda asked: complaints.append(asked.url) if not asked.url.startswith("file:") else None)
    window.goto(file.as_uri())
    yield window
    window.close()
    assert complaints == []


def shown(window) -> dict[str, str]:
    """What the panel says: name -> value."""
    names = "pairs => pairs.map(pair => [pair.firstChild.textContent, pair.lastChild.textContent])"
    return dict(window.eval_on_selector_all(".bpo-panel .bpo-pair", names))


def visible(window) -> set[int]:
    return set(
        window.eval_on_selector_all(
            "[data-node]", "nodes => nodes.filter(node => node.style.display !== 'none').map(node => Number(node.dataset.node))"
        )
    )


def number(value: float) -> str:
    return f"{value:.3f}"


def test_pointing_at_an_action_says_everything_about_it(opened, one):
    tree = one.tree
    for node in (1, int(tree.leaves[0])):
        opened.hover(f"[data-node='{node}'] .bpo-mark")
        said, parent = shown(opened), tree.parent[node]
        assert said["saw"] == one.observations[parent]
        assert said["did"] == tree.steps[node].decision.action
        assert said["then saw"] == one.observations[node]
        assert said["log-prob"] == number(sum(tree.steps[node].decision.log_probs))
        assert said["entropy, first token"] == f"{number(tree.entropy[parent])} nats"
        assert said["advantage"] == f"{one.credit.advantage[node]:+.3f}"
        assert said["Q (mean return below)"] == number(tree.value[node])
        where = "" if len(tree.children[parent]) > 1 else " further up"
        assert said[f"Q of the siblings{where}"] == number(one.siblings[node])
        assert said["mass"] == number(tree.mass[node])
    assert said["return"] == number(tree.returns[node])


def test_hostile_text_is_shown_and_nothing_else(opened):
    opened.hover("[data-node='1'] .bpo-mark")
    assert shown(opened)["then saw"] == HOSTILE
    assert opened.title() == "tree-00"
    assert opened.query_selector("#broken") is None


def test_a_click_folds_and_a_second_one_unfolds(opened, one):
    tree = one.tree
    below = {node for node in range(len(tree)) if 1 in ancestors(tree, node)}
    assert len(below) > 2
    everything = set(range(len(tree)))
    height = opened.eval_on_selector("svg", "svg => svg.getAttribute('height')")
    opened.click("[data-node='1'] .bpo-mark")
    assert visible(opened) == everything - below
    assert "leaves" in opened.text_content("[data-node='1']")
    assert opened.get_attribute("[data-node='1']", "aria-expanded") == "false"
    assert float(opened.eval_on_selector("svg", "svg => svg.getAttribute('height')")) < float(height)
    opened.click("[data-node='1'] .bpo-mark")
    assert visible(opened) == everything
    assert opened.get_attribute("[data-node='1']", "aria-expanded") == "true"


def test_the_keyboard_reaches_every_part(opened, one):
    """One stop for the tab key; from there the arrows follow the tree, and Enter folds."""
    focused = "document.activeElement.dataset.node"
    opened.keyboard.press("Tab")
    assert opened.evaluate(focused) == "0"
    opened.keyboard.press("ArrowRight")
    assert opened.evaluate(focused) == "1"
    assert shown(opened)["did"] == one.tree.steps[1].decision.action
    opened.keyboard.press("ArrowDown")
    assert int(opened.evaluate(focused)) not in one.tree.main_path(1)
    opened.keyboard.press("Home")
    opened.keyboard.press("Enter")
    assert visible(opened) == {0}
    opened.keyboard.press("ArrowRight")
    assert opened.evaluate(focused) == "0"
    opened.keyboard.press(" ")
    assert visible(opened) == set(range(len(one.tree)))
    assert opened.eval_on_selector_all("[tabindex='0'][data-node]", "nodes => nodes.length") == 1


def test_both_schemes_can_be_read(opened):
    """Ink against ground, by the contrast of WCAG: at least 7 to 1, whatever the reader's scheme."""
    colors = opened.eval_on_selector(
        ".bpo-tree", "node => [getComputedStyle(node).color, getComputedStyle(node).backgroundColor]"
    )
    bright = sorted(luminance(color) for color in colors)
    assert (bright[1] + 0.05) / (bright[0] + 0.05) > 7


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ancestors(tree, node: int) -> set[int]:
    found = set()
    while node:
        node = int(tree.parent[node])
        found.add(node)
    return found
