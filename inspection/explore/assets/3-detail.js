// The panel of the marked op: where it comes from, what became of it, and what explain counts on it.

function showDetail(store, panel, op, linked, actions) {
  if (!op) return panel.replaceChildren(...hint(store));
  const step = store.steps[op.step], found = store.op(step, op.line);
  const link = (number, line, ...text) => make("button", { class: "link code", onclick: () => actions.go(number, line), title: store.words(store.steps[number], line).trim() }, ...text);
  const head = make("div", { class: "whole" }, make("strong", { class: "code" }, found.name), ` in line ${op.line} of ${step.place}`);
  panel.replaceChildren(head, comesFrom(store, op, link, actions), became(store, op, linked, link), countsOf(store, op, linked, actions));
}

function hint(store) {
  const words = store.steps.some((step) => step.before !== null)
    ? "Click an op, or press j: it is marked in every level. n and p step through the passes, d shows what a pass changes, ? shows all keys."
    : "The ops have no links: the dumps have no origins. n and p step through the passes, d shows what a pass changes.";
  return [make("div", { class: "whole" }, words)];
}

function comesFrom(store, op, link, actions) {
  const box = make("div", {}, make("h2", {}, "Comes from"));
  const history = store.history(op.step, op.line);
  for (const [at, { step, ops }] of history.entries()) {
    const made = at ? " made that" : ` introduced ${store.op(store.steps[op.step], op.line).name}`;
    const by = make("button", { class: "link", onclick: () => actions.showStep(step.number, true), title: "Show what this pass changes" }, make("strong", {}, store.pass(step)), ` (${step.level})${made}${ops.length ? ", from" : ""}`);
    box.append(by, ...ops.slice(0, 3).map((own) => link(own.step.number, own.line, `${store.op(own.step, own.line).name}, ${own.step.level}:${own.line}: ${store.words(own.step, own.line).trim()}`)));
    if (ops.length > 3) box.append(make("div", {}, `and ${counted(ops.length - 3, "other op")}`));
    if (!ops.length) box.append(make("div", {}, "It serves a whole loop or function, or no origin was recorded."));
  }
  if (!history.length) box.append(make("div", {}, store.steps[op.step].before === null ? "No earlier step is linked." : "It stands so in the input."));
  return box;
}

function became(store, op, linked, link) {
  const box = make("div", {}, make("h2", {}, "Becomes"));
  for (const level of store.levels) {
    const step = store.named(level), lines = [...(linked.get(step.number) ?? [])];
    if (step.number <= op.step || !lines.length) continue;
    const names = new Map();
    for (const line of lines) names.set(step.at.get(line).name, [...(names.get(step.at.get(line).name) ?? []), line]);
    const sorted = [...names].sort(([one], [other]) => store.main.has(other) - store.main.has(one));
    for (const [name, own] of sorted) box.append(link(step.number, own[0], `${level}: ${own.length > 1 ? `${own.length} × ` : ""}${name}`));
  }
  if (box.children.length === 1) box.append(make("div", {}, "Nothing after this step comes from it."));
  return box;
}

function countsOf(store, op, linked, actions) {
  const box = make("div", {}, make("h2", {}, "What explain counts"));
  const lines = store.counts.step === null ? [] : [...(linked.get(store.counts.step) ?? [])];
  const own = lines.flatMap((line) => store.counted.get(line) ?? []);
  for (const count of own.slice(0, 8)) {
    box.append(make("dl", { class: count.is_bad ? "facts bad" : "facts" }, ...count.rows.flatMap(([label, value]) => [make("dt", {}, label), make("dd", {}, label === "picture" ? make("button", { onclick: () => actions.picture(value) }, "banks") : value)])));
  }
  if (own.length > 8) box.append(make("div", {}, `and ${counted(own.length - 8, "other access")}`));
  if (!own.length) box.append(make("div", {}, "Nothing for this op."));
  return box;
}
