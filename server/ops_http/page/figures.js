// The figures of /metrics, what they were since the start of the server, and how numbers are
// written.

const POLL_MS = 1000;
const HISTORY_S = 120;
const RATE_S = 3; // rates are those of the last seconds
const RECENT_S = 10; // and so are latencies and paths
const SEARCHES = new Set(['Search', 'SearchStream', 'SearchAll']);
const SCANS = { int8: 'int8 codes', rows: 'exact rows' }; // by the label "scan"

// ---- Numbers as text

const count = (value) => (value === undefined ? '–' : Number(value).toLocaleString('en-US'));
const perSecond = (value) => {
  if (value === null) return '–';
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
};
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');

function bytes(value) {
  if (value === undefined) return '–';
  let unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}

function duration(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return '–';
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${count(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

// ---- One scrape

class Metrics {
  // `text`: in the Prometheus text format.
  constructor(text) {
    this.byName = new Map();
    for (const line of text.split('\n')) {
      const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
      if (found === null) continue;
      const [, name, labelsText = '', value] = found;
      const labels = {};
      for (const [, label, quoted] of labelsText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
        labels[label] = quoted.replace(/\\(.)/g, (_, each) => (each === 'n' ? '\n' : each));
      }
      if (!this.byName.has(name)) this.byName.set(name, []);
      this.byName.get(name).push({ labels, value: Number(value) });
    }
  }
  // Returns the samples of a name.
  all(name) {
    return this.byName.get(name) ?? [];
  }
  // Returns the sum of the samples whose labels match; undefined if there is none.
  get(name, matches = () => true) {
    const found = this.all(name).filter(({ labels }) => matches(labels));
    return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
  }
  sum(name, matches) {
    return this.get(name, matches) ?? 0;
  }
}

// ---- Over time

const isSearch = ({ method }) => SEARCHES.has(method);

// Returns the counters of a scrape whose increase the page shows.
function countersOf(metrics, at) {
  const buckets = new Map(); // of the time of searches: values up to a bound, by the bound
  for (const { labels, value } of metrics.all('nearfield_call_duration_seconds_bucket')) {
    if (!isSearch(labels)) continue;
    const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  const queriesOf = (wanted) =>
    metrics.sum('nearfield_batch_queries_sum', ({ scan }) => scan === wanted);
  return {
    at,
    started: metrics.get('process_start_time_seconds'),
    searches: metrics.sum('nearfield_call_duration_seconds_count', isSearch),
    refused: metrics.sum('nearfield_refusals_total'),
    queue: metrics.sum('nearfield_call_queue_seconds_sum', isSearch),
    device: metrics.sum('nearfield_call_device_seconds_sum', isSearch),
    timed: metrics.sum('nearfield_call_device_seconds_count', isSearch),
    passes: metrics.sum('nearfield_batch_queries_count'),
    queries: new Map(Object.keys(SCANS).map((scan) => [scan, queriesOf(scan)])),
    buckets,
  };
}

// Returns the quantile of the values between two scrapes, interpolated within its bucket as
// Prometheus does; null if there was no value.
function quantile(share, before, after) {
  const bounds = [...after.buckets.keys()].sort((a, b) => a - b);
  const counts = bounds.map(
    (bound) => after.buckets.get(bound) - (before.buckets.get(bound) ?? 0));
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return null;
  const rank = share * total;
  const place = counts.findIndex((below) => below >= rank);
  const [low, below] = place > 0 ? [bounds[place - 1], counts[place - 1]] : [0, 0];
  if (!Number.isFinite(bounds[place])) return low;
  return low + ((bounds[place] - low) * (rank - below)) / (counts[place] - below);
}

const total = (figures) => [...figures.values()].reduce((sum, each) => sum + each, 0);

// Counters and what follows from them at their moments, oldest first: `moments` of the last two
// minutes, `whole` since the start of the server, as it kept them.
class History {
  constructor() {
    this.moments = [];
    this.whole = [];
  }
  // Takes the moments of /history.json, those of the last two minutes only if there are none yet.
  // What they lack is taken from `counters`, a scrape of now.
  keep({ unix_ms: now, recent, whole }, counters) {
    const bounds = [...counters.buckets.keys()].sort((a, b) => a - b);
    const momentOf = (kept) => {
      let below = 0;
      return {
        ...counters,
        at: counters.at - (now - kept.unix_ms),
        searches: total(kept.by_time),
        refused: kept.refused,
        timed: kept.timed,
        queue: kept.queue_us / 1e6,
        device: kept.device_us / 1e6,
        buckets: new Map(bounds.map((bound, place) => [bound, below += kept.by_time[place]])),
      };
    };
    if (this.moments.length === 0) recent.forEach((each) => this.add(momentOf(each)));
    this.whole = whole.map(momentOf);
    this.whole.forEach((after, place) => {
      const before = this.whole[Math.max(0, place - 1)];
      const seconds = (after.at - before.at) / 1000;
      Object.assign(after, {
        rate: seconds > 0 ? (after.searches - before.searches) / seconds : null,
        p50: quantile(0.5, before, after),
        p99: quantile(0.99, before, after),
      });
    });
  }
  // Returns the first moment within the last seconds.
  since(seconds) {
    const begin = this.last.at - seconds * 1000 - POLL_MS / 2;
    return this.moments.find(({ at }) => at >= begin);
  }
  get last() {
    return this.moments.at(-1);
  }
  add(counters) {
    // Counters begin at 0 after a restart.
    if (this.moments.length > 0 && this.last.started !== counters.started) this.moments = [];
    this.moments.push(counters);
    this.moments = this.moments.filter(({ at }) => at >= counters.at - HISTORY_S * 1000);
    const near = this.since(RATE_S);
    const seconds = (counters.at - near.at) / 1000;
    // At least 0: a moment that the server kept may be younger than the scrape.
    const rate = (name) =>
      (seconds > 0 ? Math.max(0, counters[name] - near[name]) / seconds : null);
    const far = this.since(RECENT_S);
    const timed = counters.timed - far.timed;
    const mean = (name) => (timed > 0 ? (counters[name] - far[name]) / timed : null);
    const queries = new Map(
      [...counters.queries].map(([scan, sum]) => [scan, sum - far.queries.get(scan)]));
    const recent = total(queries) > 0;
    Object.assign(counters, {
      rate: rate('searches'),
      refusedRate: rate('refused'),
      p50: quantile(0.5, far, counters),
      p99: quantile(0.99, far, counters),
      queueMean: mean('queue'),
      deviceMean: mean('device'),
      // Without recent queries: since the start.
      paths: recent ? queries : counters.queries,
      batchMean: recent ? total(queries) / Math.max(1, counters.passes - far.passes) : null,
    });
  }
}

export {
  HISTORY_S, History, Metrics, POLL_MS, SCANS, bytes, clock, count, countersOf, duration,
  perSecond, percent, total,
};
