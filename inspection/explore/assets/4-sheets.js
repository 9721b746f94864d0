// The schedule, the verdict and the pictures.

function table(headings, rows, kind = "plain") {
  const cells = (row) => row.map((cell) => make("td", typeof cell === "number" ? { class: "number" } : {}, typeof cell === "number" ? cell.toLocaleString("en") : cell));
  return make("div", { class: "wide" }, make("table", { class: kind }, headings.some((text) => text) ? make("tr", {}, ...headings.map((text) => make("th", {}, text))) : null, ...rows.map((row) => make("tr", {}, ...cells(row)))));
}

function showSchedule(store, sheet) {
  const { explain, reasons, candidates } = store.schedule;
  sheet.replaceChildren(make("h2", {}, "Schedule"));
  if (!explain && !candidates.length && !Object.keys(reasons).length) return sheet.append(make("p", {}, "Left out: see the notes above."));
  const jumps = make("p", { class: "jumps" });
  sheet.append(jumps);
  const fields = explain ? explain.schedule.fields : {};
  const parts = new Map();
  for (const path of Object.keys(Object.keys(fields).length ? fields : reasons)) parts.set(path.split(".")[0], [...(parts.get(path.split(".")[0]) ?? []), path]);
  for (const [part, paths] of parts) {
    const rows = paths.map((path) => [make("code", {}, path), make("code", {}, fields[path] ?? ""), reasons[path] ?? "given, or not chosen here"]);
    sheet.append(make("h3", {}, part), table(["field", "value", "why"], rows, "plain fields"));
  }
  showSwizzles(sheet, store.schedule.swizzles, fields);
  for (const passed of explain?.passed_over ?? []) sheet.append(make("p", { class: "bad" }, `Dropped: ${passed.why}: ${passed.schedule}`));
  if (explain?.predicted) showPredicted(sheet, explain.predicted, explain.kernel.grid, explain.resources.ctas_per_sm);
  showTimes(sheet, store.schedule.times);
  if (candidates.length) showCandidates(sheet, candidates);
  if (explain) showResources(store, sheet, explain);
  for (const heading of [...sheet.querySelectorAll("h2")].slice(1)) jumps.append(make("button", { onclick: () => heading.scrollIntoView() }, heading.textContent), " ");
}

function showSwizzles(sheet, swizzles, fields) {
  const rows = Object.entries(swizzles).flatMap(([path, candidates]) => Object.entries(candidates).map(([bits, ways]) => {
    const conflicts = Object.entries(ways).map(([access, count]) => `${access} ${count === 1 ? "without conflict" : `${count}-way`}`).join(", ");
    return [make("code", {}, path), make(bits === fields[path] ? "strong" : "span", {}, bits), conflicts];
  }));
  if (rows.length) sheet.append(make("h3", {}, "swizzles that were weighed"), table(["field", "candidate", "bank conflicts"], rows));
}

const percent = (share) => `${Math.round(100 * share)} %`;
const listed = (names) => names.join(", ").replace(/, ([^,]*)$/, " and $1");
const WORK = { "tensor cores": "Tensor cores bind it: they work", "shared memory": "Shared memory binds it: it works", L2: "L2 binds it: it works", memory: "Memory binds it: it works" };
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function showPredicted(sheet, { microseconds, clock, binds, resources, parts }, grid, perSm) {
  const shown = resources.filter((one) => one.microseconds), own = shown.find((one) => one.resource === binds);
  const next = shown.filter((one) => one !== own && one.resource in WORK).reduce((one, other) => (one && one.share >= other.share ? one : other), null);
  const rows = shown.map((one) => [one === own ? make("strong", {}, one.resource) : one.resource, one.microseconds.toFixed(1), percent(one.share), make("code", {}, one.fields)]);
  const power = clock < 0.995 ? ` The power limit holds the clock at ${percent(clock)} of its highest.` : "";
  const beside = shown.map((one) => one.resource).filter((name) => name in WORK && !parts.includes(name));
  const sum = parts.length ? ` ${capital(listed(parts.filter((name) => shown.some((one) => one.resource === name))))} add up to the whole time` + (beside.length ? `; ${listed(beside)} run underneath.` : ".") : " These times overlap, so they do not add up.";
  const idle = idleOf(grid, perSm, shown.find((one) => one.resource === "idle SMs"));
  sheet.append(make("h2", {}, "What binds it"), make("p", {}, "The cost model estimates ", make("strong", {}, `${microseconds.toFixed(1)} µs`), ". ", make("strong", {}, `${WORK[binds] ?? `The largest part is ${binds}:`} ${percent(own.share)} of that time`), next ? `; the next resource, ${next.resource}, ${percent(next.share)}.` : ".", power, " The table shows how long each resource is busy.", sum, idle), table(["resource", "µs", "of the time", "fields that change it"], rows));
}

