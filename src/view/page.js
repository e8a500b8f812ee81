// The pictures of the page, drawn from the JSON object in it (src/view/page_json.c describes it). Nothing is fetched, nothing kept.
"use strict";

const byId = id => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const STACK = ["param", "optim", "grad", "saved", "temp", "comm"].map(name => data.classes.indexOf(name));      // from the bottom up
const SAVED = data.classes.indexOf("saved"), MOST_OWNERS = 10;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const least = list => list.reduce((a, b) => Math.min(a, b), Infinity), most = list => list.reduce((a, b) => Math.max(a, b), -Infinity);
const px = value => Math.round(value * 10) / 10;
const greatest = (list, of) => list.reduce((best, _, i) => of(list[i]) > of(list[best]) ? i : best, 0);

/* ---- numbers as words, as rp__size_text writes them ---- */

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];
const unitOf = bytes => clamp(Math.floor(Math.log2(bytes || 1) / 10), 0, 4);
const fixed = (v, digits) => (v * 2 * 10 ** digits % 4 === 1 ? v * (1 - 1e-12) : v).toFixed(digits);       // 1.125: C rounds to even
const inUnit = (bytes, unit, digits) => `${fixed(bytes / 1024 ** unit, unit ? digits : 0)} ${UNITS[unit]}`;
const readable = bytes => bytes < 1024 ? "" : inUnit(bytes, unitOf(bytes), 2);
const exact = bytes => `${bytes} byte${bytes === 1 ? "" : "s"}${bytes < 1024 ? "" : ` (${readable(bytes)})`}`;

/* ---- the step ---- */

// A buffer is of one class all its life, or saved for a part of it: spans say when.
function unpackBuffers() {
    let begin = 0;
    const all = data.bytes.map((bytes, i) => {
        begin += data.begin[i];
        const end = begin + data.length[i], mem = Number(data.class[i]), owner = data.of[i];
        const [path, what] = [data.texts[data.owners[2 * owner]], data.texts[data.owners[2 * owner + 1]]];
        return {bytes, offset: data.offset[i], begin, end, owner, path, what, spans: [{mem, begin, end}]};
    });
    for (let i = 0; i < data.kept.length; i += 3) {
        const b = all[data.kept[i]], [{mem}] = b.spans, [from, until] = [data.kept[i + 1], data.kept[i + 2]];
        b.spans = [{mem, begin: b.begin, end: from}, {mem: SAVED, begin: from, end: until}, {mem, begin: until, end: b.end}]
            .filter(span => span.begin < span.end);
    }
    return all;
}

// live[class][event], total[event]: bytes after that event. Sums of whole numbers, exact up to 2^53.
function sumLive() {
    const live = data.classes.map(() => new Float64Array(data.events + 1)), total = new Float64Array(data.events + 1);
    for (const b of buffers) {
        for (const {mem, begin, end} of b.spans) {
            live[mem][begin] += b.bytes;
            live[mem][end] -= b.bytes;
        }
    }
    for (const of of live) of.forEach((change, e) => total[e] += of[e] = change + (e && of[e - 1]));
    return {live, total};
}

const buffers = unpackBuffers(), {live, total} = sumLive(), peakEvent = greatest(total, bytes => bytes), works = [];
for (let i = 0, begin = 0; i < data.works.length; i += 4) {
    const [phase, path, op] = data.works.slice(i + 1, i + 4).map(text => data.texts[text]);
    works.push({begin: begin += data.works[i], phase, path, op});
}
const isLive = (b, event) => b.begin <= event && event < b.end;

function placeText(event) {
    const w = works.findLast(work => work.begin <= event);
    return !w ? "before its first op" : `in ${w.phase}${w.path && " of " + w.path}${w.op && ` (${w.op})`}`;
}

function largestOwners(event) {
    const shares = new Map();
    for (const b of buffers.filter(one => isLive(one, event))) {
        const {mem} = b.spans.find(span => isLive(span, event)), key = b.owner * 8 + mem;
        if (!shares.has(key)) shares.set(key, {key, mem, path: b.path, what: b.what, bytes: 0, n: 0});
        shares.get(key).bytes += b.bytes;
        shares.get(key).n++;
    }
    return [...shares.values()].sort((a, b) => b.bytes - a.bytes || a.key - b.key).slice(0, MOST_OWNERS);
}

/* ---- drawing ---- */

