"use strict";
/* The page of a run: draws a projection, and follows it while it is live.

Knows five kinds of blocks and counts nothing but rows: numbers and judgements are those of the projection.  Whatever
others wrote becomes text by `node`, never markup.  Which item is open, what is looked at and how tables are filtered
stands in the hash of the address, so that each selection is a link.

text      what of others' texts can be seen
state     the run, and the place in it that is looked at
blocks    a function for each kind of block
tables    rows in view only; folding, filtering, sorting
drawer    details of one item
live      events of the server, or asking it again and again
keys      all by keyboard */
(() => {
  // --- Text of others: the same is taken out as in `core/text` and `views/lines`.

  const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
  const UNSEEN = new RegExp(
    "[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f" +
      "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ud800-\\udfff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb" +
      "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]+",
    "gu",
  );
  const PRINTABLE = /^[\t\n -~]*$/;

  /** A text in which all can be seen. */
  function visible(text) {
    return PRINTABLE.test(text) ? text : text.replace(ESCAPES, "").replace(UNSEEN, " ");
  }

  /** An element; functions among its attributes listen, texts among its children are made visible. */
  function node(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(name, value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, visible(`${value}`));
    }
    for (const child of children.flat()) {
      if (child || child === 0) made.append(child instanceof Node ? child : visible(`${child}`));
    }
    return made;
  }

  const byId = (id) => document.getElementById(id);
  const button = (words, press, more = {}) => node("button", { type: "button", click: press, ...more }, words);
  const mute = (words, more = {}) => node("span", { "aria-hidden": "true", ...more }, words);
  const fill = () => node("span", { class: "fill" });
  const quiet = (words, press, label = null) => button(words, press, { class: "quiet", "aria-label": label });
  const hidden = (words) => node("span", { class: "unseen" }, words);
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

  const BLANK = "-"; // of a cell, what is missing; as in `core/text`

  /** A time as the projection's own texts have it, whatever the clock of this machine says. */
  function timeText(seconds) {
    const at = new Date(seconds * 1000);
    return Number.isNaN(at.getTime()) ? BLANK : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  }

  /** Seconds as the projection's own texts have them. */
  function durationText(seconds) {
    const whole = Math.max(0, Math.round(seconds));
    const [minutes, two] = [Math.floor(whole / 60), (number) => `${number}`.padStart(2, "0")];
    if (minutes < 1) return `${whole} s`;
    return minutes < 60 ? `${minutes} min ${two(whole % 60)} s` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }

  // What counts, by the clock, of a run that is followed; elsewhere the time stands there.
  const now = () => (data.live?.has_clock ? Date.now() / 1000 : null);
  const sinceText = (at) => (now() === null ? timeText(at) : durationText(now() - at));
  const untilText = (at) => (now() === null ? `until about ${timeText(at)}` : `about ${durationText(at - now())} left`);

  /** Count on what stands there. */
  function countOn() {
    if (link.word.startsWith(LOST)) return;
    for (const each of document.querySelectorAll("[data-since]")) each.textContent = sinceText(Number(each.dataset.since));
    for (const each of document.querySelectorAll("[data-until]")) each.textContent = untilText(Number(each.dataset.until));
  }

  /** Draw what stands in a box anew; where the keyboard is, it stays, on the button of the same words. */
  function keepFocus(box, draw) {
    const wordsOf = (each) => each.id || each.dataset.status || each.title || each.getAttribute("aria-label") || each.textContent;
    const old = box.contains(document.activeElement) ? wordsOf(document.activeElement) : null;
    draw();
    if (old) [...box.querySelectorAll("a, button")].find((each) => wordsOf(each) === old)?.focus({ preventScroll: true });
  }

  /** Say something to whoever listens instead of looking. */
  function say(words) {
    byId("said").textContent = visible(words);
  }

  // --- State: the run, and the place in it that is looked at.

  const data = JSON.parse(byId("data").textContent);
  const SIGNS = data.signs; // of each status: a second way to tell it, beside its word and its colour
  const run = { projection: null, details: new Map(), packed: null };
  const place = { item: "", view: "", tables: new Map() };
  const tables = new Map(); // by the names of their blocks: a Table each, of those that are drawn
  const drawn = new Map(); // by their names: the blocks that stand there
  let active = ""; // the table that keys move in

  const blockOf = (name) => run.projection.blocks.find((block) => block.name === name);

  // Base85 as of RFC 1924, but for the three letters that mean something in HTML.
  const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=:?@^_`{|}~";
  const WORTHS = Array.from({ length: 128 }, (_, code) => LETTERS.indexOf(String.fromCharCode(code)));

  /** The bytes that letters stand for, four for five; the last few letters stand for one byte less than they are. */
  function bytesOf(text) {
    const bytes = new DataView(new ArrayBuffer(Math.ceil(text.length / 5) * 4));
    for (let at = 0; at < text.length; at += 5) {
      let number = 0;
      for (let next = at; next < at + 5; next++) number = number * 85 + (WORTHS[text.charCodeAt(next)] ?? 84);
      bytes.setUint32((at / 5) * 4, number);
    }
    return new Uint8Array(bytes.buffer, 0, Math.floor((text.length * 4) / 5));
  }

  /** The JSON that was packed: base85 of raw deflate. */
  async function unpack(text) {
    const bytes = bytesOf(text);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return JSON.parse(await new Response(stream).text());
  }

  /** The blocks of an item's details; null if there are none. */
  async function detailsOf(item) {
    if (run.details.has(item)) return run.details.get(item);
    if (data.live) {
      const answer = await ask(`/items/${encodeURIComponent(item)}`);
      run.details.set(item, answer);
      return answer;
    }
    const chunk = run.packed && run.packed.chunk_of[item];
    if (chunk === undefined || chunk === null) return null;
    const unpacked = await unpack(data.packed[chunk]);
    const blocksOf = (at) => unpacked.columns.map((blocks) => blocks[at]).filter(Boolean);
    unpacked.items.forEach((name, at) => run.details.set(name, blocksOf(at)));
    return run.details.get(item);
  }

  /** The projection after a change; the same as `core/projection.apply_delta`. */
  function applyDelta(before, change) {
    const blocks = new Map(before.blocks.map((block) => [block.name, block]));
    for (const [name, block] of Object.entries(change.blocks || {})) {
      const old = blocks.get(name);
      const rows = () => Array.from({ length: block.count }, (_, at) => block.rows[at] || old.rows[at]);
      blocks.set(name, "is" in block ? block : { ...old, rows: rows() });
    }
    const { blocks: _, order, ...plain } = change;
    return { ...before, ...plain, blocks: (order || [...blocks.keys()]).map((name) => blocks.get(name)) };
  }

  function readHash() {
    const words = new URLSearchParams(location.hash.slice(1));
    place.item = words.get("item") || "";
    place.view = words.get("view") || "";
    for (const sight of place.tables.values()) Object.assign(sight, { query: "", statuses: [], sort: null });
    for (const [name, value] of words) {
      const [, letter, of] = /^([qso])\.(.*)$/.exec(name) || [];
      if (letter === "q") sightOf(of).query = value;
      if (letter === "s") sightOf(of).statuses = value.split(",").filter((word) => word in SIGNS);
      if (letter === "o" && /^-?\d+$/.test(value)) sightOf(of).sort = { column: Math.abs(value) - 1, down: value < 0 };
    }
  }

  function hashOf(item, view) {
    const words = new URLSearchParams();
    if (item) words.set("item", item);
    if (view) words.set("view", view);
    for (const [name, { query, statuses, sort }] of place.tables) {
      if (query) words.set(`q.${name}`, query);
      if (statuses.length) words.set(`s.${name}`, statuses.join(","));
      if (sort) words.set(`o.${name}`, (sort.column + 1) * (sort.down ? -1 : 1));
    }
    return `#${words}`;
  }

  /** A link to a place on this page, which a browser does not take for one to a part of it. */
  const linkTo = (item, view) => location.pathname + location.search + hashOf(item, view);

  /** Write the place into the address; what is opened can be gone back from, what is moved over cannot. */
  function keepHash(pushed = false) {
    const hash = hashOf(place.item, place.view);
    if (hash === (location.hash || "#")) return;
    history[pushed ? "pushState" : "replaceState"](null, "", hash);
    for (const link of document.querySelectorAll("nav a")) link.href = linkTo(place.item, link.dataset.view);
  }

  const newSight = () => ({ query: "", statuses: [], sort: null, folded: new Set(), item: "" });

  /** How a table is looked at: what is searched for in it, sorted, folded, and where one stands. */
  function sightOf(name) {
    if (!place.tables.has(name)) place.tables.set(name, newSight());
    return place.tables.get(name);
  }

  // --- Blocks.

  const BLOCKS = { text: drawText, table: drawTable, picture: drawPicture, heat: drawHeat, code: drawCode };
  const WIDE = 80; // letters beside each other, from which on a table takes the whole width

  /** A card with the block; what goes wrong in one is said in it, and hinders no other. */
  function drawBlock(block, scope) {
    const heading = node("h2", { id: `${scope}-${block.name}` }, block.title);
    const head = node("header", {}, heading);
    const card = node(
      scope === "of" ? "section" : "div",
      {
        role: scope === "of" ? null : "group",
        class: `card ${block.is}${isWide(block) ? " wide" : ""}`,
        "aria-labelledby": heading.id,
        "data-block": block.name,
      },
      head,
    );
    if (block.sentence) card.append(node("p", { class: "sentence" }, block.sentence));
    try {
      card.append(BLOCKS[block.is](block, scope, head));
    } catch (error) {
      card.append(node("p", { class: "wrong", role: "alert" }, `This cannot be drawn: ${error.message}`));
      reportError(error);
    }
    if (scope === "of") {
      drawn.set(block.name, block);
      const [view, sign, words] = place.view === block.name ? ["", "⤡", "all blocks"] : [block.name, "⤢", `${block.title} alone`];
      const link = { class: "grow", href: linkTo(place.item, view), "data-view": view };
      head.append(node("a", link, mute(sign), hidden(words)));
    }
    return card;
  }

  function isWide(block) {
    if (block.is === "heat") return block.columns.length > ROOMY;
    if (block.is === "code") return true;
    if (block.is !== "table") return false;
    const lengths = longestCells(block);
    const columns = block.columns.map(({ title }, at) => Math.min(56, Math.max(title.length, lengths[at]) + 3));
    return block.rows.some((row) => row.depth) || columns.reduce((sum, each) => sum + each, 0) > WIDE;
  }

  const lengthsOf = new WeakMap(); // by the rows of a table, which are never changed

  /** The letters of the longest cell of each column. */
  function longestCells({ columns, rows }) {
    if (!lengthsOf.has(rows)) {
      const longest = (at) => rows.reduce((most, { cells }) => Math.max(most, (cells[at] || "").length), 0);
      lengthsOf.set(rows, columns.map((_, at) => longest(at)));
    }
    return lengthsOf.get(rows);
  }

  const BROKEN = /(\S[^\n]{70,})\n(?=[a-z(])/g; // a line that was long, and goes on within a sentence

  function drawText(block) {
    const paragraphs = block.text.replace(BROKEN, "$1 ").split(/\n{2,}/);
    return node("div", { class: "prose" }, paragraphs.map((each) => node("p", {}, each)));
  }

  function itemLink(item, words, more = {}) {
    return node("a", { href: linkTo(item, place.view), "data-item": item, ...more }, words);
  }

  function statusChip(status) {
    if (!status) return "";
    return node("span", { class: `status ${status}` }, mute(SIGNS[status] || "?"), ` ${status}`);
  }

  /** What stands behind a title: the unit, and which direction is better. */
  function unitNote({ unit, better }) {
    const [arrow, words] = [{ higher: "↑", lower: "↓" }[better], `${better} is better`];
    return [
      unit && node("span", { class: "unit" }, ` ${unit}`),
      arrow && node("span", { class: "better", title: words }, ` ${arrow}`, hidden(` ${words}`)),
    ];
  }

  // Elements and attributes of pictures; all else is left out, whoever drew them.
  const SVG = "http://www.w3.org/2000/svg";
  const DRAWN = new Set("svg g path line polyline polygon rect circle ellipse text tspan title desc defs marker".split(" "));
  const LOOKS = new Set(
    ("viewBox role aria-label class d x y x1 y1 x2 y2 cx cy r rx ry width height points transform text-anchor " +
      "stroke-dasharray data-item preserveAspectRatio id refX refY markerWidth markerHeight orient").split(" "),
  );
  const TIPS = /^marker-(start|end)$/; // of an arrow, which stand in the picture itself

  /** Take out of a picture, before it is part of the page, whatever pictures of ours do not have. */
  function sift(element) {
    for (const name of element.getAttributeNames()) {
      const isTip = TIPS.test(name) && element.getAttribute(name) === "url(#tip)";
      if (!LOOKS.has(name) && !isTip) element.removeAttribute(name);
    }
    for (const child of [...element.childNodes]) {
      if (child.nodeType === Node.TEXT_NODE) child.data = visible(child.data);
      else if (child.namespaceURI === SVG && DRAWN.has(child.localName)) sift(child);
      else child.remove();
    }
  }

  function drawPicture(block) {
    const picture = new DOMParser().parseFromString(block.svg, "text/html").querySelector("svg");
    if (!picture) return node("p", { class: "empty" }, "There is no picture.");
    sift(picture);
    picture.addEventListener("click", (event) => {
      const mark = event.target.closest("[data-item]");
      if (mark) open(mark.dataset.item);
    });
    markItem(picture);
    const told = node("p", { class: "note told", hidden: true });
    if (picture.querySelector("[data-item]")) walkMarks(picture, told);
    // boxes with names are drawn in the size of their letters, and scrolled where there is no room
    if (picture.classList.contains("graph")) picture.style.width = `${picture.viewBox.baseVal.width}px`;
    const box = picture.classList.contains("graph") ? scrollBox(block.title, picture) : picture;
    return node("div", { class: "drawing" }, box, told);
  }

  /** Let the keyboard come to the marks of a picture, one after the other, and say which one that is. */
  function walkMarks(picture, told) {
    const marks = [...picture.querySelectorAll("[data-item]")];
    picture.setAttribute("role", "group");
    marks.forEach((mark, at) => {
      mark.setAttribute("tabindex", at ? "-1" : "0");
      mark.setAttribute("role", "link");
      mark.setAttribute("aria-label", mark.querySelector("title")?.textContent || mark.dataset.item);
    });
    const tell = (event) => {
      const mark = event.target.closest("[data-item]");
      if (!mark) return;
      told.hidden = false;
      told.textContent = mark.getAttribute("aria-label");
    };
    picture.addEventListener("pointerover", tell);
    picture.addEventListener("focusin", tell);
    picture.addEventListener("keydown", (event) => {
      const at = marks.indexOf(event.target);
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (at >= 0 && by) {
        const next = marks[Math.max(0, Math.min(marks.length - 1, at + by))];
        marks[at].setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus();
      } else if (at >= 0 && (event.key === "Enter" || event.key === " ")) open(marks[at].dataset.item);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** Let the marks of the open item stand out. */
  function markItem(within) {
    for (const mark of within.querySelectorAll("svg [data-item].open")) mark.classList.remove("open");
    const opened = `svg [data-item="${CSS.escape(place.item)}"]`;
    for (const mark of within.querySelectorAll(opened)) mark.classList.add("open");
  }

  const MOST_CELLS = 4000; // of a heat map at first
  const ROOMY = 12; // columns beside which a number has its place in the cell

  function drawHeat(block) {
    const values = block.rows.flatMap((row) => row.values).filter(Number.isFinite);
    const [paint, words] = [heatPaint(values, block), heatFormat(values, block)];
    const labels = briefLabels(block.rows.map((row) => row.title));
    const body = node("tbody");
    const rows = Math.max(10, Math.floor(MOST_CELLS / Math.max(1, block.columns.length)));
    const more = () => {
      const from = body.rows.length;
      for (const [at, row] of block.rows.slice(from, from + rows).entries()) {
        const label = labels.brief[from + at];
        const name = row.item ? itemLink(row.item, label) : label;
        const cell = (value) => (Number.isFinite(value) ? heatCell(paint(value), words(value), block) : missingCell());
        body.append(node("tr", {}, node("th", { scope: "row", title: row.title }, name), row.values.map(cell)));
      }
      rest.hidden = body.rows.length >= block.rows.length;
      rest.textContent = `${body.rows.length} of ${plural(block.rows.length, "row")}; show more`;
    };
    const rest = button("", more, { class: "more" });
    more();
    const corner = node("td", {}, labels.same, unitNote(block));
    const titles = block.columns.map((name) => node("th", { scope: "col" }, name));
    const head = node("thead", {}, node("tr", {}, corner, titles));
    const table = node("table", { class: block.columns.length > ROOMY ? "heat small" : "heat" }, head, body);
    const told = node("p", { class: "note told", "aria-hidden": "true" });
    walkCells(table, block, told);
    return node("div", {}, scrollBox(block.title, table), told, rest, heatLegend(values, words, block));
  }

  /** Labels without the words that all of them have at the same place; `same`: those words. */
  function briefLabels(titles) {
    const words = titles.map((title) => visible(title).match(/[^\s,;:={}"']+/g) || []);
    const isAlike = titles.length > 1 && words.every((each) => each.length === words[0].length);
    const differs = (isAlike ? words[0] : []).map((word, at) => words.some((each) => each[at] !== word));
    if (!differs.includes(true) || !differs.includes(false)) return { brief: titles, same: "" };
    const brief = words.map((each) => each.filter((_, at) => differs[at]).join(" · "));
    return { brief, same: words[0].filter((_, at) => !differs[at]).join(" · ") };
  }

  /** Say of the cell that is pointed to, or that the arrow keys have come to, where it is and its number. */
  function walkCells(table, block, told) {
    const cellOf = (event) => event.target.closest("tbody td");
    const tell = (event) => {
      const cell = cellOf(event);
      if (!cell) return;
      const [row, column] = [cell.parentElement.rowIndex - 1, cell.cellIndex - 1];
      told.textContent = visible(`${block.rows[row].title}, ${block.columns[column]}: ${cell.title}`);
    };
    table.addEventListener("pointerover", tell);
    table.addEventListener("focusin", tell);
    table.tBodies[0].rows[0]?.cells[1]?.setAttribute("tabindex", "0");
    table.addEventListener("keydown", (event) => {
      const cell = cellOf(event);
      const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] || [];
      if (!cell || down === undefined) return;
      const next = table.rows[cell.parentElement.rowIndex + down]?.cells[cell.cellIndex + right];
      event.preventDefault();
      event.stopPropagation();
      if (next?.tagName !== "TD" || next.closest("thead")) return;
      cell.removeAttribute("tabindex");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  }

  /** Numbers of one heat map: as many decimals as three digits of the largest need; signs where there is a centre. */
  function heatFormat(values, { centre }) {
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const digits = 2 - Math.floor(Math.log10(largest || 1));
    const sign = Number.isFinite(centre) ? (value) => (value > 0 ? "+" : "") : () => "";
    if (digits > 6 || digits < -3) return (value) => sign(value) + value.toExponential(1);
    const fixed = (value) => value.toFixed(Math.max(0, digits)).replace(/^-(?=[0.]*$)/, "");
    return (value) => (value === 0 ? "0" : sign(value) + fixed(value));
  }

  /** How far a number is from the centre, -1 the worst to 1 the best; without a centre, 0 the lowest to 1. */
  function heatPaint(values, { centre, better }) {
    const low = values.reduce((a, b) => Math.min(a, b), Infinity);
    const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    if (centre === null || centre === undefined) return (value) => (high > low ? (value - low) / (high - low) : 0);
    const far = Math.max(Math.abs(high - centre), Math.abs(low - centre)) || 1;
    return (value) => ((value - centre) / far) * (better === "lower" ? -1 : 1);
  }

  function missingCell() {
    return node("td", { class: "missing", title: "not measured" }, mute(BLANK), hidden("not measured"));
  }

  function heatCell(part, whole, block) {
    const brief = part > 0 ? "+" : part < 0 ? "−" : "0";
    const words = block.columns.length > ROOMY ? [mute(brief), hidden(whole)] : whole;
    const cell = node("td", { class: part < 0 ? "worse" : "good", title: `${whole} ${block.unit}`.trim() }, words);
    cell.style.setProperty("--part", `${Math.round(Math.min(1, Math.abs(part)) * 58)}%`);
    return cell;
  }

  function heatLegend(values, words, { centre, better, unit }) {
    if (!values.length) return node("p", { class: "legend" }, "Nothing of it was measured.");
    const ends = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))].map(words);
    const sides = Number.isFinite(centre) && [
      node("span", { class: "sample worse" }), better ? ` worse than ${centre} ` : ` below ${centre} `,
      node("span", { class: "sample good" }), better ? ` better (${better} is) ` : " above ",
    ];
    const missing = [node("span", { class: "sample missing" }), " not measured "];
    return node("p", { class: "legend" }, sides || "", missing, `· ${ends[0]} to ${ends[1]} ${unit}`);
  }

  const MOST_LINES = 400; // of a code at first

  function drawCode(block, scope, head) {
    // a line that was overwritten again and again is shown as it was at last
    const lines = block.text.split("\n").map((line) => line.replace(/\r+$/, "").split("\r").pop());
    const text = node("code");
    const shown = { lines: 0, old: 0, new: 0 };
    const more = () => {
      const part = lines.slice(shown.lines, shown.lines + (shown.lines ? 5000 : MOST_LINES));
      text.append(...part.map(block.look === "diff" ? (line) => diffLine(line, shown) : (line) => node("span", {}, `${line}\n`)));
      shown.lines += part.length;
      rest.hidden = shown.lines >= lines.length;
      rest.textContent = `${shown.lines} of ${plural(lines.length, "line")}; show more`;
    };
    const rest = button("", more, { class: "more" });
    more();
    head.append(copyButton(() => block.text, `Copy ${block.title}`));
    if (data.live && block.look === "log" && block.path) head.append(followButton(block.path, text));
    const left = block.left_out ? `${plural(block.left_out, "byte")} left out` : "";
    const where = block.path ? node("code", {}, block.path) : "";
    const note = left || where ? node("p", { class: "note" }, left, left && where ? "; all of it: " : "", where) : "";
    const box = node("pre", { class: block.look, tabindex: "0", role: "group", "aria-label": block.title }, text);
    return node("div", {}, box, rest, note);
  }

  /** A line of a diff with its numbers on both sides; its sign is part of its text. */
  function diffLine(line, at) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) [at.old, at.new] = [Number(hunk[1]), Number(hunk[2])];
    const isHead = /^(diff |index |--- |\+\+\+ |new file|deleted file|similarity|rename )/.test(line);
    if (/^diff /.test(line)) [at.old, at.new] = [0, 0];
    const look = hunk ? "hunk" : isHead ? "head" : { "+": "add", "-": "del" }[line[0]] || "";
    const [old, other] = [look !== "add" && at.old ? at.old : "", look !== "del" && at.new ? at.new : ""];
    const counted = (look === "" || look === "add" || look === "del") && (at.old || at.new);
    if (counted && look !== "add") at.old += 1;
    if (counted && look !== "del") at.new += 1;
    return node("span", { class: look, "data-old": counted ? old : "", "data-new": counted ? other : "" }, `${line}\n`);
  }

  /** A button that copies what `text` gives when it is pressed. */
  function copyButton(text, label) {
    const press = async (event) => {
      const pressed = event.currentTarget;
      const copied = navigator.clipboard.writeText(visible(text()));
      pressed.textContent = await copied.then(() => "copied", () => "not allowed");
      say(pressed.textContent);
      setTimeout(() => (pressed.textContent = "copy"), 1500);
    };
    return quiet("copy", press, label);
  }

  /** A box that scrolls what is too wide for it, by keyboard too. */
  function scrollBox(title, inside) {
    return node("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, inside);
  }

  // --- Tables: of long ones only what is in view stands in the page.

  const MOST_ROWS = 200; // of a table that stands there whole
  const BEYOND = 6; // rows above and below what is in view
  const MOST_PRINTED = 1000;
  const SENTENCE = 24; // letters, from which on a cell may take several lines
  const NARROW = 720; // pixels, below which the cells of a row stand below each other

  function drawTable(block, scope, head) {
    if (!block.rows.length) return node("p", { class: "empty" }, "Nothing yet.");
    const table = new Table(block, scope);
    if (scope === "of") tables.set(block.name, table);
    head.append(table.count);
    return node("div", {}, table.tools, table.box, table.none, table.cut);
  }

  class Table {
    constructor(block, scope) {
      this.scope = scope;
      this.sight = scope === "of" ? sightOf(block.name) : newSight();
      this.count = node("span", { class: "count" });
      this.none = node("p", { class: "empty", hidden: true }, "No row is like that.");
      this.cut = node("p", { class: "note", hidden: true });
      this.body = node("tbody");
      this.fresh = new Set();
      this.spaces = [0, 1].map(() => node("tr", { class: "space", "aria-hidden": "true" }));
      this.take(block);
      const hasItems = block.rows.some((row) => row.item);
      const role = this.isTree ? "treegrid" : hasItems ? "grid" : null;
      this.head = node("thead");
      const parts = [this.columnWidths(), this.head, this.body];
      this.table = node("table", { role, "aria-labelledby": `${scope}-${block.name}` }, parts);
      this.setLooks();
      const box = () => node("div", { class: "scroll rows", tabindex: "-1" }, this.table);
      this.box = hasItems ? box() : scrollBox(block.title, this.table);
      this.tools = this.makeTools();
      this.drawHead();
      this.box.addEventListener("scroll", () => this.queue(), { passive: true });
      this.body.addEventListener("click", (event) => this.pressed(event));
      this.body.addEventListener("focusin", (event) => this.focused(event));
      new ResizeObserver(() => this.fit()).observe(this.box);
      this.arrange();
    }

    /** Take the rows of the block, which may be a later one than before. */
    take(block) {
      const before = this.block && new Set(this.block.rows);
      const isFresh = (row) => before && row.item && !before.has(row);
      this.fresh = new Set(block.rows.filter(isFresh).map((row) => row.item));
      this.block = block;
      this.isTree = block.rows.some((row) => row.depth);
      this.isLong = block.rows.length > MOST_ROWS;
      this.hasStatus = block.rows.some((row) => row.status);
      const lengths = longestCells(block);
      // columns of sentences, which may take several lines; all else stands in one
      this.isProse = block.columns.map(({ is_number }, at) => at > 0 && !is_number && lengths[at] > SENTENCE);
      const open = []; // the last row of each depth
      this.parents = block.rows.map((row, at) => {
        open.length = Math.min(open.length, row.depth);
        const parent = open.length ? open[open.length - 1] : -1;
        while (open.length < row.depth) open.push(parent);
        open.push(at);
        return parent;
      });
      this.isParent = new Set(this.parents);
      this.texts = null; // for searching, made when it is needed
    }

    update(block) {
      this.take(block);
      this.table.querySelector("colgroup").replaceWith(this.columnWidths());
      this.setLooks();
      this.drawChips();
      this.arrange();
    }

    setLooks() {
      this.table.classList.toggle("long", this.isLong);
      const isTall = this.isLong && this.isProse.some(Boolean);
      this.table.classList.toggle("tall", isTall);
      this.table.style.minWidth = isTall && !this.isNarrow ? `${this.least}ch` : "";
      this.table.classList.toggle("narrow", Boolean(this.isNarrow));
      this.table.classList.toggle("brief", this.scope === "of");
    }

    /** Stack the cells of a row where there is no room for them beside each other. */
    fit() {
      const width = this.box.clientWidth;
      const columns = this.block.columns.length + this.hasStatus;
      if (!this.isNarrow) this.needed = this.table.offsetWidth;
      const hasRoom = width >= Math.min(NARROW, 110 * columns) && (width >= NARROW || this.needed <= width);
      const isNarrow = Boolean(width) && columns > 2 && !hasRoom && !this.isPrinted;
      if (isNarrow === Boolean(this.isNarrow)) return this.queue();
      this.isNarrow = isNarrow;
      this.setLooks();
      this.drawRows(true);
      if (this.scope === "of" && place.item) showOpenRow();
      return undefined;
    }

    // - What is shown, in which order.

    arrange() {
      const { rows } = this.block;
      const { query, statuses, sort, folded } = this.sight;
      const isSifted = Boolean(query || statuses.length);
      const fits = isSifted ? this.siftRows(query, statuses) : null;
      this.context = new Set();
      for (let at = rows.length - 1; fits && at >= 0; at -= 1) {
        const parent = this.parents[at];
        if ((fits.has(at) || this.context.has(at)) && parent >= 0 && !fits.has(parent)) this.context.add(parent);
      }
      const order = sort ? this.sortedRows(sort) : rows.map((_, at) => at);
      const closed = new Set();
      this.shown = order.filter((at) => {
        const parent = this.parents[at];
        if (!isSifted && (closed.has(parent) || (parent >= 0 && folded.has(this.keyOf(parent))))) closed.add(at);
        return !closed.has(at) && (!fits || fits.has(at) || this.context.has(at));
      });
      this.places = new Map(this.shown.map((at, position) => [at, position]));
      const found = fits ? fits.size : rows.length;
      this.count.textContent = `${fits ? `${found.toLocaleString("en")} of ` : ""}${plural(rows.length, "row")}`;
      this.none.hidden = this.shown.length > 0;
      this.table.setAttribute("aria-rowcount", this.shown.length + 1);
      this.drawRows(true);
    }

    siftRows(query, statuses) {
      this.texts ??= this.block.rows.map((row) => `${row.item}\n${row.status}\n${row.cells.join("\n")}`.toLowerCase());
      const words = query.toLowerCase().split(/\s+/).filter(Boolean);
      const all = this.block.rows.map((_, at) => at);
      return new Set(
        all.filter((at) => {
          const { status } = this.block.rows[at];
          const isAsked = !statuses.length || statuses.includes(status);
          return isAsked && words.every((word) => this.texts[at].includes(word));
        }),
      );
    }

    /** All rows, sorted among those of the same parent; what is missing stands last, whichever way. */
    sortedRows({ column, down }) {
      const isNumber = this.block.columns[column]?.is_number;
      const texts = this.block.rows.map((row) => row.cells[column] || "");
      const keys = isNumber ? texts.map(numberOf) : texts;
      const sign = down ? -1 : 1;
      const compare = (a, b) => {
        if (!isNumber) return sign * keys[a].localeCompare(keys[b], "en", { numeric: true }) || a - b;
        const [x, y] = [keys[a], keys[b]];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
        return sign * (x - y) || a - b;
      };
      const children = new Map();
      this.parents.forEach((parent, at) => {
        if (children.has(parent)) children.get(parent).push(at);
        else children.set(parent, [at]);
      });
      if (children.size === 1) return this.parents.map((_, at) => at).sort(compare);
      const order = [];
      const walk = [...(children.get(-1) || [])].sort(compare).reverse();
      while (walk.length) {
        const at = walk.pop();
        order.push(at);
        if (children.has(at)) walk.push(...children.get(at).sort(compare).reverse());
      }
      return order;
    }

    // - Drawing.

    columnWidths() {
      const group = node("colgroup");
      if (!this.isLong) return group;
      const { columns, rows } = this.block;
      const lengths = longestCells(this.block);
      const deepest = rows.reduce((most, row) => Math.max(most, row.depth), 0);
      const widths = columns.map(({ title, unit }, column) => {
        const most = Math.max(title.length + unit.length + 4, lengths[column]);
        const indent = column ? 0 : 5 + deepest * 1.6;
        return this.isProse[column] ? 0 : Math.min(32, most + 3) + indent;
      });
      if (this.hasStatus) widths.splice(1, 0, 13);
      for (const width of widths) {
        const column = node("col");
        if (width) column.style.width = `${width}ch`; // those of sentences share what is left
        group.append(column);
      }
      this.least = widths.reduce((sum, width) => sum + (width || 24), 0);
      return group;
    }

    drawHead() {
      const { sort } = this.sight;
      const cells = this.block.columns.map((column, at) => {
        const isSorted = sort && sort.column === at;
        const isDown = isSorted && sort.down;
        // the better ones first, then the worse ones, then as it was
        const first = column.better === "higher";
        const next = !isSorted ? { column: at, down: first } : isDown === first ? { column: at, down: !first } : null;
        const arrow = mute(isSorted ? (isDown ? "▾" : "▴") : "", { class: "arrow" });
        const words = [node("span", {}, column.title, unitNote(column)), arrow];
        const more = { class: "sort", title: `sort by ${column.title}` };
        const order = isSorted ? (isDown ? "descending" : "ascending") : null;
        const look = { scope: "col", class: column.is_number ? "number" : null, "aria-sort": order };
        return node("th", look, button(words, () => this.look({ sort: next }), more));
      });
      if (this.hasStatus) cells.splice(1, 0, node("th", { scope: "col" }, "status"));
      this.head.replaceChildren(node("tr", {}, cells));
    }

    queue() {
      if (!this.isLong || this.isQueued) return;
      this.isQueued = true;
      requestAnimationFrame(() => {
        this.isQueued = false;
        this.drawRows(false);
      });
    }

    /** Draw the rows that are in view, of a short table all; those that stand there stay, unless `all` are others. */
    drawRows(all) {
      const [from, to] = this.rowsInView();
      if (!all && from === this.from && to === this.to) return;
      const hadFocus = this.body.contains(document.activeElement);
      this.start = Math.max(0, this.cursor); // where the tab key comes to
      const draw = (first, end) => this.shown.slice(first, end).map((at, place) => this.drawRow(at, first + place));
      if (all || to <= this.from || from >= this.to) {
        this.body.replaceChildren(this.spaces[0], ...draw(from, to), this.spaces[1]);
      } else {
        for (let place = this.from; place < from; place += 1) this.spaces[0].nextSibling.remove();
        for (let place = this.to; place > to; place -= 1) this.spaces[1].previousSibling.remove();
        this.spaces[0].after(...draw(from, this.from));
        this.spaces[1].before(...draw(this.to, to));
      }
      [this.from, this.to] = [from, to];
      this.spaces[0].style.height = `${from * this.rowHeight}px`;
      this.spaces[1].style.height = `${this.isPrinted ? 0 : (this.shown.length - to) * this.rowHeight}px`;
      this.spaces[0].hidden = !from;
      this.spaces[1].hidden = this.isPrinted || to >= this.shown.length;
      const isLost = hadFocus && !this.body.contains(document.activeElement);
      if (isLost) (this.rowElement(this.sight.item) || this.box).focus({ preventScroll: true });
    }

    /** The first row to draw, and the one after the last. */
    rowsInView() {
      const count = this.shown.length;
      if (this.isPrinted) return [0, Math.min(count, MOST_PRINTED)];
      if (!this.isLong) return [0, count];
      const { scrollTop, clientHeight } = this.box;
      const first = Math.floor(scrollTop / this.rowHeight) - BEYOND;
      const end = Math.ceil((scrollTop + (clientHeight || 700)) / this.rowHeight) + BEYOND;
      return [Math.max(0, Math.min(first, count - 1)), Math.min(count, end)];
    }

    get rowHeight() {
      return !this.isLong ? 29 : this.isNarrow ? 88 : this.isProse.some(Boolean) ? 46 : 28;
    }

    keyOf(at) {
      return this.block.rows[at].item || `${at}`;
    }

    drawRow(at, position) {
      const row = this.block.rows[at];
      const [first, ...others] = row.cells;
      const key = this.keyOf(at);
      const isOpen = row.item && row.item === place.item;
      const cells = others.map((cell, other) => this.drawCell(cell, other + 1));
      if (this.hasStatus) cells.unshift(node("td", { class: "state" }, statusChip(row.status)));
      const isFolded = this.sight.folded.has(key);
      const hasChildren = this.isTree && this.isParent.has(at);
      const fold = this.isTree && mute(hasChildren ? (isFolded ? "▸" : "▾") : "", { class: "fold" });
      const name = row.item ? itemLink(row.item, first, { tabindex: "-1" }) : node("span", {}, first);
      const look = this.block.columns[0]?.is_number ? "first number" : "first";
      const start = node("td", { class: look, title: this.isLong ? first : null }, fold, name);
      if (row.depth) start.style.paddingInlineStart = `${row.depth * 1.1 + 0.5}em`;
      const classes = [this.context.has(at) && "context", isOpen && "open", this.fresh.has(row.item) && "fresh"];
      const hasRole = this.table.hasAttribute("role");
      return node(
        "tr",
        {
          class: classes.filter(Boolean).join(" ") || null,
          "data-key": key,
          "data-at": at,
          tabindex: hasRole ? (position === this.start ? "0" : "-1") : null,
          "aria-rowindex": this.isLong ? position + 2 : null,
          "aria-level": this.isTree ? row.depth + 1 : null,
          "aria-expanded": hasChildren ? `${!isFolded}` : null,
          "aria-selected": hasRole && row.item ? `${Boolean(isOpen)}` : null,
        },
        start,
        cells,
      );
    }

    drawCell(cell, column) {
      const isMissing = cell === BLANK || cell === "";
      const isSince = this.block.columns[column]?.is_since && !isMissing;
      if (isSince) return node("td", { class: "number", "data-since": cell }, sinceText(Number(cell)));
      const classes = [this.block.columns[column]?.is_number && "number", isMissing && "missing-text"];
      const isProse = this.isProse[column];
      const title = isProse || (this.isLong && cell.length > 20) ? cell : null;
      const look = [...classes, isProse && "words"].filter(Boolean).join(" ") || null;
      const of = this.block.columns[column]?.title;
      return node("td", { class: look, title, "data-title": of }, isProse ? node("div", {}, cell) : cell);
    }

    rowElement(key) {
      return [...this.body.rows].find((row) => row.dataset.key === key);
    }

    // - Tools above it.

    makeTools() {
      const tools = node("div", { class: "tools" });
      if (this.scope !== "of" || (this.block.rows.length < 8 && !this.hasStatus)) return tools;
      const { title } = this.block;
      this.search = node("input", {
        type: "search", placeholder: "filter", "aria-label": `Filter ${title}`, value: this.sight.query,
        input: () => this.look({ query: this.search.value }),
      });
      this.chips = node("span", { class: "chips", role: "group", "aria-label": `Statuses of ${title}` });
      tools.append(this.search, this.chips);
      if (this.isTree) {
        tools.append(quiet("fold", () => this.foldAll(true), `Fold ${title}`));
        tools.append(quiet("unfold", () => this.foldAll(false), `Unfold ${title}`));
      }
      this.drawChips();
      return tools;
    }

    drawChips() {
      if (!this.chips) return;
      const counts = new Map();
      const isCounted = this.block.rows.some((row) => row.item) ? (row) => row.item : () => true; // not sums of others
      for (const row of this.block.rows.filter(isCounted)) {
        if (row.status) counts.set(row.status, (counts.get(row.status) || 0) + 1);
      }
      const chosen = this.sight.statuses;
      const chips = Object.keys(SIGNS).filter((word) => counts.has(word)).map((word) => {
        const flip = () => {
          this.look({ statuses: chosen.includes(word) ? chosen.filter((each) => each !== word) : [...chosen, word] });
        };
        const more = { class: "chip", "aria-pressed": `${chosen.includes(word)}`, "data-status": word };
        return button([statusChip(word), ` ${counts.get(word)}`], flip, more);
      });
      keepFocus(this.chips, () => this.chips.replaceChildren(...chips));
    }

    /** Look at it in another way; the address says how. */
    look(change) {
      Object.assign(this.sight, change);
      keepHash();
      if (!("sort" in change)) this.box.scrollTop = 0;
      this.followSight();
      say(this.count.textContent);
    }

    /** Draw it as it is looked at now, whoever changed that. */
    followSight() {
      if (this.search && this.search.value !== this.sight.query) this.search.value = this.sight.query;
      keepFocus(this.head, () => this.drawHead());
      this.drawChips();
      this.arrange();
    }

    foldAll(isFolded) {
      const parents = [...this.isParent].filter((at) => at >= 0);
      this.sight.folded = new Set(isFolded ? parents.map((at) => this.keyOf(at)) : []);
      this.arrange();
    }

    fold(at, isFolded) {
      const key = this.keyOf(at);
      if (!this.isParent.has(at) || this.sight.folded.has(key) === isFolded) return false;
      this.sight.folded[isFolded ? "add" : "delete"](key);
      this.arrange();
      return true;
    }

    // - Moving in it.

    pressed(event) {
      const row = event.target.closest("tr[data-at]");
      if (!row || getSelection().toString()) return;
      const at = Number(row.dataset.at);
      if (event.target.closest(".fold") && this.isParent.has(at)) {
        this.fold(at, !this.sight.folded.has(this.keyOf(at)));
      } else if (!event.target.closest("a") && row.dataset.key === this.block.rows[at].item) open(row.dataset.key);
    }

    focused(event) {
      const row = event.target.closest("tr[data-key]");
      if (!row || this.scope !== "of") return;
      active = this.block.name;
      if (row.dataset.key === this.sight.item && row.tabIndex === 0) return;
      this.body.querySelector('tr[tabindex="0"]')?.setAttribute("tabindex", "-1");
      row.tabIndex = 0;
      this.sight.item = row.dataset.key;
    }

    /** The position of the cursor among the rows shown, or -1. */
    get cursor() {
      return this.sight.item ? this.shown.findIndex((at) => this.keyOf(at) === this.sight.item) : -1;
    }

    /** Go to a position among the rows shown; the item that is there, if it is one. */
    go(position, focus = true) {
      const at = this.shown[Math.max(0, Math.min(this.shown.length - 1, position))];
      if (at === undefined) return "";
      this.sight.item = this.keyOf(at);
      this.reveal(this.places.get(at));
      const row = this.rowElement(this.sight.item);
      this.body.querySelector('tr[tabindex="0"]')?.setAttribute("tabindex", "-1");
      row?.setAttribute("tabindex", "0");
      if (focus) row?.focus({ preventScroll: true });
      if (focus) row?.scrollIntoView({ block: "nearest" });
      return this.block.rows[at].item;
    }

    /** Scroll the table, and nothing around it, to a row. */
    reveal(position) {
      const row = this.isLong ? null : this.body.querySelectorAll("tr[data-at]")[position];
      const above = this.isLong ? position * this.rowHeight : row.offsetTop - this.head.offsetHeight;
      const below = above + (row ? row.offsetHeight : this.rowHeight) + this.head.offsetHeight - this.box.clientHeight;
      if (this.box.scrollTop > above) this.box.scrollTop = above;
      else if (this.box.scrollTop < below) this.box.scrollTop = below;
      this.drawRows(false);
    }

    markOpen() {
      for (const row of this.body.rows) {
        const isOpen = Boolean(row.dataset.key) && row.dataset.key === place.item;
        row.classList.toggle("open", isOpen);
        if (row.hasAttribute("aria-selected")) row.setAttribute("aria-selected", `${isOpen}`);
      }
    }

    print(isPrinted) {
      this.isPrinted = isPrinted;
      this.cut.hidden = !isPrinted || this.shown.length <= MOST_PRINTED;
      this.cut.textContent = `The first ${MOST_PRINTED} of ${plural(this.shown.length, "row")} are printed.`;
      this.fit();
      this.drawRows(true);
    }
  }

  /** The number that a cell is sorted by: of `a -> b` the latter, of a duration its seconds. */
  function numberOf(cell) {
    const text = cell.split("->").pop().replaceAll(",", "").replaceAll("−", "-");
    const [, hours = 0, minutes, seconds = 0] = /^\s*(?:(\d+) h )?(\d+) min(?: (\d+) s)?/.exec(text) || [];
    if (minutes) return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
    const found = /[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?/i.exec(text);
    return found ? Number(found[0]) : NaN;
  }

  // --- Drawer: details of one item.

  /** The row that tells of an item, with its table. */
  function rowOf(item) {
    for (const block of run.projection.blocks) {
      const row = block.is === "table" && block.rows.find((each) => each.item === item);
      if (row) return { block, row };
    }
    return null;
  }

  function open(item, pushed = true) {
    const isNew = place.item !== item;
    place.item = item;
    keepHash(pushed);
    for (const table of tables.values()) table.markOpen();
    markItem(document);
    if (isNew || byId("drawer").hidden) drawDrawer(true);
    else byId("drawer").focus();
    requestAnimationFrame(showOpenRow); // once the page has made room for the drawer
  }

  /** Bring the row of the open item into view, and let the cursor stand on it. */
  function showOpenRow() {
    const has = (table) => table?.shown.some((at) => table.block.rows[at].item === place.item);
    const table = [activeTable(), ...tables.values()].find(has);
    if (!table || !place.item) return;
    table.go(table.shown.findIndex((at) => table.block.rows[at].item === place.item), false);
    table.rowElement(place.item)?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    const drawer = byId("drawer");
    const hadFocus = drawer.contains(document.activeElement);
    place.item = "";
    keepHash(true);
    drawer.hidden = true;
    document.documentElement.classList.remove("drawn");
    for (const table of tables.values()) table.markOpen();
    markItem(document);
    const table = activeTable();
    if (hadFocus && table) table.go(Math.max(0, table.cursor));
  }

  async function drawDrawer(focus) {
    const [item, drawer] = [place.item, byId("drawer")];
    const found = rowOf(item);
    const facts = node("dl", { class: "facts" });
    found?.block.columns.forEach((column, at) => {
      const cell = found.row.cells[at];
      const title = node("dt", {}, column.title, unitNote(column));
      const words = column.is_since && cell !== BLANK ? sinceText(Number(cell)) : cell;
      if (at && cell) facts.append(node("div", {}, title, node("dd", {}, words)));
    });
    const body = node("div", { class: "blocks", "aria-busy": "true" });
    const heading = node("h2", { id: "drawer-title" }, found ? found.row.cells[0] : item);
    const tools = [
      quiet("↑", () => moveOpen(-1), "Previous item"), quiet("↓", () => moveOpen(1), "Next item"),
      copyButton(() => location.href, "Copy a link to this"), quiet("close", close),
    ];
    const bar = node("header", {}, heading, statusChip(found?.row.status), fill(), tools);
    const scrolled = drawer.dataset.item === item ? drawer.scrollTop : 0;
    drawer.dataset.item = item;
    const hadFocus = drawer.contains(document.activeElement);
    drawer.replaceChildren(bar, facts, body);
    drawer.hidden = false;
    document.documentElement.classList.add("drawn");
    if (focus || hadFocus) drawer.focus({ preventScroll: true });
    say(`${item}${found?.row.status ? `, ${found.row.status}` : ""}`);
    const drawn = await detailBlocks(item, found);
    if (place.item !== item) return; // another one was opened meanwhile
    body.replaceChildren(...drawn);
    body.removeAttribute("aria-busy");
    drawer.scrollTop = scrolled;
  }

  /** What the drawer says of an item: its blocks, or why there are none. */
  async function detailBlocks(item, found) {
    const words = (text) => [node("p", { class: "empty" }, text)];
    let blocks;
    try {
      blocks = await detailsOf(item);
    } catch (error) {
      return words(`The details cannot be had: ${error.message}`);
    }
    if (blocks?.length) return blocks.map((block) => drawBlock(block, "in"));
    if (blocks) return words("Nothing more is recorded of it.");
    const lies = run.packed?.left_out[item];
    const paths = (lies || []).map((path) => node("li", {}, node("code", {}, path)));
    if (lies) return [...words(run.packed.note), node("ul", {}, paths)];
    return words(found ? "Nothing more is recorded of it." : `There is no '${item}' in this run.`);
  }

  // --- The page as a whole.

  function drawHeader() {
    const { run: name, kind, headline, state, command, at, figures, meaning } = run.projection;
    const isUnknown = link.isLost && ["live", "paused"].includes(state.word);
    const word = isUnknown ? "connection lost" : state.word;
    document.title = `${visible(name)}: ${word}`;
    const since = state.since ? `since ${timeText(state.since)}` : "";
    const why = headline.includes(state.why) ? "" : state.why; // said already
    const look = isUnknown ? "lost" : state.word;
    const badge = node("span", { class: `run-state ${look}`, title: `${state.why} ${since}`.trim() }, word);
    const list = data.live?.list && node("a", { class: "list", href: data.live.list }, "all runs");
    const tools = [fill(), steering(), list, themeButton(), quiet("?", showHelp, "Keys")];
    const when = at ? `as of ${timeText(at)}` : "";
    const copy = command && copyButton(() => command, "Copy the command");
    keepFocus(byId("top"), () => byId("top").replaceChildren(
      node("div", { class: "title" }, node("h1", {}, name), node("span", { class: "kind" }, kind), badge, tools),
      node("p", { class: "headline" }, headline),
      node("p", { class: "why" }, [why, since, when].filter(Boolean).join(" · "), node("span", { id: "link-state" })),
      command ? node("p", { class: "command" }, node("code", {}, command), copy) : "",
    ));
    byId("figures").replaceChildren(...figures.map(drawFigure));
    byId("meaning").hidden = !meaning;
    byId("meaning").replaceChildren(node("h2", {}, "What it means"), drawText({ text: meaning || "" }));
    showLink();
  }

  function drawFigure({ name, text, better, note, since, until }) {
    const title = node("dt", {}, name, unitNote({ better }));
    const counts = since !== null && since !== undefined && now() !== null;
    const look = { class: text.length > 14 ? "long" : null, "data-since": counts ? since : null };
    const left = until && node("span", { "data-until": until }, untilText(until));
    const below = (note || left) && node("dd", { class: "note" }, note, note && left && ", ", left);
    return node("div", { class: "figure" }, title, node("dd", look, counts ? sinceText(since) : text), below);
  }

  function drawNav() {
    const links = [["", "All"], ...run.projection.blocks.map((block) => [block.name, block.title])];
    const look = (view) => ({ href: linkTo(place.item, view), "data-view": view });
    const current = (view) => ({ "aria-current": place.view === view ? "page" : null });
    byId("views").replaceChildren(...links.map(([view, title]) => node("a", { ...look(view), ...current(view) }, title)));
  }

  const nextTask = () => new Promise((resolve) => setTimeout(resolve));

  /** Draw the blocks of the view, each in a task of its own, so that the page answers meanwhile. */
  async function drawBlocks() {
    const { blocks } = run.projection;
    if (!blocks.some((block) => block.name === place.view)) place.view = "";
    const shown = blocks.filter((block) => !place.view || block.name === place.view);
    const turn = (drawBlocks.turn = {});
    tables.clear();
    drawn.clear();
    byId("blocks").classList.toggle("alone", Boolean(place.view));
    drawNav();
    const cards = [];
    for (const block of shown) {
      if (cards.length) await nextTask();
      if (drawBlocks.turn !== turn) return;
      cards.push(drawBlock(blockOf(block.name) || block, "of"));
      if (cards.length === 1) byId("blocks").replaceChildren(cards[0]);
      else byId("blocks").append(cards[cards.length - 1]);
    }
    if (!cards.length) byId("blocks").replaceChildren(node("p", { class: "empty" }, "Nothing yet."));
    if (place.item) showCursor();
    document.documentElement.dataset.ready = "yes";
  }

  /** Put the cursor on the open item, where it was not before. */
  function showCursor() {
    const table = activeTable();
    const position = table ? table.shown.findIndex((at) => table.keyOf(at) === place.item) : -1;
    if (position >= 0 && table.sight.item !== place.item) table.go(position, false);
  }

  /** Take another projection, and draw what is different in it from what stands there. */
  async function take(projection) {
    const before = run.projection;
    run.projection = projection;
    run.details.clear();
    drawHeader();
    const rowIn = ({ blocks }) =>
      JSON.stringify(blocks.flatMap((block) => block.rows || []).find((row) => row.item === place.item));
    if (place.item && rowIn(before) !== rowIn(projection)) drawDrawer(false);
    const names = (of) => of.blocks.map((block) => block.name).join();
    const cardOf = (block) => document.querySelector(`#blocks [data-block="${CSS.escape(block.name)}"]`);
    // of those before some may not be drawn yet, and whoever draws them stops for this
    const lacking = projection.blocks.some((block) => (!place.view || block.name === place.view) && !cardOf(block));
    if (lacking || names(before) !== names(projection)) return drawBlocks();
    const turn = (drawBlocks.turn = {});
    for (const block of projection.blocks) {
      const card = cardOf(block);
      if (!card || drawn.get(block.name) === block) continue;
      await nextTask();
      if (drawBlocks.turn !== turn) return undefined; // there is a later one, which draws this too
      if (!updateTable(block)) card.replaceWith(drawBlock(block, "of"));
    }
    return undefined;
  }

  /** Put other rows into a table that stands there, if it is like that one in all else. */
  function updateTable(block) {
    const [table, old] = [tables.get(block.name), drawn.get(block.name)];
    const hasStatus = (rows) => rows.some((row) => row.status);
    const rest = ({ rows, ...others }) => JSON.stringify([others, hasStatus(rows), rows.some((row) => row.depth)]);
    if (!table || !block.rows.length || rest(old) !== rest(block)) return false;
    table.update(block);
    drawn.set(block.name, block);
    return true;
  }

  // --- Theme: that of the system, until somebody chooses.

  const THEMES = ["auto", "light", "dark"];
  const theme = { name: "auto" };

  function setTheme(name) {
    theme.name = THEMES.includes(name) ? name : "auto";
    document.documentElement.dataset.theme = theme.name;
  }

  function themeButton() {
    const press = (event) => {
      setTheme(THEMES[(THEMES.indexOf(theme.name) + 1) % THEMES.length]);
      localStorage.setItem("coppice-theme", theme.name);
      event.currentTarget.textContent = `theme: ${theme.name}`;
    };
    return button(`theme: ${theme.name}`, press, { class: "quiet", id: "theme" });
  }

  // --- Live: events of the server, or asking it every few seconds.

  const POLL = 5000;
  const LOST = "connection lost; this is the last that was heard";
  const link = { word: "", token: "", version: 0, isLost: false };

  function showLink() {
    const shown = byId("link-state");
    if (shown) shown.textContent = link.word && ` · ${link.word}`;
  }

  async function ask(path, more = {}) {
    const headers = { ...(link.token ? { "X-Coppice-Token": link.token } : {}), ...more.headers };
    const answer = await fetch(data.live.base + path, { cache: "no-store", ...more, headers });
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 300) || `${answer.status}`);
    return answer.json();
  }

  function setLink(word, isLost = false) {
    const isOther = link.isLost !== isLost;
    Object.assign(link, { word, isLost });
    if (isOther) drawHeader(); // nobody knows whether it is live
    else showLink();
  }

  const TAKERS = {
    projection: (projection) => take(projection),
    delta: (change) => take(applyDelta(run.projection, change)),
  };

  const unreadable = (why) => `its records cannot be read: ${why}`;

  function follow() {
    const source = new EventSource(`${data.live.base}/events`);
    for (const [name, taker] of Object.entries(TAKERS)) {
      source.addEventListener(name, (event) => {
        link.version = event.lastEventId || link.version;
        setLink("");
        taker(JSON.parse(event.data));
      });
    }
    source.addEventListener("problem", (event) => {
      const why = JSON.parse(event.data); // empty: it is over
      setLink(why && unreadable(why));
    });
    source.addEventListener("open", () => setLink(""));
    source.addEventListener("error", () => {
      setLink(LOST, true);
      if (source.readyState === EventSource.CLOSED) poll();
    });
  }

  /** Ask again and again, where events do not come through. */
  async function poll() {
    try {
      let word = "asked every 5 s";
      for (const { event, version, data: told } of await ask(`?since=${link.version}`)) {
        if (event === "problem") word = unreadable(told);
        else {
          link.version = version;
          TAKERS[event](told);
        }
      }
      setLink(word);
    } catch (error) {
      setLink(`${LOST} (${error.message})`, true);
    }
    setTimeout(poll, POLL);
  }

  /** A button that shows what is added to a log, as long as it is pressed. */
  function followButton(path, text) {
    let timer = 0;
    let from = null;
    const more = async () => {
      let answer;
      try {
        answer = await ask(`/log?path=${encodeURIComponent(path)}${from === null ? "" : `&from=${from}`}`);
      } catch (error) {
        made.setAttribute("aria-pressed", "false");
        notice(`The log cannot be followed: ${error.message}`);
        return;
      }
      if (from === null) text.replaceChildren();
      from = answer.next;
      text.append(...answer.text.split(/(?<=\n)/).map((line) => node("span", {}, line)));
      const box = text.closest("pre");
      box.scrollTop = box.scrollHeight;
      timer = box.isConnected ? setTimeout(more, 1000) : 0;
    };
    const press = (event) => {
      const isOn = event.currentTarget.getAttribute("aria-pressed") !== "true";
      event.currentTarget.setAttribute("aria-pressed", `${isOn}`);
      clearTimeout(timer);
      if (isOn) more();
    };
    const made = button("follow", press, { class: "quiet", "aria-pressed": "false" });
    return made;
  }

  // --- Steering, by who has the token.

  function steering() {
    const can = link.token ? run.projection.can || [] : [];
    const made = node("span", { class: "steer" });
    const offer = (what, words, press) => {
      if (can.includes(what)) made.append(button(words, press));
    };
    offer("pause", "pause", () => steer("pause", {}));
    offer("resume", "resume", () => steer("resume", {}));
    offer("idea", "idea…", () => askWords("idea", "Drop in an idea", "where", "Depth or node, if it matters"));
    offer("answer", "answer…", () => askWords("answer", "Answer for a role", "slot", "Slot, such as d0.n0.i2"));
    return made;
  }

  async function steer(what, words) {
    try {
      const headers = { "Content-Type": "application/json" };
      const answer = await ask(`/${what}`, { method: "POST", headers, body: JSON.stringify(words) });
      notice(answer.said || `${what}: done`);
      return "";
    } catch (error) {
      if (!byId("dialog").open) notice(error.message);
      return error.message || `${what}: not done`;
    }
  }

  const NOTICED = 8000; // milliseconds that a notice stays, unless somebody points to it

  function notice(words) {
    const box = byId("notice");
    const close = () => {
      if (box.matches(":hover, :focus-within")) later();
      else box.hidden = true;
    };
    const later = () => {
      clearTimeout(notice.timer);
      notice.timer = setTimeout(close, NOTICED);
    };
    box.replaceChildren(node("span", {}, words), quiet("close", () => (box.hidden = true)));
    box.hidden = false;
    later();
  }

  function askWords(what, title, field, label) {
    const text = node("textarea", { rows: "10", required: true, "aria-label": "Text" });
    const other = node("input", { "aria-label": label, placeholder: label, required: field === "slot" });
    const send = async (event) => {
      event.preventDefault();
      wrong.textContent = await steer(what, { text: text.value, [field]: other.value });
      if (!wrong.textContent) byId("dialog").close();
    };
    const wrong = node("p", { class: "wrong", role: "alert" });
    showDialog(title, node("form", { submit: send }, other, text, wrong, node("button", {}, "send")));
    other.focus();
  }

  // --- Keys.

  // What each key does, and what is said of it.
  const KEYS = [
    [["j", "ArrowDown"], () => move(1), "next row"],
    [["k", "ArrowUp"], () => move(-1), "row before"],
    [["g", "Home"], () => move(-Infinity), "first row"],
    [["G", "End"], () => move(Infinity), "last row"],
    [["Enter"], () => enter(), "open the row's details; in a tree of rows without any, fold it"],
    [["ArrowRight"], () => side(true), "unfold"],
    [["ArrowLeft"], () => side(false), "fold; go to the row above it"],
    [["/"], () => search(), "filter the table"],
    [["Escape"], () => escape(), "close what is open"],
    [[..."123456789"], (digit) => viewNumber(Number(digit)), "a block alone"],
    [["0"], () => viewNumber(0), "all blocks"],
    [["["], () => otherTable(-1), "table before"],
    [["]"], () => otherTable(1), "next table"],
    [["t"], () => byId("theme").click(), "theme: of the system, light, dark"],
    [["?"], () => showHelp(), "these keys"],
  ];
  const HANDLERS = new Map(KEYS.flatMap(([keys, press]) => keys.map((key) => [key, press])));
  const KEY_SIGNS = { ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←", Escape: "Esc" };

  function showDialog(title, inside) {
    const dialog = byId("dialog");
    const heading = node("h2", { id: "dialog-title" }, title);
    dialog.replaceChildren(node("header", {}, heading, fill(), quiet("close", () => dialog.close())), inside);
    if (!dialog.open) dialog.showModal();
  }

  function showHelp() {
    const names = (keys) => (keys.length > 2 ? [`${keys[0]} … ${keys.at(-1)}`] : keys.map((key) => KEY_SIGNS[key] || key));
    const boxes = (keys) => names(keys).map((name) => node("kbd", {}, name));
    const rows = KEYS.map(([keys, , words]) => node("div", {}, node("dt", {}, boxes(keys)), node("dd", {}, words)));
    showDialog("Keys", node("dl", { class: "keys" }, rows));
  }

  function activeTable() {
    const named = tables.get(active);
    return named || [...tables.values()].find((table) => table.table.hasAttribute("role")) || null;
  }

  /** Go `by` rows on; where the drawer is open, it shows what one comes to. */
  function move(by) {
    const table = activeTable();
    if (!table || !table.shown.length) return;
    const isFar = Math.abs(by) === Infinity;
    const from = table.cursor;
    const to = isFar ? (by > 0 ? table.shown.length - 1 : 0) : from < 0 ? 0 : from + by;
    const inDrawer = !byId("drawer").hidden && byId("drawer").contains(document.activeElement);
    const item = table.go(to, !inDrawer);
    if (!byId("drawer").hidden && item && item !== place.item) showSoon(item);
  }

  /** Show an item in the open drawer once the key that moves is not pressed again at once. */
  function showSoon(item) {
    place.item = item;
    keepHash();
    for (const table of tables.values()) table.markOpen();
    cancelAnimationFrame(showSoon.frame);
    showSoon.frame = requestAnimationFrame(() => {
      markItem(document);
      drawDrawer(false);
    });
  }

  /** Go on to the next row that has details. */
  function moveOpen(by) {
    const table = activeTable();
    if (!table) return;
    let at = table.cursor + by;
    while (at >= 0 && at < table.shown.length && !table.block.rows[table.shown[at]].item) at += by;
    if (at < 0 || at >= table.shown.length) return;
    showSoon(table.go(at, false));
  }

  function enter() {
    const table = activeTable();
    const at = table ? table.shown[table.cursor] : undefined;
    if (at === undefined) return;
    const { item } = table.block.rows[at];
    if (item) open(item);
    else table.fold(at, !table.sight.folded.has(table.keyOf(at)));
  }

  function side(isRight) {
    const table = activeTable();
    const at = table ? table.shown[table.cursor] : undefined;
    if (at === undefined || table.fold(at, !isRight) || isRight) return;
    const parent = table.places.get(table.parents[at]);
    if (parent !== undefined) table.go(parent);
  }

  function search() {
    const input = activeTable()?.search;
    input?.focus();
    input?.select();
  }

  function escape() {
    if (document.activeElement?.type === "search") return activeTable()?.go(Math.max(0, activeTable().cursor));
    if (!byId("drawer").hidden) return close();
    if (place.view) return view("");
    return undefined;
  }

  function view(name) {
    place.view = name;
    keepHash(true);
    drawBlocks();
    scrollTo(0, 0);
  }

  function viewNumber(digit) {
    const block = run.projection.blocks[digit - 1];
    if (digit === 0 || block) view(block?.name || "");
  }

  function otherTable(by) {
    const names = [...tables.keys()].filter((name) => tables.get(name).table.hasAttribute("role"));
    const at = names.indexOf(activeTable()?.block.name);
    if (!names.length) return;
    active = names[(at + by + names.length) % names.length];
    activeTable().go(Math.max(0, activeTable().cursor));
    activeTable().box.scrollIntoView({ block: "nearest" });
  }

  const SCROLLING = new Set(["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home", "End"]);

  function pressedKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
    const { target, key } = event;
    const isTyping = target.closest("input, textarea, select");
    if (isTyping && key !== "Escape") return;
    const row = target.closest("tr[data-key]");
    if (!row && [" ", "Enter"].includes(key) && target.closest("a, button, pre, .scroll:not(.rows)")) return;
    if ((!row || target.closest("#drawer")) && SCROLLING.has(key)) return;
    const press = HANDLERS.get(key);
    if (!press) return;
    event.preventDefault();
    press(key);
  }

  /** Links within the page: their place is taken without loading anything. */
  function pressedLink(event) {
    const link = event.target.closest("a[data-item], a[data-view]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (link.dataset.item) open(link.dataset.item);
    else if ("view" in link.dataset) view(link.dataset.view);
  }

  function arrive() {
    const token = takeToken();
    if (token) return enterAgain(token);
    const before = [place.item, place.view];
    readHash();
    if (before[1] !== place.view || !tables.size) drawBlocks();
    else for (const table of tables.values()) table.followSight();
    if (place.item && before[0] !== place.item) drawDrawer(false);
    if (!place.item && !byId("drawer").hidden) close();
    return undefined;
  }

  // --- Beginning.

  /** Take the token of a link from the address; empty if there is none. */
  function takeToken() {
    const words = new URLSearchParams(location.hash.slice(1));
    if (!data.live || !words.has("token")) return "";
    const token = words.get("token");
    words.delete("token");
    history.replaceState(null, "", `#${words}`);
    return token;
  }

  /** Open the link of another server, which was pasted over that of the one that is gone. */
  async function enterAgain(token) {
    try {
      const answer = await fetch("/api/session", { method: "POST", headers: { "X-Coppice-Token": token } });
      if (!answer.ok) throw new Error((await answer.text()).slice(0, 300) || `${answer.status}`);
      sessionStorage.setItem("coppice-token", token);
      location.reload();
    } catch (error) {
      notice(`This link opens nothing: ${error.message}`);
    }
  }

  async function begin() {
    const token = takeToken();
    if (token) sessionStorage.setItem("coppice-token", token);
    if (data.live) link.token = sessionStorage.getItem("coppice-token") || "";
    if (data.packed) run.packed = await unpack(data.packed[0]);
    run.projection = data.projection || run.packed.projection;
    for (const [item, blocks] of Object.entries(data.details || {})) run.details.set(item, blocks);
    readHash();
    byId("page").replaceChildren(
      node("header", { id: "top" }), node("dl", { id: "figures" }),
      node("section", { id: "meaning", "aria-label": "What it means" }),
      node("nav", { id: "views", "aria-label": "Blocks" }), node("div", { id: "blocks" }),
    );
    drawHeader();
    document.addEventListener("keydown", pressedKey);
    document.addEventListener("click", pressedLink);
    addEventListener("popstate", arrive);
    addEventListener("hashchange", arrive);
    addEventListener("beforeprint", () => tables.forEach((table) => table.print(true)));
    addEventListener("afterprint", () => tables.forEach((table) => table.print(false)));
    drawBlocks();
    performance.mark("drawn");
    if (place.item) drawDrawer(false);
    if (data.live) follow();
    if (data.live?.has_clock) setInterval(countOn, 1000);
  }

  try {
    setTheme(localStorage.getItem("coppice-theme"));
  } catch {
    setTheme("auto"); // a browser may refuse to keep anything
  }
  begin().catch((error) => {
    notice(`This page cannot be drawn: ${error.message}`);
    reportError(error);
  });
})();
