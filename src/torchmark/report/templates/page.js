"use strict";
// Enhances the page, which can also be read without this script.

{ // Light or dark: the setting of the system, until the button is pressed.
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("torchmark-theme", root.dataset.theme); } catch { /* not kept */ }
    label();
  });
  system.addEventListener("change", label);
  label();
  button.hidden = false;
}

// The rows of the cases, each with the row of details below it if there is one.
function casesOf(body) {
  return [...body.querySelectorAll(":scope > tr.case")].map((row) => {
    const next = row.nextElementSibling;
    return { row, more: next?.classList.contains("more") ? next : null };
  });
}

// The sort key of a cell; cells without a value come last in both directions.
function keyOf(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.textContent.trim();
}

function compare(a, b, sign) {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  if (typeof a === "number") return sign * (a - b || 0);
  return sign * a.localeCompare(b, "en", { numeric: true });
}

// What is searched and sorted belongs to this entry of the browser's history: going back shows it again.
function keep(name, value) {
  try { history.replaceState({ ...history.state, [name]: value }, ""); } catch { /* not kept */ }
}

function makeSortable(table, place) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const cases = casesOf(body);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" };
      const order = next[head.getAttribute("aria-sort")];
      sort(column, order);
      keep(`sort ${place}`, [column, order]);
    });
  });
  const [column, order] = history.state?.[`sort ${place}`] ?? [];
  if (heads[column]) sort(column, order);

  function sort(column, order) {
    heads.forEach((each, at) => each.setAttribute("aria-sort", at === column ? order : "none"));
    table.classList.toggle("is-flat", order !== "none");
    if (order === "none") return body.append(...original);
    const sign = order === "ascending" ? 1 : -1;
    const keyed = cases.map((each) => ({ ...each, key: keyOf(each.row, column) }));
    keyed.sort((a, b) => compare(a.key, b.key, sign));
    body.append(...keyed.flatMap(({ row, more }) => (more ? [row, more] : [row])));
  }
}

// A field that filters the rows of some tables; it is put into `place`.
function makeFilter(tables, place, name, label) {
  const cases = tables.flatMap((table) => casesOf(table.tBodies[0]));
  if (cases.length < 6) return;
  const words = ({ row }) => [...row.cells].filter((cell) => !cell.matches(".figure"));
  const texts = cases.map((each) => words(each).map((cell) => cell.textContent).join(" ").toLowerCase());
  const groups = tables.flatMap((table) => [...table.querySelectorAll("tr.group")]);
  const tools = document.createElement("div");
  tools.className = "tools";
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = label;
  search.setAttribute("aria-label", name);
  const shown = document.createElement("span");
  shown.setAttribute("role", "status");
  tools.append(search);
  let loud = null;
  if (place.dataset.quiet !== undefined) {
    const label = document.createElement("label");
    loud = document.createElement("input");
    loud.type = "checkbox";
    loud.addEventListener("change", filter);
    label.append(loud, "Only notable rows");
    tools.append(label);
  }
  tools.append(shown);
  if (place.matches("header")) place.append(tools);
  else place.prepend(tools);
  search.addEventListener("input", () => {
    filter();
    keep(`search ${name}`, search.value);
  });
  search.value = history.state?.[`search ${name}`] ?? "";
  if (search.value) filter();

  function filter() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    cases.forEach(({ row, more }, at) => {
      const isShown = wanted.every((word) => texts[at].includes(word))
        && !(loud?.checked && row.classList.contains("quiet"));
      for (const each of [row, more]) each?.toggleAttribute("data-is-hidden", !isShown);
      count += isShown;
    });
    for (const group of groups) {
      let next = group.nextElementSibling;
      while (next && !next.matches(".group, .case:not([data-is-hidden])")) next = next.nextElementSibling;
      group.toggleAttribute("data-is-hidden", !next || next.matches(".group"));
    }
    // If the field is for the whole page, sections without a row that matches are hidden.
    for (const table of place.matches("header") ? tables : []) {
      const isEmpty = !table.querySelector("tr.case:not([data-is-hidden])");
      table.closest("section").toggleAttribute("data-is-hidden", isEmpty);
    }
    shown.textContent = count < cases.length ? `${count} of ${cases.length} rows` : "";
  }
}