function put(parent, name, attributes = {}, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return parent.appendChild(element);
}
const putPath = (p, style, d) => put(p.svg, "path", {class: style, d});
const putText = (p, style, x, y, anchor, text) => text && put(p.svg, "text", {class: style, x, y, "text-anchor": anchor}, text);
const putCircle = (p, style, {x, y}, r) => put(p.svg, "circle", {class: style, cx: px(x), cy: px(y), r});

// An empty picture as wide as its place; x and y take values to pixels inside its margins.
function open(id, margin, [left, right], [low, high]) {
    const svg = byId(id), width = Math.max(280, svg.parentNode.clientWidth), height = svg.dataset.height * (width < 600 ? .8 : 1);
    const p = {svg, ...margin, right: width - margin.right, bottom: height - margin.bottom, range: {left, right, low, high}};
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    p.x = value => p.left + (value - left) / (right - left) * (p.right - p.left);
    p.y = value => p.bottom - (value - low) / (high - low) * (p.bottom - p.top);
    p.valueX = x => left + (x - p.left) / (p.right - p.left) * (right - left);
    p.valueY = y => low + (p.bottom - y) / (p.bottom - p.top) * (high - low);
    return p;
}

// Round values, at most so many, and how to write them. Bytes: steps of powers of two; all else: of 1, 2 and 5.
function ticks(low, high, count, kind) {
    const rough = Math.max((high - low) / count, kind === "real" ? 1e-9 : 1), ten = 10 ** Math.floor(Math.log10(rough));
    const step = kind === "bytes" ? 2 ** Math.ceil(Math.log2(rough)) : ten * [1, 2, 5, 10].find(m => m * ten >= rough * .999);
    const unit = unitOf(step * 4), digits = clamp(Math.ceil(-Math.log10(step)), 0, 9);
    const text = v => !v ? "0" : kind === "bytes" ? inUnit(v, unit, step % 1024 ** unit ? 2 : 0) : v.toFixed(digits);
    const first = Math.ceil(low / step);
    return Array.from({length: Math.floor(high / step) - first + 1}, (_, i) => (first + i) * step).map(v => ({v, text: text(v)}));
}

function axes(p, kindX, nameX, kindY, unitY = "", below = 0) {
    const {left, right, low, high} = p.range, y = p.bottom + below;
    for (const {v, text} of ticks(low, high, (p.bottom - p.top) / 45, kindY)) {
        putPath(p, "grid", `M${p.left} ${px(p.y(v))}H${p.right}`);
        putText(p, "soft", p.left - 8, p.y(v) + 4, "end", text + unitY);
    }
    for (const {v, text} of ticks(left, right, (p.right - p.left) / 100, kindX)) {
        putPath(p, "axis", `M${px(p.x(v))} ${y}v5`);
        putText(p, "soft", p.x(v), y + 18, "middle", text);
    }
    putPath(p, "axis", `M${p.left} ${p.bottom}H${p.right}`);
    putText(p, "soft", p.right, y + 34, "end", nameX);
}

// A line across or up, named at one of its ends.
function level(p, name, bytes, anchor, below) {
    const y = p.y(bytes), x = anchor === "end" ? p.right - 4 : p.left + 6;
    if (y < p.top - 1 || y > p.bottom) return;
    putPath(p, name, `M${p.left} ${px(y)}H${p.right}`);
    putText(p, `halo ${name}-text`, x, below ? y + 15 : y - 5, anchor, `${name} ${readable(bytes)}`);
}

function upright(p, x, name, y = p.top - 7) {
    const isRight = x > (p.left + p.right) / 2;
    putPath(p, "peak", `M${px(x)} ${p.top}V${p.bottom}`);
    putText(p, "halo peak-text", x + (isRight ? -5 : 5), y, isRight ? "end" : "start", name);
}

/* ---- memory over the step ---- */

const MARGIN = {left: 72, right: 18, top: 22};
const whole = {from: 0, to: Math.max(data.events, 1), low: 0, high: Math.max(data.reserved, data.peak, 1), floor: 0};
const state = {view: whole, at: peakEvent, found: null, memory: null, arena: null};

