// The data: opened from base64 of gzip, with the texts of steps and the links between their ops.

async function opened() {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Store(await new Response(stream).json());
}

class Store {
  constructor(data) {
    Object.assign(this, data);
    let before = [];
    for (const [number, step] of this.steps.entries()) {
      before = step.text = changed(before, step.changes); // numbers of lines
      step.number = number;
      step.added = step.removed = 0;
      for (const [start, end, lines] of number ? step.changes : []) {
        step.removed += end - start;
        step.added += lines.length;
      }
      step.at = new Map(step.ops.map(([line, name, ...origins]) => [line, { line, name: this.names[name], origins }]));
    }
    this.levels = [...new Set(this.steps.map((step) => step.level))];
    this.main = new Set(this.main.map((number) => this.names[number])); // the ops that touch memory, multiply or wait
    this.plain = new Map();
    this.counted = new Map(); // the counts of each line of their step
    for (const count of this.counts.ops) this.counted.set(count.line, [...(this.counted.get(count.line) ?? []), count]);
  }

  // The step of a place, or the last one of a level; null if there is none.
  named(name) {
    const found = this.steps.filter((step) => step.place === name || step.level === name);
    return found.length ? found[found.length - 1] : null;
  }

  // The first step that was edited after a step's text was made from it; undefined if there is none. SASS is made anew
  // from the PTX.
  editBefore(step) {
    return this.steps.find((other) => other.edited && other.number < step.number && (step.level !== "sass" || other.level !== "ptx"));
  }

  pass(step) {
    return { ptx: "NVPTX backend", sass: "ptxas" }[step.level] ?? step.place.split("/")[1].replace(/^\d+-/, "");
  }

  tokens(step, line) {
    return this.lines[step.text[line - 1]];
  }

  words(step, line) {
    const number = step.text[line - 1];
    if (!this.plain.has(number)) this.plain.set(number, (this.lines[number] ?? []).filter((_, at) => at % 2).join(""));
    return this.plain.get(number);
  }

  op(step, line) {
    return step.at.get(line) ?? null;
  }

  // The op that a line belongs to: in the PTX an instruction may have several lines.
  opAround(step, line) {
    for (let at = line; at > 0; at--) {
      if (step.at.has(at)) return step.at.get(at);
      if (step.level !== "ptx" || this.words(step, at - 1).includes(";")) return null;
    }
    return null;
  }

  // The lines of the ops that an op comes from and of those that come from it, by the number of their step.
  linked(number, line) {
    const found = new Map([[number, new Set([line])]]);
    for (let step = this.steps[number]; step.before !== null; step = this.steps[step.before]) {
      const lines = new Set();
      for (const own of found.get(step.number)) for (const origin of step.at.get(own)?.origins ?? []) lines.add(origin);
      found.set(step.before, lines);
    }
    for (const step of this.steps.slice(number + 1)) {
      const before = step.before !== null && step.before >= number ? found.get(step.before) : null;
      if (!before) continue;
      found.set(step.number, new Set([...step.at.values()].filter((op) => op.origins.some((o) => before.has(o))).map((op) => op.line)));
    }
    return found;
  }

  // The steps that replaced the op's origins by ops of other names: [{step, ops: [{step, line}]}], the last one first.
  history(number, line) {
    const found = [];
    let step = this.steps[number], lines = [line];
    while (step.before !== null) {
      const before = this.steps[step.before], names = new Set(lines.map((own) => step.at.get(own).name));
      const origins = [...new Set(lines.flatMap((own) => step.at.get(own).origins))].filter((own) => before.at.has(own));
      if (!origins.length) {
        found.push({ step, ops: [] });
        break;
      }
      if (origins.some((own) => !names.has(before.at.get(own).name))) found.push({ step, ops: origins.map((own) => ({ step: before, line: own })) });
      [step, lines] = [before, origins];
    }
    return found;
  }
}

function changed(before, changes) {
  const after = [];
  let at = 0;
  for (const [start, end, lines] of changes) {
    after.push(...before.slice(at, start), ...lines);
    at = end;
  }
  return after.concat(before.slice(at));
}

// An element. Texts are always set as text, never as HTML: names in a kernel may hold anything.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