{
  const holders = [...document.querySelectorAll("div.table")];
  const tables = holders.map((holder) => holder.querySelector("table"));
  const { search } = document.getElementById("main").dataset;
  if (search) makeFilter(tables, document.querySelector("header"), search, search);
  else {
    holders.forEach((holder, at) => {
      makeFilter([tables[at]], holder, `Filter the rows of ${tables[at].caption.textContent}`, "Filter rows");
    });
  }
  tables.forEach(makeSortable);
}

{ // Whoever follows a link and comes back finds long tables where they were.
  const boxes = [...document.querySelectorAll(".box")];
  addEventListener("click", () => keep("boxes", boxes.map((box) => box.scrollTop)), true);
  boxes.forEach((box, at) => { box.scrollTop = history.state?.boxes?.[at] ?? 0; });
}

{ // A link to a row shows the row, even if it is filtered out or folded.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (!target?.matches("tr.case")) return;
    target.removeAttribute("data-is-hidden");
    target.querySelector(".fold")?.setAttribute("open", "");
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();
}

// Vega's script is in the page, compressed; pages of a site share a file. Folded charts are drawn when they are unfolded.
let vega = null;
async function loadVega() {
  // Vega's warnings are for the author of a chart, not for readers of the page.
  const { warn } = console;
  console.warn = (...words) => { if (words[0] !== "WARN") warn.apply(console, words); };
  const holder = document.getElementById("vega");
  const script = document.createElement("script");
  if (holder.dataset.src) {
    const loaded = new Promise((done, failed) => {
      script.onload = done;
      script.onerror = () => failed(new Error(`${holder.dataset.src} cannot be loaded`));
    });
    script.src = holder.dataset.src;
    document.head.append(script);
    return loaded;
  }
  const packed = Uint8Array.from(atob(holder.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

// The number of small charts in a row: as many as fit, preferably without a gap in the last row.
function fitColumns(spec, room) {
  if (!spec.concat) return;
  const most = Math.max(1, Math.floor(room / (spec.concat[0].width + 75)));
  const panels = spec.concat.length;
  if (spec.columns <= most) return;
  spec.columns = [most, most - 1, most - 2].find((n) => n > 1 && panels % n === 0) ?? most;
}

async function draw(figure) {
  const plot = figure.querySelector(".plot");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  fitColumns(spec, plot.clientWidth);
  spec.config.axis.labelLimit = Math.min(260, plot.clientWidth / 3);
  try {
    await (vega ??= loadVega());
    const { view } = await window.vegaEmbed(plot.appendChild(document.createElement("div")), spec, {
      mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false, logLevel: 1,
      tooltip: { disableDefaultStyle: true, theme: "custom" },
    });
    const legend = figure.querySelector(".legend");
    if (!legend) return;
    legend.hidden = false;
    legend.addEventListener("change", () => {
      const off = [...legend.querySelectorAll("input:not(:checked)")].map((box) => box.value);
      view.signal("torchmark_hidden", off).runAsync();
    });
  } catch (error) {
    plot.textContent = `This chart cannot be drawn (${error.message}). Its data are below.`;
  }
}

// The data of a chart as a table, for readers who cannot see it; made when it is unfolded.
function tabulate(figure) {
  const { values } = JSON.parse(figure.querySelector("script").textContent).data;
  const names = [...new Set(values.flatMap(Object.keys))];
  const table = document.createElement("table");
  table.className = "plain";
  const head = table.createTHead().insertRow();
  for (const name of names) {
    const cell = head.appendChild(document.createElement("th"));
    cell.scope = "col";
    cell.textContent = name;
  }
  const body = table.createTBody();
  for (const value of values) {
    const row = body.insertRow();
    for (const name of names) {
      const cell = row.insertCell();
      const isFigure = typeof value[name] === "number";
      cell.className = isFigure ? "figure" : "";
      cell.textContent = isFigure ? Number(value[name].toPrecision(6)) : value[name] ?? "";
    }
  }
  const box = document.createElement("div");
  box.className = "box";
  box.tabIndex = 0;
  box.append(table);
  return box;
}

for (const figure of document.querySelectorAll(".chart")) {
  const data = figure.querySelector(".data");
  data.hidden = false;
  data.addEventListener("toggle", () => data.append(tabulate(figure)), { once: true });
}

const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    draw(target);
  }
}, { rootMargin: "1000000px" });
for (const figure of document.querySelectorAll(".chart:has(.plot)")) watcher.observe(figure);
