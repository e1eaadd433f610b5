// What an open picture does: zoom, search, show the figures of the frame below the pointer.
// Everything is found relative to this script, so several pictures can share a page.
(() => {
  "use strict";
  const svg = document.currentScript.closest("svg");
  const details = svg.querySelector(".details");
  const atRest = details.textContent;
  const frames = Array.from(svg.querySelector(".frames").children, (group) => {
    const rect = group.querySelector("rect");
    const [name, figures] = group.querySelector("title").textContent.split("\n");
    const x = Number(rect.getAttribute("x"));
    const width = Number(rect.getAttribute("width"));
    const y = Number(rect.getAttribute("y"));
    return { group, rect, name, figures, x, width, y, middle: x + width / 2,
      label: group.querySelector("text") };
  });
  const root = frames[0];
  const frameOf = new Map(frames.map((frame) => [frame.group, frame]));
  const controls = makeControls();
  let zoomed = root;

  // The same estimate as in appearance.py.
  function ems(character) {
    if (" !'(),-./:;IJ[]\\fijlrt|".includes(character)) return 0.41;
    if ("#%&+<=>@MW^mw~".includes(character) || character > "~") return 1;
    return character >= "A" && character <= "Z" ? 0.8 : 0.64;
  }

  function fitted(text, width, size) {
    let room = width / size;
    let kept = "";
    let atMark = "";
    for (const character of text) {
      room -= ems(character);
      if (room < 0) return atMark.length > 1 ? atMark + "…" : "";
      kept += character;
      if (room >= 1) atMark = kept;
    }
    return text;
  }

  function labelled(name, width, size) {
    if (width < 2 * size) return "";
    const bare = name.replaceAll("(anonymous namespace)::", "").replace(/(?<=.)\s*[(<].*/, "");
    const last = bare.split("::").pop() || bare;
    const whole = [name, bare, last].find((text) => fitted(text, width, size) === text);
    return whole || fitted(last, width, size);
  }

  function place(frame, x, width) {
    frame.rect.setAttribute("x", x);
    frame.rect.setAttribute("width", width);
    const text = labelled(frame.name, width - 6, 12);
    if (text && !frame.label) {
      frame.label = document.createElementNS(svg.namespaceURI, "text");
      frame.label.setAttribute("y", frame.y + 13);
      frame.group.append(frame.label);
    }
    if (frame.label) {
      frame.label.setAttribute("x", x + 3);
      frame.label.textContent = text;
    }
  }

  function zoomTo(target) {
    zoomed = target;
    const scale = root.width / target.width;
    for (const frame of frames) {
      const isAbove = frame.y < target.y
        && frame.x <= target.middle && target.middle <= frame.x + frame.width;
      const isInside = frame.y >= target.y
        && target.x <= frame.middle && frame.middle <= target.x + target.width;
      frame.group.classList.toggle("above", isAbove);
      frame.group.classList.toggle("hidden", !isAbove && !isInside);
      if (isAbove) place(frame, root.x, root.width);
      if (isInside) place(frame, root.x + (frame.x - target.x) * scale, frame.width * scale);
    }
    controls.reset.hidden = target === root;
  }

  // Frames come outermost first, from left to right. A match inside a match is not counted again.
  function search(text) {
    const wanted = text.trim().toLowerCase();
    let matched = 0;
    let end = root.x;
    for (const frame of frames) {
      const isMatch = wanted !== "" && frame !== root && frame.name.toLowerCase().includes(wanted);
      frame.group.classList.toggle("match", isMatch);
      if (isMatch && frame.x > end - 0.001) {
        matched += frame.width;
        end = frame.x + frame.width;
      }
    }
    controls.found.textContent = wanted && `${(100 * matched / root.width).toFixed(2)} % matched`;
  }

  function makeControls() {
    const make = (name, facts) =>
      Object.assign(document.createElementNS("http://www.w3.org/1999/xhtml", name), facts);
    const found = make("output", {});
    const reset = make("button", { type: "button", textContent: "Reset zoom", hidden: true });
    const input = make("input", { type: "search", placeholder: "Search frames" });
    input.setAttribute("aria-label", "Search frames");
    const bar = make("div", { className: "controls" });
    bar.append(found, reset, input);
    const holder = document.createElementNS(svg.namespaceURI, "foreignObject");
    for (const [name, value] of [["x", root.x + root.width - 390], ["y", 6], ["width", 390], ["height", 30]])
      holder.setAttribute(name, value);
    holder.append(bar);
    svg.append(holder);
    reset.addEventListener("click", () => zoomTo(root));
    input.addEventListener("input", () => search(input.value));
    return { found, reset, input };
  }

  function frameAt(event) {
    return frameOf.get(event.target.closest(".frames > g"));
  }

  svg.setAttribute("tabindex", "0");
  svg.addEventListener("click", (event) => {
    const frame = frameAt(event);
    if (frame) zoomTo(frame === zoomed ? root : frame);
  });
  svg.addEventListener("mouseover", (event) => {
    const frame = frameAt(event);
    details.textContent = frame ? fitted(`${frame.figures}: ${frame.name}`, root.width, 13) : atRest;
  });
  svg.addEventListener("mouseleave", () => { details.textContent = atRest; });
  svg.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    controls.input.value = "";
    search("");
    zoomTo(root);
  });
})();
