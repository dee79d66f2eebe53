// The dashboard: shows every snapshot that /api/v1/events sends. Text goes into the page through
// textContent alone, so that no name or reason can become markup.

/** Seconds of promotions and demotions that a chart shows. */
const HISTORY_S = 300;
/** Decisions and notices shown; the API has more. */
const MAX_LINES = 40;
/** First and longest wait before the stream is opened again. */
const RETRY_MS = [1000, 10000];
/** Width and height of a chart's own coordinates; the page stretches them. */
const CHART = [300, 60];

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

/** An element with a class and text or children. */
function make(tag, className, ...content) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

/** Writes text only where it changed, so that selections and screen readers are left in peace. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function show(node, wanted) {
  node.hidden = !wanted;
}

// Figures as text.

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let step = 0;
  let rest = count;
  while (rest >= 1024 && step < units.length - 1) {
    rest /= 1024;
    step += 1;
  }
  return `${short(rest)} ${units[step]}`;
}

/** Three significant figures: more cannot be read at a glance. */
function short(number) {
  if (number >= 100 || Number.isInteger(number)) return Math.round(number).toLocaleString("en");
  return number.toFixed(number >= 10 ? 1 : 2);
}

const percent = (part) => `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;

function duration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const minutes = Math.floor((seconds % 3600) / 60);
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${minutes} min`;
  return `${Math.floor(seconds / 86400)} days`;
}

const ago = (seconds) => `${duration(Math.max(0, seconds))} ago`;

// Rates: what was counted between two snapshots.

class History {
  points = [];
  last = null;

  add(at, promoted, demoted) {
    const before = this.last;
    if (before && at <= before.at) return;
    this.last = { at, promoted, demoted };
    // One count is no rate yet.
    if (!before) return;
    const rate = (key) => Math.max(0, this.last[key] - before[key]) / (at - before.at);
    this.points.push({ at, promote: rate("promoted"), demote: rate("demoted") });
    while (this.points[0].at < at - HISTORY_S) this.points.shift();
  }
}

