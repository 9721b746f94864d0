// Search in the levels and the schedule.

// The matches in the rows and sentences of the schedule, in the panes and in the finished levels.
function showMatches(page) {
  const asked = $("search").value.trim().toLowerCase(), { store } = page, most = 40, box = $("results");
  box.replaceChildren();
  box.hidden = !asked;
  if (!asked) return;
  const close = (action) => () => { box.hidden = true; $("search").blur(); action(); };
  const words = (part) => [...(part.cells ?? [part])].map((cell) => cell.textContent).join(" | ");
  const parts = [...$("schedule").querySelectorAll("p:not(.jumps), tr")].filter((part) => words(part).toLowerCase().includes(asked));
  const groups = [["schedule", parts.map((part) => [words(part), () => { page.setView("schedule"); part.scrollIntoView({ block: "center" }); }])]];
  for (const step of new Set([...page.panes.map((pane) => pane.step), ...store.levels.map((level) => store.named(level))])) {
    const found = step.text.map((_, at) => at + 1).filter((line) => store.words(step, line).toLowerCase().includes(asked));
    groups.push([step.place, found.map((line) => [`${line}: ${store.words(step, line).trim()}`, () => page.found(step, line)])]);
  }
  for (const [name, matches] of groups) {
    if (!matches.length) continue;
    box.append(make("h3", {}, `${name}: ${counted(matches.length, "match").replace(/matchs$/, "matches")}`));
    box.append(...matches.slice(0, most).map(([text, action]) => make("button", { class: "code", onclick: close(action) }, text)));
  }
  if (!box.children.length) box.append(make("p", {}, "Nothing found in the levels and the schedule."));
}

// Enter goes to the first match; arrows move through the matches.
function keyInSearch(event) {
  const matches = [$("search"), ...$("results").querySelectorAll("button")], at = matches.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    matches[Math.max(0, Math.min(matches.length - 1, at + step))].focus();
  } else if (event.key === "Enter" && at === 0) matches[1]?.click();
}
