// The page: what is shown, in its address too.

const $ = (id) => document.getElementById(id);
const VIEWS = { levels: ["Levels", "e"], schedule: ["Schedule", "s"], verdict: ["Verdict", "v"], pictures: ["Pictures", "i"] };
class Page {
  constructor(store) {
    Object.assign(this, { store, panes: [], focused: 0, op: null, linked: null, view: "levels" });
    this.actions = {
      show: (pane, number) => { this.focus(pane); this.showIn(pane, number, pane.diff); this.update(false); },
      toggleDiff: (pane) => { this.showIn(pane, pane.step.number, !pane.diff); this.update(true); },
      focus: (pane) => this.focus(pane),
      select: (number, line, pane) => { this.select(number, line); this.update(true, pane); },
      go: (number, line) => this.go(number, line),
      picture: (title) => { this.setView("pictures"); [...$("pictures").querySelectorAll("[data-title]")].find((one) => one.dataset.title.startsWith(title))?.scrollIntoView(); },
      showStep: (number, diff) => { this.view = "levels"; this.showIn(this.panes[this.focused], number, diff); this.update(true); },
    };
    $("opening").hidden = true;
    $("notes").append(...store.notes.map((note) => make("p", {}, note)));
    for (const [view, [name, key]] of Object.entries(VIEWS)) {
      if (view === "verdict" && !store.verdict) continue;
      $("views").append(make("button", { "data-view": view, title: `${name} (${key})`, onclick: () => this.setView(view) }, name));
    }
    for (const count of [1, 2, 3]) $("counts-of-panes").append(make("button", { "data-count": count, title: `${count} side by side (${count})`, onclick: () => this.setPanes(count) }, String(count)));
    this.makeSteps();
    showSchedule(store, $("schedule"));
    showPictures(store, $("pictures"));
    if (store.verdict) showVerdict(store, $("verdict"), this.actions);
    makeHelp(store);
    document.documentElement.dataset.theme = kept("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.body.classList.toggle("wrap", matchMedia("(max-width: 760px)").matches);
    $("theme").onclick = () => this.theme();
    $("help-button").onclick = () => $("help").showModal();
    $("search").addEventListener("input", () => showMatches(this));
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => { if (location.hash !== this.hash) this.read(); });
    this.read();
  }

  // ---- what is shown

  read() {
    const asked = new URLSearchParams(location.hash.slice(1)), { store } = this;
    const named = (asked.get("panes") ?? "").split(",").map((name) => [store.named(name.replace(/~diff$/, "")), name.endsWith("~diff")]).filter(([step]) => step);
    const step = store.named(asked.get("level") ?? "");
    const panes = named.length ? named : this.usual(step).map((each) => [each, false]);
    if (step && !panes.some(([each]) => each === step)) panes[0] = [step, false];
    this.setPanes(panes.length, panes);
    this.focused = step ? panes.findIndex(([each]) => each === step) : 0;
    this.op = this.linked = null;
    const line = Number(asked.get("op"));
    if (step && line && store.op(step, line)) this.select(step.number, line);
    this.view = asked.get("view") in VIEWS && (asked.get("view") !== "verdict" || store.verdict) ? asked.get("view") : store.verdict && !location.hash && !store.verdict.ok ? "verdict" : "levels";
    this.update(true);
  }

  // As many finished levels as fit: the one asked for, and others that say how it becomes PTX.
  usual(step) {
    const count = innerWidth < 760 ? 1 : innerWidth < 1700 ? 2 : 3;
    const names = ["atoms", "ptx", "cta", "epilogue", ...this.store.levels];
    const found = [...new Set([step, ...names.map((name) => this.store.named(name))].filter((each) => each))].slice(0, count);
    return found.sort((one, other) => one.number - other.number);
  }

  setPanes(count, shown = null) {
    const wanted = shown ?? this.panes.map((pane) => [pane.step, pane.diff]);
    for (const step of [...this.usual(null), ...this.store.steps.slice().reverse()]) if (wanted.length < count && !wanted.some(([each]) => each === step)) wanted.push([step, false]);
    if (!shown && wanted.length > count && this.focused >= count) wanted[0] = wanted[this.focused];
    wanted.length = Math.min(count, wanted.length);
    while (this.panes.length > wanted.length) this.panes.pop().element.remove();
    while (this.panes.length < wanted.length) { const pane = new Pane(this.store, this.actions); this.panes.push(pane); $("panes").append(pane.element); }
    this.panes.forEach((pane, at) => this.showIn(pane, wanted[at][0].number, wanted[at][1]));
    this.focused = Math.min(this.focused, this.panes.length - 1);
    if (!shown) this.update(true);
  }

  showIn(pane, number, diff) { pane.show(this.store.steps[number], diff); }
  focus(pane) { if (this.panes[this.focused] !== pane) { this.focused = this.panes.indexOf(pane); this.update(false); } }
  setView(view) { if (view in VIEWS && (view !== "verdict" || this.store.verdict)) { this.view = view; this.update(true); } }

  select(number, line) {
    this.op = { step: number, line };
    this.linked = this.store.linked(number, line);
  }

  // Select an op, and show its step if no pane does.
  go(number, line) {
    this.view = "levels";
    const step = this.store.steps[number];
    let at = this.panes.findIndex((pane) => pane.step === step);
    if (at < 0) { at = this.focused; this.showIn(this.panes[at], number, false); }
    else if (this.panes[at].diff && !this.panes[at].rows.has(`${number}:${line}`)) this.showIn(this.panes[at], number, false);
    this.focused = at;
    this.select(number, line);
    this.update(true);
  }