// Of the events of each pixel the one with most bytes live, so that what is drawn never hides a peak.
function eventsOfColumns(p) {
    const {from, to} = state.view, n = Math.round(p.right - p.left), first = i => from + Math.floor(i * (to - from) / n);
    return Array.from({length: n}, (_, i) => {
        let best = first(i);
        for (let e = best + 1; e < first(i + 1); e++) if (total[e] > total[best]) best = e;
        return best;
    });
}

// Steps from left to right: one height a column.
function edge(x, ys) {
    const turns = ys.map((y, i) => i && y === ys[i - 1] ? "" : `${i ? "H" : "M"}${x(i)}${i ? "V" : " "}${y}`);
    return `${turns.join("")}H${x(ys.length)}`;
}

function drawAreas(p) {
    const n = p.columns.length, x = i => px(p.left + i * (p.right - p.left) / n), y = bytes => px(p.y(Math.max(bytes, state.view.floor)));
    const sums = new Float64Array(n), tops = [], names = [];
    let lower = p.columns.map(() => y(0));
    for (const mem of STACK.filter(one => live[one].some(bytes => bytes))) {
        const upper = p.columns.map((e, i) => y(sums[i] += live[mem][e])), heights = upper.map((top, i) => lower[i] - top);
        const room = heights.map((_, i) => least(heights.slice(Math.max(i - 20, 0), i + 20))), i = greatest(room, h => h);
        putPath(p, data.classes[mem], `${edge(x, upper)}L${edge(j => x(n - j), lower.reverse()).slice(1)}Z`);
        tops.push(edge(x, upper));
        if (room[i] > 16) names.push([clamp(x(i), p.left + 34, p.right - 34), upper[i] + heights[i] / 2 + 4, data.classes[mem]]);
        lower = upper;
    }
    for (const top of tops) putPath(p, "top", top);
    for (const [textX, textY, name] of names) putText(p, "halo", textX, textY, "middle", name);
    if (state.view.floor) putText(p, "soft", p.left, p.bottom + 68, "start", `cut below ${readable(state.view.floor)}`);
}

// Under the time: pieces of works that are alike.
function drawStrip(p, y, height, nameOf, styleOf, textOf) {
    const {from, to} = state.view, there = works.filter((w, i) => w.begin < to && (i + 1 === works.length || works[i + 1].begin > from));
    const starts = there.filter((w, i) => !i || nameOf(w) !== nameOf(there[i - 1]));
    starts.forEach((w, i) => {
        const x1 = p.x(Math.max(w.begin, from)), x2 = p.x(i + 1 < starts.length ? starts[i + 1].begin : to);
        if (nameOf(w)) put(p.svg, "rect", {class: styleOf(w), x: px(x1), y, width: px(x2 - x1), height});
        putText(p, "", (x1 + x2) / 2, y + height - 4, "middle", textOf(w).find(text => text.length * 7 + 4 < x2 - x1));
    });
}

const phaseOf = w => ["forward", "replay", "backward"].find(phase => phase === w.phase);
const blockOf = w => w.path && (/^.*?\.\d+(?=\.|$)/.exec(w.path) || [w.path.split(".")[0]])[0];

function drawMemory() {
    const {from, to, floor} = state.view, top = Math.max(data.peak, total[peakEvent], data.budget < 1.5 * data.peak ? data.budget : 0);
    const p = state.memory = open("memory", {...MARGIN, bottom: 74}, [from, to], [floor, floor + (top - floor) * 1.03 + 1]);
    axes(p, "whole", "event", "bytes", "", 34);
    p.columns = eventsOfColumns(p);
    drawAreas(p);
    drawStrip(p, p.bottom + 3, 10, phaseOf, phaseOf, () => []);
    drawStrip(p, p.bottom + 16, 17, blockOf, () => "block", w => [blockOf(w), blockOf(w).split(".").pop()]);
    level(p, "peak", data.peak, "start", true);
    if (data.budget) level(p, "budget", data.budget, "end");
}

/* ---- the arena ---- */

function rectOf(p, b, {begin, end}) {
    const {from, to} = state.view, x = p.x(Math.max(begin, from)), y = clamp(p.y(b.offset + b.bytes), p.top, p.bottom);
    return {x, y, width: Math.max(p.x(Math.min(end, to)) - x, .7), height: Math.max(clamp(p.y(b.offset), p.top, p.bottom) - y, .4)};
}
const rectPath = r => `M${px(r.x)} ${px(r.y)}h${px(r.width)}v${px(r.height)}h${px(-r.width)}z`;

