// Keys, and the list of them.

const KEYS = [
  ["j, k", "next and previous op: it is marked in every level"], ["], [", "next and previous marked op in this pane"], ["n, p", "next and previous pass"],
  ["N, P", "next and previous pass that changes something"], ["d", "the changes of the pass, or its whole text"], ["o", "what the pass that made the marked op changes; again: the pass before it"],
  ["h, l", "the pane on the left or right"], ["1, 2, 3", "number of panes"], ["g, G", "first and last line"], ["/", "search; Enter goes to the first match, arrows to others"],
  ["e, s, v, i", "levels, schedule, verdict, pictures"], ["w", "wrap long lines"], ["t", "dark or light"], ["Esc", "close, or unmark"], ["?", "these keys"],
];

// What a key does, if it does anything in the view.
function actionOf(page, key) {
  const pane = page.panes[page.focused], text = pane.text;
  const always = {
    "?": () => $("help").showModal(), "/": () => $("search").focus(), t: () => page.theme(), w: () => document.body.classList.toggle("wrap"),
    e: () => page.setView("levels"), s: () => page.setView("schedule"), v: () => page.setView("verdict"), i: () => page.setView("pictures"),
  };
  const inLevels = {
    j: () => page.move(1), k: () => page.move(-1), n: () => page.pass(1, false), p: () => page.pass(-1, false), N: () => page.pass(1, true), P: () => page.pass(-1, true),
    d: () => page.actions.toggleDiff(pane), o: () => page.maker(), h: () => page.beside(-1), l: () => page.beside(1), "]": () => pane.nextMark(1), "[": () => pane.nextMark(-1),
    1: () => page.setPanes(1), 2: () => page.setPanes(2), 3: () => page.setPanes(3), g: () => { text.scrollTop = 0; }, G: () => { text.scrollTop = text.scrollHeight; },
  };
  return always[key] ?? (page.view === "levels" ? inLevels[key] : undefined);
}

function makeHelp(store) {
  const rows = KEYS.map(([keys, what]) => [make("span", {}, ...keys.split(", ").flatMap((key) => [make("kbd", {}, key), " "])), what]);
  $("help").append(make("h2", {}, "Keys"), table(["", ""], rows), make("p", {}, "The address of the page names what is shown: a copy of it leads here again."), make("form", { method: "dialog" }, make("button", { autofocus: true }, "Close")));
  $("help").append(make("p", {}, `Made by Lowtide ${store.lowtide}.`));
}