/** A line chart of a history, with its figures in words. */
class Chart {
  constructor(title) {
    this.title = title;
    this.promote = make("span", "promote");
    this.demote = make("span", "demote");
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("viewBox", `0 0 ${CHART.join(" ")}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.lines = ["promote", "demote"].map((name) => {
      const line = document.createElementNS(SVG, "polyline");
      line.setAttribute("class", name);
      this.svg.append(line);
      return [name, line];
    });
    this.top = make("span");
    const oldest = make("span", "", `${duration(HISTORY_S)} ago`);
    const axis = make("div", "axis quiet", oldest, this.top, make("span", "", "now"));
    const rates = make("div", "rates", this.promote, this.demote);
    this.node = make("div", "chart", rates, this.svg, axis);
  }

  update(history) {
    const points = history.points;
    const last = points.at(-1);
    write(this.promote, `${last ? short(last.promote) : "…"} promotions/s`);
    write(this.demote, `${last ? short(last.demote) : "…"} demotions/s`);
    if (!last) return this.clear();
    const highest = Math.max(1, ...points.map((point) => Math.max(point.promote, point.demote)));
    for (const [name, line] of this.lines) {
      const place = (point) => {
        const x = CHART[0] * (1 - (last.at - point.at) / HISTORY_S);
        // One unit above and below, so that a line at the edge keeps its width.
        const y = CHART[1] - 1 - (CHART[1] - 2) * (point[name] / highest);
        return `${x.toFixed(1)},${y.toFixed(1)}`;
      };
      line.setAttribute("points", points.map(place).join(" "));
    }
    write(this.top, `full height ${short(highest)}/s`);
    this.svg.setAttribute(
      "aria-label",
      `${this.title}, last ${duration(HISTORY_S)}: now ${short(last.promote)} promotions and ` +
        `${short(last.demote)} demotions a second, full height ${short(highest)} a second`,
    );
  }

  clear() {
    for (const [, line] of this.lines) line.setAttribute("points", "");
    write(this.top, "");
    this.svg.setAttribute("aria-label", `${this.title}: no rate known yet`);
  }
}

/** A bar with marks. */
class Bar {
  constructor(label, fast) {
    this.label = label;
    this.fill = make("div", fast ? "fill fast" : "fill");
    this.node = make("div", "bar", make("div", "track", this.fill));
    this.node.setAttribute("role", "meter");
    this.node.setAttribute("aria-label", label);
    this.node.setAttribute("aria-valuemin", "0");
    this.marks = {};
  }

  update(value, scale, words, marks = {}) {
    const place = (amount) => `${(100 * Math.min(1, scale > 0 ? amount / scale : 0)).toFixed(2)}%`;
    this.fill.style.width = place(value);
    for (const name of ["floor", "share", "cap"]) {
      const amount = marks[name];
      this.marks[name] ??= this.node.appendChild(make("i", `mark ${name}`));
      show(this.marks[name], amount != null);
      if (amount != null) this.marks[name].style.left = place(amount);
    }
    this.node.setAttribute("aria-valuemax", String(scale));
    this.node.setAttribute("aria-valuenow", String(Math.min(value, scale)));
    this.node.setAttribute("aria-valuetext", words);
    this.node.title = words;
  }
}

/** Keeps one part of the page for each item, by its key, in the items' order. */
class Parts {
  constructor(parent, create) {
    this.parent = parent;
    this.create = create;
    this.parts = new Map();
  }

  update(items, key, update) {
    const before = this.parts;
    const partOf = (item, index) => before.get(key(item, index)) ?? this.create(item, index);
    this.parts = new Map(items.map((item, index) => [key(item, index), partOf(item, index)]));
    items.forEach((item, index) => {
      const part = this.parts.get(key(item, index));
      update(part, item, index);
      const there = this.parent.children[index];
      if (there !== part.node) this.parent.insertBefore(part.node, there ?? null);
    });
    while (this.parent.children.length > this.parts.size) this.parent.lastElementChild.remove();
  }
}

// The parts of the page.

class Tier {
  constructor(tier, index) {
    this.about = make("span", "quiet");
    this.bar = new Bar(`${tier.name} tier, memory in use`, index === 0);
    this.words = make("p");
    const head = make("div", "head", make("h3", "", tier.name), this.about);
    this.node = make("article", "card tier", head, this.bar.node, this.words);
  }

  update(tier) {
    const used = Math.max(0, tier.capacity_bytes - tier.free_bytes);
    const capacity = bytes(tier.capacity_bytes);
    const words = `${bytes(used)} of ${capacity} in use, ${bytes(tier.free_bytes)} free`;
    const nodes = `${tier.nodes.length === 1 ? "node" : "nodes"} ${tier.nodes.join(", ")}`;
    write(this.about, `${nodes} · load ${short(tier.load_latency_ns)} ns (${tier.latency_source})`);
    write(this.words, words);
    this.bar.update(used, tier.capacity_bytes, words);
  }
}

/** What a tenant has of one tier. */
class Holding {
  constructor(tenant, tier, index) {
    this.bar = new Bar(`${tenant.name}, ${tier.name} tier`, index === 0);
    this.usage = make("span");
    this.limits = make("p", "quiet");
    const head = make("div", "head", make("span", "", tier.name), this.usage);
    this.node = make("div", "holding", head, this.bar.node, this.limits);
  }

  update(has, scale) {
    const marks = { floor: has.floor_bytes, share: has.share_bytes, cap: has.cap_bytes };
    const limits = Object.entries(marks)
      .filter(([, amount]) => amount != null)
      .map(([name, amount]) => `${name} ${bytes(amount)}`);
    if (has.floor_bytes != null && has.usage_bytes < has.floor_bytes) {
      limits.push("uses less than its floor");
    }
    if (has.cap_bytes != null && has.usage_bytes > has.cap_bytes) limits.push("above its cap");
    write(this.usage, bytes(has.usage_bytes));
    write(this.limits, limits.join(" · "));
    show(this.limits, limits.length > 0);
    this.bar.update(has.usage_bytes, scale, [bytes(has.usage_bytes), ...limits].join(", "), marks);
  }
}

class Tenant {
  constructor(tenant) {
    this.kind = make("span", "quiet");
    this.latency = make("p");
    this.facts = make("p", "quiet");
    this.holdings = make("div");
    this.parts = new Parts(this.holdings, ([, tier], index) => new Holding(tenant, tier, index));
    this.chart = new Chart(`Moves of ${tenant.name}`);
    this.history = new History();
    this.because = make("p", "quiet because");
    const head = make("div", "head", make("h3", "", tenant.name), this.kind);
    this.node = make(
      "article",
      "card tenant",
      head,
      this.latency,
      this.holdings,
      this.chart.node,
      this.facts,
      this.because,
    );
  }

  update(tenant, snapshot, scales) {
    const count = `${tenant.processes} ${tenant.processes === 1 ? "process" : "processes"}`;
    write(this.kind, `${tenant.class} · ${tenant.processes ? count : "no live process"}`);
    this.updateLatency(tenant);
    const tiers = snapshot.tiers.slice(0, tenant.tiers.length);
    this.parts.update(
      tiers.map((tier, index) => [tenant.tiers[index], tier]),
      ([, tier], index) => `${index} ${tier.name}`,
      (part, [has], index) => part.update(has, scales[index]),
    );
    const sum = (key) => tenant.tiers.reduce((total, tier) => total + tier[key], 0);
    this.history.add(snapshot.uptime, sum("promote_success"), sum("demote_success"));
    this.chart.update(this.history);
    const facts = [];
    if (tenant.fast_access_ratio != null) {
      facts.push(`${percent(tenant.fast_access_ratio)} of accesses fast`);
    }
    if (tenant.memory_pressure_percent != null) {
      facts.push(`memory pressure ${percent(tenant.memory_pressure_percent / 100)}`);
    }
    facts.push(`${short(sum("promote_fail") + sum("demote_fail"))} failed moves`);
    facts.push(`${short(tenant.thrash_events)} thrash events`);
    write(this.facts, facts.join(" · "));
    write(this.because, tenant.because);
    show(this.because, tenant.because !== "");
  }

  updateLatency(tenant) {
    const { p99_ms: p99, slo_ms: slo } = tenant;
    show(this.latency, p99 != null || slo != null);
    const missed = p99 != null && slo != null && p99 > slo;
    const parts = [p99 == null ? "P99 not reported" : `P99 ${short(p99)} ms`];
    if (slo != null) parts.push(`SLO ${short(slo)} ms`);
    if (p99 != null && slo != null) parts.push(missed ? "✗ missed" : "✓ met");
    write(this.latency, parts.join(" · "));
    this.latency.className = `latency ${missed ? "bad" : ""}`;
  }
}

class Decision {
  constructor() {
    this.time = make("time", "quiet");
    this.who = make("strong");
    this.what = make("span", "what");
    this.why = make("span", "why quiet");
    this.node = make("li", "", this.time, this.who, this.what, this.why);
  }

  update(decision, now) {
    const cap = decision.cap_bytes == null ? "no cap" : `cap ${bytes(decision.cap_bytes)}`;
    write(this.time, ago(now - decision.at));
    write(this.who, `${decision.tenant}, ${decision.tier}`);
    const promotion = percent(decision.promotion);
    write(this.what, `floor ${bytes(decision.floor_bytes)}, ${cap}, promotes at ${promotion}`);
    write(this.why, decision.because);
  }
}

class Notice {
  constructor() {
    this.time = make("time");
    this.text = make("span");
    this.node = make("li", "", this.time, this.text);
  }

  update(notice, now) {
    write(this.time, ago(now - notice.at));
    write(this.text, notice.text);
  }
}

class Page {
  tiers = new Parts(byId("tiers"), (tier, index) => new Tier(tier, index));
  tenants = new Parts(byId("tenants"), (tenant) => new Tenant(tenant));
  decisions = new Parts(byId("decisions"), () => new Decision());
  notices = new Parts(byId("notice-list"), () => new Notice());
  moves = new Chart("All moves");
  history = new History();
  uptime = 0;

  constructor() {
    byId("moves").append(make("h3", "", "Promotions and demotions"), this.moves.node);
  }

  update(snapshot) {
    // A daemon that started again counts from zero.
    if (snapshot.uptime < this.uptime) this.forget();
    this.uptime = snapshot.uptime;
    this.updateHead(snapshot);
    this.updateWork(snapshot);
    this.tiers.update(
      snapshot.tiers,
      (tier, index) => `${index} ${tier.name}`,
      (part, tier) => part.update(tier),
    );
    this.updateTenants(snapshot);
    const newest = (lines) => lines.slice(-MAX_LINES).reverse();
    const byPlace = (_, index) => index;
    const update = (part, line) => part.update(line, snapshot.uptime);
    this.decisions.update(newest(snapshot.decisions), byPlace, update);
    this.notices.update(newest(snapshot.notices), byPlace, update);
    show(byId("no-decisions"), snapshot.decisions.length === 0);
    show(byId("notices"), snapshot.notices.length > 0);
  }

  forget() {
    this.history = new History();
    this.tenants.update([]);
  }

  updateHead(snapshot) {
    const modes = {
      manage: "manages",
      steer: "steers the kernel's tiering",
      "dry-run": "dry run: moves nothing",
      observe: "observes only",
      paused: "paused",
    };
    write(byId("mode"), modes[snapshot.mode] ?? snapshot.mode);
    write(byId("policy"), `policy ${snapshot.policy}`);
    write(byId("mode-reason"), snapshot.mode_reason);
    show(byId("mode-reason"), snapshot.mode_reason !== "");
    write(
      byId("about"),
      `version ${snapshot.version} · up ${duration(snapshot.uptime)} · ` +
        `monitors accesses with ${snapshot.monitoring}`,
    );
  }

  updateWork({ uptime, counters, cost }) {
    this.history.add(uptime, counters.promote_success, counters.demote_success);
    this.moves.update(this.history);
    const failed = (fails) => {
      const reasons = fails
        .filter((fail) => fail.count > 0)
        .map((fail) => `${short(fail.count)} ${fail.reason.replaceAll("_", " ")}`);
      return reasons.length ? reasons.join(", ") : "none";
    };
    facts(byId("counters"), [
      ["moved", bytes(counters.moved_bytes)],
      ["promotions failed", failed(counters.promote_fail)],
      ["demotions failed", failed(counters.demote_fail)],
      ["external migrations", short(counters.external_migrations)],
      ["rounds, plans", `${short(counters.rounds)}, ${short(counters.plans)}`],
      ["blocks managed", short(counters.blocks)],
    ]);
    const now = `${cost.cpu_percent.toFixed(2)} % of ${short(cost.budget_percent)} % allowed`;
    const damon = `DAMON ${short(cost.damon_seconds)} s`;
    const longer = `${short(cost.throttle)} × as long, to keep the budget`;
    facts(byId("cost"), [
      ["CPU now", now],
      ["CPU so far", `${short(cost.cpu_seconds)} s`],
      ["looking", `${short(cost.looking_seconds)} s (${damon})`],
      ["deciding", `${short(cost.deciding_seconds)} s`],
      ["moving", `${short(cost.moving_seconds)} s`],
      ["intervals", cost.throttle > 1 ? longer : "as configured"],
      ["resident memory", bytes(cost.rss_bytes)],
      ["samples", short(counters.samples)],
    ]);
  }

  updateTenants(snapshot) {
    // All bars of a tier have one scale, so that tenants can be compared: the most that any of them
    // has or may have.
    const scales = snapshot.tiers.map((tier, index) => {
      const amounts = snapshot.tenants.map(({ tiers }) => tiers[index]).filter(Boolean);
      const most = amounts.flatMap((has) => [
        has.usage_bytes,
        has.floor_bytes ?? 0,
        has.share_bytes ?? 0,
        has.cap_bytes ?? 0,
      ]);
      return Math.max(1, ...most.map((amount) => Math.min(amount, tier.capacity_bytes)));
    });
    this.tenants.update(
      snapshot.tenants,
      (tenant) => tenant.name,
      (part, tenant) => part.update(tenant, snapshot, scales),
    );
    const lengths = snapshot.tiers.map((tier, index) => `${tier.name} ${bytes(scales[index])}`);
    write(byId("scales"), `whole bar: ${lengths.join(", ")}`);
    show(byId("legend"), snapshot.tenants.length > 0);
    show(byId("no-tenants"), snapshot.tenants.length === 0);
  }
}

/** Names and values in a definition list. */
function facts(list, rows) {
  rows.forEach(([name, value], index) => {
    if (list.children.length <= 2 * index) list.append(make("dt"), make("dd"));
    write(list.children[2 * index], name);
    write(list.children[2 * index + 1], value);
  });
}

/** Keeps the stream open, and shows when it is not. */
class Stream {
  constructor(page) {
    this.page = page;
    this.wait = RETRY_MS[0];
    this.last = null;
    this.open();
  }

  open() {
    this.source = new EventSource("/api/v1/events");
    this.source.addEventListener("snapshot", (event) => {
      this.page.update(JSON.parse(event.data));
      this.wait = RETRY_MS[0];
      this.last = new Date();
      this.remark(false);
    });
    this.source.addEventListener("error", () => this.retry());
  }

  // The browser's own retry gives up after an answer like 503, so it is not relied on.
  retry() {
    this.source.close();
    this.remark(true);
    setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(2 * this.wait, RETRY_MS[1]);
  }

  remark(broken) {
    show(byId("offline"), broken);
    document.body.classList.toggle("stale", broken);
    if (!broken) return;
    const since = this.last ? `The figures are those of ${this.last.toLocaleTimeString()}. ` : "";
    write(byId("offline"), `No connection to tierwised. ${since}Trying again.`);
  }
}

new Stream(new Page());