function isSeen(b) {
    const {from, to, low, high} = state.view;
    return b.bytes && b.begin < to && b.end > from && b.offset < high && b.offset + b.bytes > low;
}

function drawArena() {
    const {from, to, low, high} = state.view, paths = data.classes.map(() => ""), seen = buffers.filter(isSeen);
    const p = state.arena = open("arena", {...MARGIN, bottom: 40}, [from, to], [low, high]);
    axes(p, "whole", "event", "bytes");
    for (const b of seen)
        for (const span of b.spans) if (span.begin < to && span.end > from) paths[span.mem] += rectPath(rectOf(p, b, span));
    paths.forEach((path, mem) => path && putPath(p, data.classes[mem], path));
    const large = seen.map(b => ({b, r: rectOf(p, b, b)})).filter(({r}) => r.width > 2.5 && r.height > 2.5);
    putPath(p, "edges", large.map(({r}) => rectPath(r)).join(""));
    for (const {b, r} of large.filter(one => one.r.height > 15)) {
        const text = [`${b.path} ${b.what}`, b.path, b.path.split(".").slice(-2).join(".")].find(t => t.length * 7 + 8 < r.width);
        putText(p, "halo", r.x + r.width / 2, r.y + r.height / 2 + 4, "middle", text);
    }
    level(p, "reserved", data.reserved, "start");
    if (from <= peakEvent && peakEvent < to) upright(p, p.x(peakEvent + .5), "the peak", p.top + 15);
}

// What lies under the pointer, else what is nearest to it.
function bufferNear({x, y}) {
    const seen = buffers.filter(isSeen), away = b => {
        const r = rectOf(state.arena, b, b);
        return Math.max(r.x - x, 0, x - r.x - r.width) + Math.max(r.y - y, 0, y - r.y - r.height);
    };
    return seen.length ? seen[greatest(seen, b => -away(b))] : null;
}

/* ---- the facts of an event ---- */

function make(name, ...inside) {
    const element = document.createElement(name);
    element.append(...inside);
    return element;
}

function putSize(cell, bytes) {
    cell.className = "n";
    cell.replaceChildren(bytes, " ", make("small", readable(bytes)));
}

function ownerRow({mem, path, what, bytes, n}) {
    const row = make("tr"), head = row.appendChild(make("th"));
    put(put(head, "svg", {class: "swatch", "aria-hidden": true}), "rect", {class: data.classes[mem]});
    head.append(Object.assign(make("span", path), {className: "path"}), make("small", what + (n > 1 ? `, ${n} buffers` : "")));
    putSize(row.insertCell(), bytes);
    return row;
}

function bufferText(b) {
    const saved = b.spans.length > 1 && b.spans.find(span => span.mem === SAVED), of = data.classes[b.spans[0].mem];
    const end = b.end < data.events ? `until ${b.end} (${placeText(b.end)})` : "to the end";
    return `${b.path}, ${b.what}: ${exact(b.bytes)} of class ${of}${saved ? `, saved from event ${saved.begin} to ${saved.end}` : ""}, ` +
        `at ${exact(b.offset)} of the arena. Lives from event ${b.begin} (${placeText(b.begin)}) ${end}.`;
}

// A slider's value, for those who hear the page.
function say(svg, now, last, text) {
    for (const [key, value] of Object.entries({min: 0, max: last, now, text})) svg.setAttribute(`aria-value${key}`, value);
}

function showEvent() {
    const {at, found, memory, arena} = state, name = at === peakEvent ? "the peak" : `event ${at}`;
    const where = `event ${at} of ${data.events}, ${placeText(at)}`;
    byId("event-title").textContent = `At ${name}`;
    byId("event-where").textContent = where;
    byId("event-owners-title").textContent = `Largest owners at ${name}`;
    for (const row of byId("event-classes").rows) {
        const mem = data.classes.indexOf(row.dataset.class), bytes = mem < 0 ? total[at] : live[mem][at];
        putSize(row.cells[1], bytes);
        if (mem >= 0) row.cells[2].textContent = `${fixed(total[at] && 100 * bytes / total[at], 1)} %`;
    }
    byId("event-owners").tBodies[0].replaceChildren(...largestOwners(at).map(ownerRow));
    byId("event-buffer").hidden = !found;
    if (found) byId("event-buffer").lastChild.textContent = bufferText(found);
    for (const p of [memory, arena]) {
        const x = px(p.x(at + .5)), y = px(p.y(total[at])), showsFound = p === arena && found && isSeen(found);
        p.svg.querySelector(".now")?.remove();
        const now = {svg: put(p.svg, "g", {class: "now"})};
        putPath(now, "cursor", `M${x} ${p.top}V${p.bottom}`);
        if (p === memory) putCircle(now, "mark", {x, y}, 3.5);
        if (showsFound) putPath(now, "found", rectPath(rectOf(p, found, found)));
        say(p.svg, at, whole.to - 1, `${where}: ${exact(total[at])}${showsFound ? `; ${bufferText(found)}` : ""}`);
    }
}

