// A pane: the text of a step, or its diff to the step before, with marks on ops.

const CONTEXT = 3; // lines around a change

// What a count on a line says, as a text.
const titleOf = (count) => count.rows.filter(([label]) => label !== "picture").map((row) => row.join(": ")).join("\n");

class Pane {
  constructor(store, actions) {
    Object.assign(this, { store, actions, step: null, diff: false, marked: [] });
    this.select = make("select", { "aria-label": "Step", onchange: () => actions.show(this, Number(this.select.value)) });
    for (const level of store.levels) {
      const group = make("optgroup", { label: level });
      for (const step of store.steps) if (step.level === level) group.append(make("option", { value: step.number }, `${level}: ${store.pass(step)}`));
      this.select.append(group);
    }
    this.diffButton = make("button", { title: "The changes of this pass (d)", onclick: () => actions.toggleDiff(this) }, "diff");
    this.edited = make("span", { class: "tag", title: "The dump was edited after it was written" }, "edited");
    this.stale = make("span", { class: "tag" }, "from before the edit");
    this.found = make("span", { class: "found" });
    this.text = make("div", { class: "text code", tabindex: "0", role: "region", "aria-label": "Text of the step" });
    this.head = make("div", { class: "head" }, this.select, this.edited, this.stale, this.diffButton, this.found);
    this.element = make("section", { class: "pane" }, this.head, this.text);
    this.element.addEventListener("pointerdown", () => actions.focus(this));
    this.element.addEventListener("focusin", () => actions.focus(this));
    this.text.addEventListener("click", (event) => this.clicked(event));
  }

  show(step, diff) {
    if (this.step === step && this.diff === diff) return;
    Object.assign(this, { step, diff, rows: new Map(), marked: [] });
    this.select.value = step.number;
    this.edited.hidden = !step.edited;
    const edit = step.edited ? null : this.store.editBefore(step);
    this.stale.hidden = !edit;
    this.stale.title = edit ? `${edit.place} was edited after the compiler made this text from it` : "";
    this.diffButton.setAttribute("aria-pressed", diff);
    const rows = make("div", { class: "rows" });
    rows.append(...(diff ? this.changes() : step.text.map((_, at) => this.row(step, at + 1, ""))));
    this.text.replaceChildren(rows);
    this.text.scrollTop = 0;
  }

  row(step, line, sign) {
    const { store } = this;
    const code = make("span", {}), tokens = store.tokens(step, line);
    for (let at = 0; at < tokens.length; at += 2) {
      code.append(tokens[at] ? make("span", { class: `c-${store.classes[tokens[at]]}` }, tokens[at + 1]) : tokens[at + 1]);
    }
    const row = make("div", { class: "row", "data-step": step.number, "data-line": line }, make("span", { class: "no" }, String(line)));
    if (this.diff) row.append(make("span", { class: "sign" }, sign));
    row.append(code);
    if (store.opAround(step, line)) row.classList.add("op");
    if (sign === "+") row.classList.add("added");
    if (sign === "−") row.classList.add("removed");
    const tags = [], counts = step.number === store.counts.step ? store.counted.get(line) ?? [] : [];
    const bad = [...new Set(counts.filter((one) => one.is_bad).map((one) => one.short))];
    tags.push(...bad.map((short) => make("span", { class: "tag bad", title: titleOf(counts.find((one) => one.short === short)) }, short)));
    const one = counts[counts.length - 1];
    if (one && !bad.length) tags.push(make("span", { class: "tag", title: titleOf(one) }, one.short));
    const accused = (store.verdict?.at ?? []).findIndex(([number, own]) => number === step.number && own === line);
    if (accused >= 0) {
      row.classList.add("accused");
      tags.push(make("span", { class: "tag bad" }, accused ? "the other access" : "broke the rule"));
    }
    if (tags.length) row.append(make("span", { class: "tags" }, ...tags));
    this.rows.set(`${step.number}:${line}`, row);
    return row;
  }

  // The changed lines of this step with those around them.
  *changes() {
    const { step } = this, before = this.store.steps[step.number - 1];
    if (!before) return yield make("p", { class: "gap" }, "The first step: there is none before it.");
    if (!step.changes.length) return yield make("p", { class: "gap" }, "This pass changes nothing here.");
    let at = 0, shift = 0; // in the text before; from there to the text after
    for (const [number, [start, end, lines]] of step.changes.entries()) {
      const from = number ? Math.min(start, at + CONTEXT) : at;
      for (let line = at; line < from; line++) yield this.row(step, line + shift + 1, " ");
      const to = Math.max(from, start - CONTEXT);
      if (to > from) yield make("div", { class: "gap" }, `… ${counted(to - from, "unchanged line")}`);
      for (let line = to; line < start; line++) yield this.row(step, line + shift + 1, " ");
      for (let line = start; line < end; line++) yield this.row(before, line + 1, "−");
      for (let line = 0; line < lines.length; line++) yield this.row(step, start + shift + line + 1, "+");
      [at, shift] = [end, shift + lines.length - (end - start)];
    }
    const last = Math.min(before.text.length, at + CONTEXT);
    for (let line = at; line < last; line++) yield this.row(step, line + shift + 1, " ");
    if (before.text.length > last) yield make("div", { class: "gap" }, `… ${counted(before.text.length - last, "unchanged line")}`);
  }

  // Mark the ops that are linked with the selected one, and bring one of them into view: the selected one, or the first
  // that touches memory, multiplies or waits.
  mark(linked, op, scroll) {
    for (const row of this.marked) row.classList.remove("marked", "selected");
    this.marked = [];
    for (const number of this.diff ? [this.step.number - 1, this.step.number] : [this.step.number]) {
      for (const line of linked?.get(number) ?? []) {
        const row = this.rows.get(`${number}:${line}`);
        if (!row) continue;
        row.classList.add("marked");
        if (op && op.step === number && op.line === line) row.classList.add("selected");
        this.marked.push(row);
      }
    }
    const own = linked?.get(this.step.number)?.size;
    this.found.textContent = linked ? (own ? counted(own, "op") : "no op") : "";
    this.marked.sort((one, other) => one.offsetTop - other.offsetTop);
    const isMain = (row) => this.store.main.has(this.store.op(this.store.steps[row.dataset.step], Number(row.dataset.line)).name);
    const first = this.marked.find((row) => row.classList.contains("selected")) ?? this.marked.find(isMain) ?? this.marked[0];
    if (scroll && first) this.bring(first);
  }

  // Scroll only if the row is not in view.
  bring(row) {
    const top = row.offsetTop - this.text.offsetTop, height = this.text.clientHeight;
    if (top < this.text.scrollTop + 8 || top + row.offsetHeight > this.text.scrollTop + height - 24) this.text.scrollTop = top - height / 3;
  }

  nextMark(direction) {
    if (!this.marked.length) return null;
    const at = this.marked.findIndex((row) => row.classList.contains("current"));
    const row = this.marked[(at + direction + this.marked.length) % this.marked.length];
    this.marked.forEach((one) => one.classList.toggle("current", one === row));
    this.bring(row);
    return row;
  }

  clicked(event) {
    const row = event.target.closest(".row.op");
    if (!row || String(getSelection())) return;
    const step = this.store.steps[row.dataset.step], op = this.store.opAround(step, Number(row.dataset.line));
    if (op) this.actions.select(step.number, op.line, this);
  }
}
