// A rollout tree as SVG: one source for the HTML page (bpo/viz/page.py) and the Jupyter widget (bpo/viz/widget.py).
// Every text reaches the document through textContent or setAttribute, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const COLUMN = 104; // pixels from one action to the next
const ROW = 28;
const LEFT = 16;
const TOP = 26;
const ENDING = 150; // room to the right of the last column
const NEAR = 9; // so far from a node the pointer means the node and not the line that leaves it
const BEND = 0.45; // as in layout.py: where an edge into another row is level again

function make(kind, className, parent, text) {
  const element = document.createElement(kind);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function shape(kind, className, parent, attributes = {}) {
  const element = document.createElementNS(SVG, kind);
  element.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

const number = (value) => (value === null ? "none" : value.toFixed(3));
const signed = (value) => (value > 0 ? "+" : value < 0 ? "-" : "") + Math.abs(value).toFixed(3);
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function edge(x0, y0, x1, y1) {
  if (y0 === y1) return `M${x0} ${y0}H${x1}`;
  const bend = x0 + BEND * (x1 - x0);
  const middle = (x0 + bend) / 2;
  return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${bend} ${y1}H${x1}`;
}

function marker(node) {
  if (node.won) return "M0 -7L1.8 -2.3 6.7 -2.2 2.8 .9 4.1 5.7 0 2.9 -4.1 5.7 -2.8 .9 -6.7 -2.2 -1.8 -2.3Z";
  if (node.ending !== null) return "M-4 -4L4 4M-4 4L4 -4";
  const r = 2.2 + 3.3 * Math.sqrt(Math.min(node.entropy ?? 0, 1));
  if (node.branch) return `M0 ${-r - 2}L${r + 2} 0L0 ${r + 2}L${-r - 2} 0Z`;
  return `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
}

// What is said of a node: of the action that led there, and of the state it led to.
function facts(nodes, index) {
  const node = nodes[index];
  const before = node.parent === null ? null : nodes[node.parent];
  const texts = [];
  const numbers = [];
  if (before) {
    texts.push(["saw", before.observation ?? "(not recorded)"]);
    texts.push(["did", node.action]);
    numbers.push(["log-prob", number(node.log_prob)], ["entropy, first token", `${number(before.entropy)} nats`]);
    numbers.push(["advantage", node.has_signal ? signed(node.advantage) : "none: sends no gradient"]);
    numbers.push(["Q (mean return below)", number(node.q)]);
    numbers.push([before.branch ? "Q of the siblings" : "Q of the siblings further up", number(node.siblings)]);
    numbers.push(["mass", number(node.mass)], ["weight in the loss", number(node.weight)]);
  } else {
    numbers.push(["mean return of the tree, by mass", number(node.q)]);
  }
  texts.push([before ? "then saw" : "saw", node.observation ?? "(not recorded)"]);
  if (node.ending !== null) numbers.push(["return", number(node.return)], ["ended", node.ending]);
  else numbers.push([before ? "entropy there, first token" : "entropy, first token", `${number(node.entropy)} nats`]);
  return { texts, numbers };
}

/** Draw `data`, as page.py makes it, into the element `host`. */
export function draw(host, data) {
  const nodes = data.nodes;
  const children = nodes.map(() => []);
  nodes.forEach((node, index) => node.parent !== null && children[node.parent].push(index));
  const folded = new Set();
  let current = 0;

  host.replaceChildren();
  const root = make("div", "bpo-tree", host);
  make("p", "bpo-title", root, data.title);
  make("p", "bpo-note", root, data.subtitle);
  const scroll = make("div", "bpo-scroll", root);
  const svg = shape("svg", "bpo-drawing", scroll, { role: "tree", "aria-label": `${data.title}, ${data.subtitle}` });
  const panel = make("div", "bpo-panel", root);
  panel.setAttribute("aria-live", "polite");
  const legend = make("p", "bpo-legend", root);
  for (const [name, words] of [
    ["plus", "advantage above 0"],
    ["minus", "below 0 (dashes)"],
    ["flat", "no gradient (dots)"],
  ]) {
    make("span", `bpo-line bpo-${name}`, legend);
    make("span", "", legend, words);
  }
  make("span", "", legend, "wide: much of the mass · ◆ branch point · large: high entropy of the first token · ★ won · ✕ not won");
  make("p", "bpo-note", root, "Point at an action, or move with the arrow keys. A click, Enter or Space folds what follows.");

  // All lines lie below all nodes: otherwise a line would cover the mark that it starts from.
  const lines = shape("g", "bpo-lines", svg, { "aria-hidden": true });
  const groups = nodes.map((node, index) => {
    const group = shape("g", "bpo-node", svg, { role: "treeitem", tabindex: -1, "data-node": index });
    group.line = shape("path", "bpo-edge", lines);
    group.hit = shape("path", "bpo-hit", group);
    group.mark = shape("path", "bpo-mark", group, { d: marker(node) });
    group.words = shape("text", "bpo-label", group);
    group.words.textContent = node.label;
    group.end = shape("text", "bpo-label", group);
    const strength = data.limit ? Math.abs(node.advantage) / data.limit : 0;
    const sign = !node.has_signal ? "flat" : node.advantage < 0 ? "minus" : node.advantage > 0 ? "plus" : "zero";
    group.line.classList.add(`bpo-${sign}`);
    if (node.branch) group.classList.add("bpo-branch");
    if (node.ending !== null) group.classList.add(node.won ? "bpo-won" : "bpo-lost");
    group.line.style.setProperty("--strength", `${Math.round(25 + 75 * strength)}%`);
    if (node.has_signal) group.line.style.strokeWidth = `${(1 + 4 * Math.sqrt(node.mass)).toFixed(2)}px`;
    const action = node.parent === null ? "start" : node.action;
    const gain = node.parent === null ? "" : node.has_signal ? `, advantage ${signed(node.advantage)}` : ", no gradient";
    group.setAttribute("aria-label", action + gain + (node.ending === null ? "" : `, ${node.ending}`));
    group.setAttribute("aria-level", node.x + 1);
    return group;
  });

  const below = (index) => children[index].flatMap((child) => [child, ...below(child)]);
  const leaves = (index) => below(index).filter((node) => !children[node].length).length;
  const hidden = (index) => {
    for (let up = nodes[index].parent; up !== null; up = nodes[up].parent) if (folded.has(up)) return true;
    return false;
  };

  function place() {
    const shown = nodes.map((_, index) => !hidden(index));
    const rows = [...new Set(nodes.filter((_, index) => shown[index]).map((node) => node.y))].sort((a, b) => a - b);
    const x = (node) => LEFT + COLUMN * node.x;
    const y = (node) => TOP + ROW * rows.indexOf(node.y);
    const deepest = Math.max(...nodes.map((node) => node.x));
    svg.setAttribute("width", LEFT + COLUMN * deepest + ENDING);
    svg.setAttribute("height", TOP + ROW * rows.length);
    groups.forEach((group, index) => {
      const node = nodes[index];
      group.style.display = group.line.style.display = shown[index] ? "" : "none";
      if (!shown[index]) return;
      if (node.parent !== null) {
        const before = nodes[node.parent];
        group.line.setAttribute("d", edge(x(before), y(before), x(node), y(node)));
        group.hit.setAttribute("d", edge(x(before) + NEAR, y(before), x(node), y(node)));
        group.words.setAttribute("x", LEFT + COLUMN * node.label_x);
        group.words.setAttribute("y", y(node) - 8);
      }
      group.mark.setAttribute("transform", `translate(${x(node)} ${y(node)})`);
      group.end.setAttribute("x", x(node) + 10);
      group.end.setAttribute("y", y(node) + 4);
      const closed = folded.has(index);
      group.end.textContent = closed ? `+ ${plural(leaves(index), "leaf").replace("leafs", "leaves")}` : (node.ending ?? "");
      group.classList.toggle("bpo-folded", closed);
      if (children[index].length) group.setAttribute("aria-expanded", String(!closed));
    });
  }

  function show(index) {
    groups[current].setAttribute("tabindex", -1);
    current = index;
    groups[current].setAttribute("tabindex", 0);
    const path = new Set();
    for (let up = index; up !== null; up = nodes[up].parent) path.add(up);
    groups.forEach((group, at) => [group, group.line].forEach((part) => part.classList.toggle("bpo-on", path.has(at))));
    const { texts, numbers } = facts(nodes, index);
    panel.replaceChildren();
    // No list of definitions: JupyterLab has a style of its own for those.
    // Numbers first: observations may be long.
    for (const [kind, pairs] of [["bpo-numbers", numbers], ["bpo-texts", texts]]) {
      const list = make("div", kind, panel);
      for (const [name, value] of pairs) {
        const pair = make("div", "bpo-pair", list);
        make("div", "bpo-name", pair, name);
        make("div", "bpo-value", pair, value);
      }
    }
  }

  function fold(index) {
    if (!children[index].length) return;
    if (!folded.delete(index)) folded.add(index);
    place();
  }

  // The shown node in the nearest row above (-1) or below (1) that lies nearest in x.
  function beside(index, direction) {
    const shown = nodes.map((_, at) => at).filter((at) => !hidden(at));
    const further = shown.filter((at) => (nodes[at].y - nodes[index].y) * direction > 0);
    if (!further.length) return index;
    const row = further.map((at) => nodes[at].y).reduce((a, b) => (a * direction < b * direction ? a : b));
    const away = (at) => Math.abs(nodes[at].x - nodes[index].x);
    return further.filter((at) => nodes[at].y === row).reduce((a, b) => (away(a) <= away(b) ? a : b));
  }

  const at = (event) => {
    const group = event.target.closest("[data-node]");
    return group ? Number(group.dataset.node) : null;
  };
  // Not on the drawing itself: Chromium makes an SVG with a listener for focus one more stop of the tab key.
  scroll.addEventListener("pointerover", (event) => at(event) !== null && show(at(event)));
  scroll.addEventListener("focusin", (event) => at(event) !== null && show(at(event)));
  scroll.addEventListener("click", (event) => {
    const index = at(event);
    if (index === null) return;
    fold(index);
    groups[index].focus({ preventScroll: true });
  });
  scroll.addEventListener("keydown", (event) => {
    const index = at(event);
    if (index === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = {
      ArrowLeft: () => nodes[index].parent ?? index,
      ArrowRight: () => (folded.has(index) ? index : (children[index][0] ?? index)),
      ArrowUp: () => beside(index, -1),
      ArrowDown: () => beside(index, 1),
      Home: () => 0,
    };
    if (event.key === "Enter" || event.key === " ") fold(index);
    else if (event.key in moves) groups[moves[event.key]()].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  place();
  show(0);
}

export default {
  render({ model, el }) {
    const redraw = () => draw(el, model.get("data"));
    model.on("change:data", redraw);
    redraw();
    return () => model.off("change:data", redraw);
  },
};