/* ---- walking and zooming ---- */

function look(view) {
    const next = {...state.view, ...view}, span = clamp(Math.ceil(next.to - next.from), Math.min(8, whole.to), whole.to);
    const from = Math.round(clamp(next.from, 0, whole.to - span));
    state.view = {...next, from, to: from + span};
    drawMemory();
    drawArena();
    showEvent();
}

const lookAround = (event, span) => look({from: event - span / 2, to: event + span / 2});

function go(event, found = null) {
    const {from, to} = state.view;
    Object.assign(state, {at: clamp(event, 0, whole.to - 1), found});
    if (state.at >= from && state.at < to) showEvent();
    else lookAround(state.at, to - from);
}

const zoom = factor => lookAround(state.at, (state.view.to - state.view.from) * factor);

// What lives through all that is seen is cut off.
function lookAtChanges() {
    const {from, to} = state.view, passing = buffers.filter(b => b.bytes && b.begin < to && b.end > from && (b.begin > from || b.end < to));
    look({low: least([whole.high - 1, ...passing.map(b => b.offset)]), high: whole.high, floor: least(total.subarray(from, to))});
}

const actions = {whole: () => look(whole), changes: lookAtChanges, peak: () => go(peakEvent), in: () => zoom(.5), out: () => zoom(2)};

// Of those that live at the event, the next one up or down.
function nextBuffer(step) {
    const there = buffers.filter(b => b.bytes && isLive(b, state.at)).sort((a, b) => a.offset - b.offset), i = there.indexOf(state.found);
    return there[i < 0 ? (step > 0 ? 0 : there.length - 1) : clamp(i + step, 0, there.length - 1)];
}

function walk(event) {
    const {from, to} = state.view, step = event.shiftKey ? 1 : Math.max(1, Math.round((to - from) / state.memory.columns.length));
    const keys = {
        0: actions.whole, "+": actions.in, "=": actions.in, "-": actions.out, Home: () => go(0), End: () => go(whole.to - 1),
        ArrowLeft: () => go(state.at - step), ArrowRight: () => go(state.at + step),
        ...(this.id === "arena" && {ArrowUp: () => go(state.at, nextBuffer(1)), ArrowDown: () => go(state.at, nextBuffer(-1))}),
    };
    if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
}

// A range of time; in the arena one of addresses, too, where the pointer went up or down as well.
function choose(p, a, b, isDone) {
    const isTall = p === state.arena && Math.abs(a.y - b.y) > 24;
    const ends = (m, n, low, high) => [clamp(Math.min(m, n), low, high), clamp(Math.max(m, n), low, high)];
    const [x1, x2] = ends(a.x, b.x, p.left, p.right), [y1, y2] = isTall ? ends(a.y, b.y, p.top, p.bottom) : [p.top, p.bottom];
    p.svg.querySelector(".range")?.remove();
    if (x2 - x1 < 6) return;
    if (!isDone) put(p.svg, "rect", {class: "range", x: x1, y: y1, width: x2 - x1, height: y2 - y1});
    else look({from: p.valueX(x1), to: p.valueX(x2), ...(isTall && {low: p.valueY(y2), high: p.valueY(y1)})});
}

// moved(point) as the pointer does, chosen(point, point, isDone) while it is dragged and when it is let go.
function point(svg, moved, chosen) {
    let from = null;
    const at = event => {
        const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
        return {x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale};
    };
    svg.addEventListener("pointerdown", event => {
        if (!event.isPrimary || event.button) return;
        if (chosen) svg.setPointerCapture(event.pointerId);
        from = at(event);
        moved(from);
    });
    svg.addEventListener("pointermove", event => {
        moved(at(event));
        if (from) chosen?.(from, at(event), false);
    });
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, event => {
        if (from) chosen?.(from, name === "pointerup" ? at(event) : from, true);
        from = null;
    });
}