// A sentence on SMs without a tile in the last wave, if it has no half tiles.
function idleOf({ at_once, full_waves, last_wave, last_wave_halves, tiles }, perSm, row) {
  const idle = at_once - last_wave;
  if (!row || tiles === null || !last_wave || last_wave_halves || idle <= 0) return "";
  const where = perSm === 1 ? "SMs" : "places for a CTA";
  return ` In the ${full_waves ? "last" : "only"} wave, ${idle} of ${at_once} ${where} have no tile: ${percent(idle / at_once)} of them, ${percent(row.share)} of the whole time.`;
}

// A row for each agent. The slider makes the rows wider, so that short intervals can be seen.
function showTimes(sheet, times) {
  if (!times.length) return;
  const tracks = make("div", { class: "times" });
  const zoom = make("input", { type: "range", min: 1, max: 64, value: 1, "aria-label": "zoom", oninput: () => { tracks.style.width = `${100 * zoom.value}%`; } });
  const total = Math.max(...times.map((one) => one.total));
  for (const one of times) {
    tracks.append(make("p", { class: "title" }, `${one.title}: ${one.total.toFixed(1)} µs`));
    for (const { agent, intervals } of one.agents) {
      const row = make("div", { class: "track" });
      for (const [what, begin, end, tile, step] of intervals) {
        const place = (tile === null ? "" : `, tile ${tile}`) + (step === null ? "" : `, step ${step}`);
        const bar = make("span", { class: what, title: `${agent}: ${what}${place}, ${begin.toFixed(2)} to ${end.toFixed(2)} µs` });
        bar.style.left = `${(100 * begin) / total}%`;
        bar.style.width = `${(100 * (end - begin)) / total}%`;
        row.append(bar);
      }
      tracks.append(make("div", { class: "agent" }, agent), row);
    }
  }
  const kinds = [...new Set(times.flatMap((one) => one.agents.flatMap((agent) => agent.intervals.map(([what]) => what))))];
  const legend = kinds.flatMap((what) => [make("span", { class: `key ${what}` }, what), " "]);
  sheet.append(make("h2", {}, "Where the time goes"), make("p", {}, "What the agents of one CTA do, from the launch to its last tile. Point at an interval to see its tile and its K step. If there are many tiles, those in the middle are shown without their K steps."), make("p", {}, ...legend, make("label", {}, " zoom ", zoom)), make("div", { class: "wide" }, tracks));
}

function showCandidates(sheet, candidates) {
  const least = candidates[0].cycles;
  const rows = candidates.map(({ cycles, fields }) => {
    const other = Object.entries(fields).map(([path, value]) => (value === null ? `without ${path}` : `${path} = ${value}`)).join(", ");
    return [cycles, `${(cycles / least).toFixed(3)}`, other ? make("code", {}, other) : make("strong", {}, "this kernel")];
  });
  sheet.append(make("h2", {}, "Candidates and their estimates"), make("p", {}, "The schedules that the cost model estimates to be fastest, and the fields in which each differs from this kernel. Their times are counted in cycles at the highest clock, also where the power limit lowers the clock."), table(["cycles at the highest clock", "times the least", "schedule"], rows));
}

function showResources(store, sheet, explain) {
  const { resources, kernel } = explain, grid = kernel.grid, limit = store.schedule.shared_memory_limit;
  const rows = [
    ["sums", explain.summation ?? "nothing is multiplied"],
    ["threads of a CTA", String(resources.threads)],
    ["registers", resources.registers === null ? "not known: no ptxas, or the kernel is refused" : `${resources.registers} a thread; spills: ${resources.spill_stores} bytes stored, ${resources.spill_loads} loaded`],
    ["accumulators", `${kernel.accumulators} registers a thread`],
    ["CTAs per SM", String(resources.ctas_per_sm)],
    ...kernel.roles.map((role) => [`role ${role.name}`, `${role.warps} warps` + (role.registers ? `, ${role.registers} registers a thread` : "")]),
    ["grid", `tiles of ${grid.tile.join("×")}, clusters of ${grid.cluster.join("×")}, order ${grid.order}, ${grid.scheduler}`],
  ];
  if (grid.tiles !== null) rows.push(["waves", `${grid.tiles} tiles on ${grid.at_once} CTAs at once: ${counted(grid.full_waves, "full wave")}` + (grid.last_wave ? `, a last one of ${counted(grid.last_wave, "tile")}` + (grid.last_wave_halves ? ` in ${grid.last_wave_halves} halves` : "") : "")]);
  if (kernel.flops_per_byte !== null) rows.push(["intensity", `${kernel.flops_per_byte.toFixed(1)} flops per byte of A and B from L2` + (kernel.l2_bytes_per_cycle ? `; ${kernel.l2_bytes_per_cycle.toFixed(1)} bytes per cycle and SM at wgmma's full rate` : "")]);
  for (const warning of resources.warnings) rows.push(["warning", warning]);
  sheet.append(make("h2", {}, "Resources"), table(["", ""], rows));
  if (kernel.stages) {
    const { stages, stage_bytes: bytes, ring_bytes: ring, scratch_bytes: scratch } = kernel, left = limit - resources.shared_memory;
    const part = (size, kind, text) => { const one = make("span", { class: kind, title: text }, text); one.style.width = `${(100 * size) / limit}%`; return one; };
    sheet.append(make("h3", {}, "Shared memory of a CTA"), make("div", { class: "bar" }, part(ring, "used", `ring ${ring.toLocaleString("en")}`), part(scratch, "other", scratch ? `scratch ${scratch.toLocaleString("en")}` : "")));
    const fits = left >= bytes ? "room for another stage" : "too little for another stage";
    sheet.append(make("p", {}, `The ring has ${counted(stages, "stage")} of ${bytes.toLocaleString("en")} bytes (grid.tile and mainloop.k decide the size of one); the epilogue's scratch has ${scratch.toLocaleString("en")} (epilogue.tile, epilogue.buffers). In all ${resources.shared_memory.toLocaleString("en")} of at most ${limit.toLocaleString("en")} bytes are used; the ${left.toLocaleString("en")} that are left are ${fits}.`));
  }
}

