// The search of the site, for tools/make_site. search.js, a script, has the index: a page from file:// may load scripts, but not fetch files.
// Keys: / goes to the search; the arrows move through the results; Enter opens one, or the first; Escape closes.
"use strict";
(() => {
  const MOST = 30, AROUND = 70;
  const script = document.currentScript.src;
  const form = document.querySelector("form[role=search]"), input = form.querySelector("input");
  const box = form.querySelector("#found"), list = box.querySelector("ol"), status = box.querySelector("p");
  let sections = null, isLoading = false;
  form.hidden = false;

  function load() {
    if (isLoading) return;
    isLoading = true;
    const index = document.createElement("script");
    index.src = new URL("search.js", script);
    index.onload = () => {
      sections = searchIndex.map(([place, page, heading, text]) =>
        ({ place, page, heading, text, low: [heading, page, text].map(part => part.toLowerCase()) }));
      search();
    };
    document.head.append(index);
  }

  // How well a word fits a part: whole, at the beginning of a word, elsewhere, not at all.
  function fit(part, word) {
    if (part === word) return 4;
    const at = (" " + part).search(new RegExp("[^\\p{L}\\p{N}_]" + word.replace(/[^\p{L}\p{N}_]/gu, "\\$&"), "u"));
    return at === 0 ? 3 : at > 0 ? 2 : part.includes(word) ? 1 : 0;
  }

  function score(section, words) {
    let sum = 0;
    for (const word of words) {
      const [heading, page, text] = section.low.map(part => fit(part, word));
      if (!heading && !page && !text) return 0;
      sum += 100 * heading + 10 * page + Math.min(text, 2);
    }
    return sum + (words.length > 1 && section.low.some(part => part.includes(words.join(" "))) ? 50 : 0);
  }

  // The text around the first word that is in it, with every word marked.
  function excerpt(section, words) {
    const places = words.map(word => section.low[2].indexOf(word)).filter(at => at >= 0);
    const from = Math.max(0, Math.min(...places, section.text.length) - AROUND) * (places.length > 0);
    const text = (from ? "… " : "") + section.text.slice(from, from + 3 * AROUND);
    const pattern = new RegExp(words.map(word => word.replace(/[^\p{L}\p{N}_]/gu, "\\$&")).join("|"), "giu");
    const line = document.createElement("p");
    let done = 0;
    for (const match of text.matchAll(pattern)) {
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      line.append(text.slice(done, match.index), mark);
      done = match.index + match[0].length;
    }
    line.append(text.slice(done));
    return line;
  }

  function result(section, words) {
    const item = document.createElement("li"), link = document.createElement("a"), title = document.createElement("b");
    link.href = new URL(section.place, script);
    title.textContent = section.heading;
    link.append(title, section.heading === section.page ? "" : ` ${section.page}`, excerpt(section, words));
    item.append(link);
    return item;
  }

  function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    box.hidden = !words.length || !sections;
    if (box.hidden) return;
    const found = sections.map(section => [score(section, words), section]).filter(([points]) => points).sort((a, b) => b[0] - a[0]);
    list.replaceChildren(...found.slice(0, MOST).map(([, section]) => result(section, words)));
    status.textContent = found.length > MOST ? `The first ${MOST} of ${found.length} sections` : found.length === 1 ? "1 section" : `${found.length} sections`;
    box.scrollTop = 0;
  }

  function close() { box.hidden = true; }

  input.addEventListener("focus", () => { load(); search(); });
  input.addEventListener("input", () => { load(); search(); });
  list.addEventListener("click", close);
  form.addEventListener("submit", event => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  form.addEventListener("keydown", event => {
    const stops = [input, ...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      input.focus();
      close();
    } else if (step && !box.hidden) {
      event.preventDefault();
      stops[Math.min(Math.max(stops.indexOf(document.activeElement) + step, 0), stops.length - 1)].focus();
    }
  });
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea")) return;
    event.preventDefault();
    input.focus();
  });
  document.querySelector("nav").addEventListener("click", event => {
    if (event.target.closest("a")) document.getElementById("menu").checked = false;      // on a phone, show the part that the link leads to
  });
  for (const kind of ["pointerdown", "focusin"]) document.addEventListener(kind, event => { if (!form.contains(event.target)) close(); });
})();