function startStep() {
    point(byId("memory"), ({x}) => {
        const {columns, left} = state.memory;
        go(columns[clamp(Math.floor(x - left), 0, columns.length - 1)]);
    }, (a, b, isDone) => choose(state.memory, a, b, isDone));
    point(byId("arena"), spot => go(clamp(Math.floor(state.arena.valueX(spot.x)), state.view.from, state.view.to - 1), bufferNear(spot)),
        (a, b, isDone) => choose(state.arena, a, b, isDone));
    for (const id of ["memory", "arena"]) byId(id).addEventListener("keydown", walk);
    for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
}

/* ---- curves ---- */

const CURVE = {left: 60, top: 22, bottom: 40};

// Tells the spot that is nearest to the pointer, or the next one by key. spots(): {x, y} in pixels, text.
function follow(id, spots) {
    const svg = byId(id);
    let now = 0;
    const showSpot = i => {
        const list = spots(), {x, y, text} = list[now = clamp(i, 0, list.length - 1)] || {};
        if (!text) return;
        svg.querySelector(".now")?.remove();
        putCircle({svg}, "now found", {x, y}, 8);
        byId(`${id}-text`).hidden = false;
        byId(`${id}-text`).textContent = text;
        say(svg, now, list.length - 1, text);
    };
    point(svg, ({x, y}) => showSpot(greatest(spots(), spot => -Math.hypot(spot.x - x, spot.y - y))));
    svg.addEventListener("keydown", event => {
        const next = {ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: Infinity}[event.key];
        if (next !== undefined) showSpot(next);
        if (next !== undefined) event.preventDefault();
    });
}

const SHAPES = ["M-5 -5h10v10h-10z", "M0 -7L7 5H-7z", "M0 -7L7 0L0 7L-7 0z", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", "M0 7L7 -5H-7z",
    "M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z"];
const points = data.points.concat([["this plan", data.reserved, data.overhead, false]]).map(([name, bytes, overhead, measured], i) => {
    const percent = 100 * overhead, known = measured ? "measured" : "predicted", isOurs = i === data.points.length;
    const text = `${name ?? "planned"}: ${exact(bytes)} reserved, ${fixed(percent, 2)} % extra time, ${known}`;
    return {name: isOurs ? "" : name, bytes, overhead, percent, text, style: isOurs ? "ours" : `mark ${known}`};
}).filter(q => q.overhead !== null).sort((a, b) => a.bytes - b.bytes);

// A name beside its spot, where it lies on no other name and no other spot.
function nameBeside(p, taken, {x, y, name}) {
    const w = name.length * 7, near = [[10, 4], [-10 - w, 4], [-w / 2, -12], [-w / 2, 22], [8, -10], [8, 20], [-8 - w, -10], [-8 - w, 20]];
    const boxes = [...near, ...near.map(([dx, dy]) => [dx, 2.5 * dy])].map(([dx, dy]) => [x + dx, y + dy - 11, x + dx + w, y + dy + 3]);
    const isOn = ([x1, y1, x2, y2]) => t => x1 < t[2] && x2 > t[0] && y1 < t[3] && y2 > t[1];
    const isFree = box => box[0] > p.left && box[2] < p.right && box[1] > 0 && box[3] < p.bottom && !taken.some(isOn(box));
    const box = boxes.find(isFree) || boxes[0];
    taken.push(box);
    putText(p, "halo", box[0], box[3] - 3, "start", name);
}

function drawCurve() {
    const all = [...points.map(q => q.bytes), data.reserved], low = least(all), high = most(all), pad = (high - low) / 16 || high / 10;
    const percents = points.map(q => q.percent);
    const p = open("curve", {...CURVE, right: 20}, [low - pad, high + pad], [1.12 * least([0, ...percents]), 1.12 * most([1, ...percents])]);
    axes(p, "bytes", "bytes reserved", "real", " %");
    for (const q of points) Object.assign(q, {x: p.x(q.bytes), y: p.y(q.percent)});
    const planned = points.filter(q => q.name === null), named = points.filter(q => q.name), ours = points.find(q => q.name === "");
    const stairs = planned.map((q, i) => `${i ? "H" : "M"}${px(q.x)}${i ? "V" : ` ${p.top}V`}${px(q.y)}`).join("");
    if (planned.length) putPath(p, "line", `${stairs}H${p.right}`);
    upright(p, p.x(data.reserved), "this plan");
    for (const q of planned) putCircle(p, q.style, q, 2.5);
    named.forEach((q, i) => putPath(p, q.style, SHAPES[i % SHAPES.length]).setAttribute("transform", `translate(${px(q.x)} ${px(q.y)})`));
    const taken = named.map(({x, y}) => [x - 6, y - 6, x + 6, y + 6]);
    for (const q of named) nameBeside(p, taken, q);
    if (ours) putCircle(p, ours.style, ours, 6.5);
}