function showVerdict(store, sheet, actions) {
  const { verdict } = store;
  sheet.replaceChildren(make("h2", {}, "Verdict of lowtide check"), make("p", { class: verdict.ok ? "good" : "bad" }, make("strong", {}, verdict.verdict)));
  for (const note of verdict.notes) sheet.append(make("p", {}, note));
  if (!verdict.message) return;
  const stepLink = (number, diff, text) => make("button", { onclick: () => actions.showStep(number, diff) }, text);
  const file = (number, name) => (number === null ? name : stepLink(number, false, store.steps[number].place));
  const wrong = make("span", {}, file(verdict.wrong, verdict.files[1]), " ");
  if (verdict.wrong !== null) wrong.append(stepLink(verdict.wrong, true, "diff to the step before"));
  const rows = [[verdict.edited ? "first wrong step" : "guilty step", `${verdict.step} of level ${verdict.level}` + (verdict.edited ? ", whose file was edited" : "")], ["right", verdict.files[0] ? file(verdict.right, verdict.files[0]) : "no step before it is right"], ["wrong", wrong], ["what happened", verdict.short || verdict.message]];
  if (verdict.fix) rows.push(["fix", verdict.fix]);
  if (verdict.short) rows.push(["in full", verdict.message]);
  else if (verdict.op) rows.push(["op", verdict.op]);
  rows.push(["again", make("code", {}, verdict.command)]);
  sheet.append(table(["", ""], rows), make("p", {}, `This is the first ${/: race \(/.test(verdict.message) ? "race" : "fault"} that was found; there may be others.`));
  for (const [at, [number, line]] of verdict.at.entries()) {
    const step = store.steps[number], op = store.opAround(step, line);
    const what = at ? "The other access" : "The op that broke the rule";
    sheet.append(make("h3", {}, `${what}, ${step.place}, line ${line}`), make("pre", { class: "wide" }, store.words(step, line).trim()));
    sheet.append(make("button", { onclick: () => (op ? actions.go(number, op.line) : actions.showStep(number, false)) }, "Show it in the levels"));
  }
}

const COLOURS = ["#9ecbff", "#a6e3b0", "#ffe58a", "#ffab9f", "#d6bcf2", "#ffc99a", "#a8e6e1", "#f5b8d8"];

function showPictures(store, sheet) {
  sheet.replaceChildren(make("h2", {}, "Layouts and banks"), make("p", {}, "A part of each tile, as lowtide draw shows it: of elements, the thread T and the number V of its value; of shared memory, the bank."));
  for (const picture of store.pictures) {
    sheet.append(make("h3", {}, picture.name), make("p", {}, picture.title));
    for (const panel of picture.panels) sheet.append(make("p", { "data-title": panel.title }, panel.title), panelTable(panel));
  }
  if (!store.pictures.length) sheet.append(make("p", {}, "Left out: pictures are made of level epilogue."));
}

function panelTable(panel) {
  const marked = new Set(panel.marked.map((cell) => cell.join()));
  const rows = panel.labels.map((labels, row) => make("tr", {}, make("th", {}, String(row)), ...labels.map((label, column) => {
    const cell = make("td", marked.has(`${row},${column}`) ? { class: "witness" } : {}, label);
    cell.style.background = COLOURS[panel.colours[row][column] % COLOURS.length];
    return cell;
  })));
  const head = make("tr", {}, make("th", {}, `${panel.axes[0]} \\ ${panel.axes[1]}`), ...panel.labels[0].map((_, at) => make("th", {}, String(at))));
  return make("div", { class: "wide" }, make("table", { class: "cells" }, head, ...rows));
}