  update(scroll, still = null) {
    const { store, panes, op } = this;
    for (const view of Object.keys(VIEWS)) $(view).hidden = view !== this.view;
    for (const button of $("views").children) button.setAttribute("aria-current", button.dataset.view === this.view);
    for (const button of $("counts-of-panes").children) button.setAttribute("aria-pressed", Number(button.dataset.count) === panes.length);
    showDetail(store, $("detail"), op, this.linked, this.actions); // first: it decides the height of panes
    panes.forEach((pane, at) => { pane.element.classList.toggle("focused", at === this.focused); pane.mark(this.linked, op, scroll && pane !== still); });
    const makers = new Set(op ? store.history(op.step, op.line).map(({ step }) => step.number) : []);
    for (const button of $("steps").querySelectorAll("button")) {
      const number = Number(button.dataset.step);
      const isShown = panes[this.focused].step.number === number;
      button.setAttribute("aria-current", isShown);
      if (isShown) button.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (!button.classList.contains("level")) button.classList.toggle("by", makers.has(number));
    }
    this.write();
  }

  write() {
    const pane = this.panes[this.focused], level = this.op ? this.store.steps[this.op.step] : pane.step;
    const named = (step) => encodeURIComponent(step.place).replace(/%2F/g, "/");
    const asked = [`level=${named(level)}`];
    if (this.op) asked.push(`op=${this.op.line}`);
    asked.push(`panes=${this.panes.map((each) => named(each.step) + (each.diff ? "~diff" : "")).join(",")}`);
    if (this.view !== "levels") asked.push(`view=${this.view}`);
    this.hash = `#${asked.join("&")}`;
    if (location.hash !== this.hash) history.replaceState(null, "", this.hash);
  }

  // The list of levels and passes.
  makeSteps() {
    const { store } = this, show = (number) => () => this.actions.showStep(number, this.panes[this.focused].diff);
    for (const level of store.levels) {
      const last = store.named(level);
      $("steps").append(make("button", { class: "level", "data-step": last.number, onclick: () => this.actions.showStep(last.number, false) }, make("span", { class: "name" }, level)));
      for (const step of store.steps) {
        if (step.level !== level) continue;
        const same = !step.changes.length, wrong = store.verdict && store.verdict.wrong === step.number;
        const size = step.number === 0 ? "" : same ? "same" : `+${step.added} −${step.removed}`;
        $("steps").append(make("button", { class: [same ? "same" : "", wrong ? "wrong" : ""].join(" "), "data-step": step.number, title: step.place, onclick: show(step.number) }, make("span", { class: "name" }, store.pass(step)), make("span", { class: "size" }, size)));
      }
    }
    if (store.why_no_sass) $("steps").append(make("p", {}, `sass: left out, ${store.why_no_sass}`));
  }

  // ---- keys

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const searches = event.target === $("search") || $("results").contains(event.target);
    if (event.key === "Escape") return this.escape();
    if (searches) return keyInSearch(event);
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || $("help").open) return;
    const action = actionOf(this, event.key);
    if (!action) return;
    event.preventDefault();
    action();
  }

  // The next op in the focused pane, from the selected or the first marked one.
  move(direction) {
    const { step } = this.panes[this.focused], lines = step.ops.map(([line]) => line);
    if (!lines.length) return;
    const from = this.op?.step === step.number ? this.op.line : [...(this.linked?.get(step.number) ?? [])][0] ?? (direction > 0 ? 0 : Infinity);
    const next = direction > 0 ? lines.find((line) => line > from) : lines.findLast((line) => line < from);
    if (next !== undefined) { this.select(step.number, next); this.update(true); }
  }

  pass(direction, changing) {
    const pane = this.panes[this.focused];
    let at = pane.step.number + direction;
    while (changing && this.store.steps[at] && !this.store.steps[at].changes.length) at += direction;
    if (this.store.steps[at]) { this.showIn(pane, at, pane.diff); this.update(true); }
  }

  maker() {
    const made = this.op ? this.store.history(this.op.step, this.op.line).filter(({ step }) => !["ptx", "sass"].includes(step.level)) : [];
    const pane = this.panes[this.focused], at = pane.diff ? made.findIndex(({ step }) => step === pane.step) : -1;
    if (made.length) this.actions.showStep(made[(at + 1) % made.length].step.number, true);
  }

  beside(direction) {
    this.focused = (this.focused + direction + this.panes.length) % this.panes.length;
    this.panes[this.focused].text.focus({ preventScroll: true });
    this.update(false);
  }

  escape() {
    if ($("help").open) $("help").close();
    else if (!$("results").hidden || document.activeElement === $("search")) { $("results").hidden = true; $("search").blur(); }
    else if (document.activeElement.tagName === "SELECT") document.activeElement.blur();
    else if (this.op) { this.op = this.linked = null; this.update(false); }
  }

  found(step, line) {
    const op = this.store.opAround(step, line);
    if (op) return this.go(step.number, op.line);
    this.actions.showStep(step.number, false);
    const pane = this.panes[this.focused];
    pane.bring(pane.rows.get(`${step.number}:${line}`));
  }

  theme() {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = name;
    kept("theme", name);
  }
}

// A word that the browser keeps; null if it keeps none for pages of files.
function kept(name, value = null) {
  try {
    if (value !== null) localStorage.setItem(`lowtide-${name}`, value);
    return localStorage.getItem(`lowtide-${name}`);
  } catch {
    return value;
  }
}

opened().then((store) => { window.page = new Page(store); }, (error) => {
  $("opening").textContent = `The data of this page cannot be read: ${error.message}. A browser of 2023 or later is needed.`;
});