const curves = [{name: "loss", values: data.loss}, {name: "val_loss", values: data.val}];

function drawLosses() {
    const {steps} = data, finite = curves.flatMap(c => c.values).filter(v => v !== null), last = Math.max(steps.at(-1), steps[0] + 1);
    const [low, high] = finite.length ? [least(finite), most(finite)] : [0, 1], pad = (high - low) * .05 || 1;
    const p = open("losses", {...CURVE, right: 62}, [steps[0], last], [low - pad, high + pad]);
    axes(p, "whole", "step", "real");
    for (const c of curves) {
        c.spots = c.values.map((v, i) => ({v, x: p.x(steps[i]), y: p.y(v), text: `step ${steps[i]}: loss ${data.loss[i]}, ` +
            `${data.val[i] === null ? "" : `val_loss ${data.val[i]}, `}learning rate ${data.lr[i]}`})).filter(q => q.v !== null);
        c.end = c.spots.at(-1);
        putPath(p, c.name, c.spots.map((q, i) => `${i ? "L" : "M"}${px(q.x)} ${px(q.y)}`).join(""));
        if (c.spots.length < 60) for (const q of c.spots) putCircle(p, "mark", q, 2.5);
    }
    if (curves[1].spots.length) putCircle(p, "ours", curves[1].spots.reduce((a, b) => b.v < a.v ? b : a), 6.5);        // the lowest validation
    const [a, b] = curves.map(c => c.end?.y ?? p.top), apart = Math.abs(a - b) < 14 ? 7 : 0;
    curves.forEach((c, i) => c.end && putText(p, "", c.end.x + 6, c.end.y + 4 + ((i === 0) === (a < b) ? -apart : apart), "start", c.name));
}

/* ---- the table of fates ---- */

function startSlots() {
    const [body] = byId("slots").tBodies, rows = [...body.rows], heads = [...byId("slots").tHead.rows[0].cells];
    const text = (row, i) => row.cells[i].textContent, number = (row, i) => parseFloat(text(row, i)) || 0;
    const sortBy = i => {
        const isNumber = heads[i].className === "n", before = heads[i].ariaSort, isDown = before ? before === "ascending" : isNumber;
        const compare = (a, b) => isNumber ? number(a, i) - number(b, i) : text(a, i).localeCompare(text(b, i), "en", {numeric: true});
        body.append(...rows.sort((a, b) => isDown ? compare(b, a) : compare(a, b)));
        for (const head of heads) head.ariaSort = head === heads[i] ? isDown ? "descending" : "ascending" : null;
    };
    heads.forEach((head, i) => {
        const button = make("button", head.textContent.trim());
        button.addEventListener("click", () => sortBy(i));
        head.replaceChildren(button);
    });
    const show = () => {
        const words = byId("filter").value.toLowerCase().split(/\s+/);
        for (const row of rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
        const seen = rows.filter(row => !row.hidden), sum = i => seen.reduce((all, row) => all + number(row, i), 0);
        byId("filter-text").textContent = `${sum(4)} slots, ${exact(sum(6))}`;
    };
    byId("filter").addEventListener("input", show);
    show();
}

/* ---- the whole page ---- */

const draws = [byId("memory") && (() => look(state.view)), byId("curve") && drawCurve, byId("losses") && drawLosses].filter(draw => draw);
for (const draw of draws) draw();
if (byId("memory")) startStep();
if (byId("curve")) follow("curve", () => points);
if (byId("losses")) follow("losses", () => curves[0].spots);
if (byId("slots")) startSlots();
for (const controls of document.querySelectorAll(".buttons")) controls.hidden = false;
addEventListener("resize", () => draws.forEach(draw => draw()));
