// Draws the figures. Every text is hostile, since it may be that of a client: it is only ever
// written as text.
import {
  HISTORY_S, SCANS, bytes, clock, count, duration, perSecond, percent, total,
} from './figures.js';
import { explain } from './terms.js';

const LINE_HEIGHT = 40;
const ALMOST_FULL = 0.95;

const $ = (id) => document.getElementById(id);

// Returns a new element with these properties and children, which are elements or texts.
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function shape(tag, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Leaves an equal text as it is, so that a selection stays and nothing is announced twice.
function write(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// ---- Tiles

// Draws a line for each of these names of figures, and returns the highest figure. A figure that is
// null is a gap. With isLog heights are logarithms, else they begin at 0.
function drawLines(target, history, names, isLog = false) {
  const moments = $('whole').checked ? history.whole : history.moments;
  const now = history.last.at;
  const begin = $('whole').checked ? Math.min(now - 1, moments[0]?.at) : now - HISTORY_S * 1000;
  const figures = moments.flatMap((moment) =>
    names.map((name) => moment[name]).filter((figure) => figure !== null));
  const heightOf = (figure) => (isLog ? Math.log10(figure) : figure);
  const bottom = isLog ? heightOf(Math.min(...figures)) - 0.2 : 0;
  const top = isLog ? heightOf(Math.max(...figures)) + 0.1 : 1.08 * Math.max(1, ...figures);
  const x = ({ at }) => ((HISTORY_S * (at - begin)) / (now - begin)).toFixed(1);
  const y = (figure) =>
    (LINE_HEIGHT * (1 - (heightOf(figure) - bottom) / (top - bottom))).toFixed(1);
  target.setAttribute('viewBox', `0 0 ${HISTORY_S} ${LINE_HEIGHT}`);
  target.setAttribute('preserveAspectRatio', 'none');
  target.replaceChildren();
  for (const name of names) {
    const lines = [[]];
    for (const moment of moments) {
      if (moment[name] === null) lines.push([]);
      else lines.at(-1).push([x(moment), y(moment[name])]);
    }
    for (const points of lines.filter((each) => each.length > 1)) {
      const [left, right] = [points[0][0], points.at(-1)[0]];
      const along = points.map((point) => point.join(',')).join(' ');
      const area = `${left},${LINE_HEIGHT} ${along} ${right},${LINE_HEIGHT}`;
      if (name === names[0]) target.append(shape('polygon', { points: area }));
      target.append(shape('polyline', { points: along, class: name }));
    }
  }
  const ago = `${duration((now - begin) / 1000)} ago`;
  document.querySelectorAll('.begin').forEach((each) => write(each, ago));
  return figures.length > 0 ? Math.max(...figures) : null;
}

function drawSearches(metrics, history) {
  const { last } = history;
  write($('rate'), perSecond(last.rate));
  const busiest = drawLines($('rate-line'), history, ['rate']);
  write($('rate-top'), busiest === null ? '' : `highest ${perSecond(busiest)}`);
  write($('waiting'), count(metrics.sum('nearfield_queue_searches')));
  write($('refused'), perSecond(last.refusedRate));
  write($('p50'), duration(last.p50));
  write($('p99'), duration(last.p99));
  const slowest = drawLines($('latency-line'), history, ['p50', 'p99'], true);
  write($('latency-top'), slowest === null ? '' : `highest ${duration(slowest)}`);
  $('idle').hidden = last.deviceMean !== null;
  $('busy').hidden = last.deviceMean === null;
  write($('waited'), duration(last.queueMean));
  write($('computed'), duration(last.deviceMean));
}

function drawPath(metrics, history) {
  const { paths, batchMean } = history.last;
  const all = total(paths);
  const [scan, most] = [...paths].reduce((best, each) => (each[1] > best[1] ? each : best));
  write($('path'), all > 0 ? percent(most / all) : '–');
  write($('path-unit'), all > 0 ? SCANS[scan] : 'no query yet');
  $('path-bar').replaceChildren(shape('rect', { width: '100%' }));
  let begin = 0;
  for (const [name, queries] of paths) {
    const width = all > 0 ? (100 * queries) / all : 0;
    $('path-bar').append(shape('rect', { x: `${begin}%`, width: `${width}%`, class: name }));
    begin += width;
  }
  write($('escalated'), count(metrics.sum('nearfield_escalations_total')));
  $('passes').hidden = batchMean === null;
  if (batchMean !== null) write($('per-pass'), batchMean.toFixed(1));
}

function drawAudit(metrics) {
  const answers = (wanted) => count(
    metrics.get('nearfield_audit_answers_total', ({ result }) => result === wanted));
  const wrong = metrics.get('nearfield_audit_mismatches_total');
  const damaged = metrics.get('nearfield_scrub_mismatches_total');
  write($('audited'), answers('audited'));
  write($('wrong'), count(wrong));
  $('audit-tile').classList.toggle('is-wrong', wrong > 0 || damaged > 0);
  write($('scored'), count(metrics.get('nearfield_audit_rows_total')));
  write($('dropped'), answers('dropped'));
  write($('scrubbed'), count(metrics.get('nearfield_scrub_rows_total')));
  write($('damaged'), count(damaged));
}

// ---- Collections

const FIGURES = [
  'rows', 'rows_deleted', 'generations', 'device_bytes', 'host_bytes', 'epoch', 'serving', 'info',
];

// Returns the figures and labels of each collection by its name.
function collectionsOf(metrics) {
  const found = new Map();
  for (const figure of FIGURES) {
    for (const { labels, value } of metrics.all(`nearfield_collection_${figure}`)) {
      const { collection, ...others } = labels;
      found.set(collection, { ...found.get(collection), [figure]: value, ...others });
    }
  }
  return found;
}

function drawCollections(metrics) {
  const found = collectionsOf(metrics);
  const body = $('collections').tBodies[0];
  while (body.rows.length > found.size) body.deleteRow(-1);
  while (body.rows.length < found.size) body.insertRow();
  [...found].forEach(([name, each], place) => {
    const row = body.rows[place];
    const texts = [
      name,
      count(each.rows),
      count(each.rows_deleted),
      each.info ? `${each.dim} · ${each.dtype} · ${each.metric}` : '',
      SCANS[each.scan] ?? '',
      count(each.generations),
      bytes(each.device_bytes),
      bytes(each.host_bytes),
      each.info ? count(each.epoch) : '',
    ];
    while (row.cells.length < texts.length) row.insertCell();
    texts.forEach((text, column) => write(row.cells[column], text));
    row.classList.toggle('is-bad', each.serving === 0);
  });
  const all = metrics.get('nearfield_collections');
  const rows = count(metrics.sum('nearfield_collection_rows'));
  write($('collections-count'), all === undefined ? '' : `· ${count(all)} · ${rows} rows`);
}

// ---- Memory and GPU

// Draws bars, {name, used, limit, text} and perhaps its term, into `target`.
function drawBars(target, bars) {
  const drawn = new Map([...target.children].map((each) => [each.dataset.name, each]));
  const order = [];
  for (const { name, used, limit, text, term } of bars) {
    const label = element('b', { textContent: name });
    const bar = drawn.get(name) ?? element('div', { className: 'bar' },
      element('p', {}, term ? explain(label, term) : label, element('span')),
      element('div', {}, element('i')));
    const share = limit > 0 ? Math.min(1, used / limit) : 0;
    bar.dataset.name = name;
    bar.classList.toggle('is-full', share > ALMOST_FULL);
    write(bar.querySelector('span'), text);
    const meter = bar.lastChild;
    meter.setAttribute('role', 'meter');
    meter.ariaLabel = name;
    meter.ariaValueMin = 0;
    meter.ariaValueMax = limit;
    meter.ariaValueNow = used;
    meter.ariaValueText = text;
    meter.firstChild.style.width = `${100 * share}%`;
    meter.firstChild.hidden = share === 0;
    order.push(bar);
  }
  if (order.some((bar, place) => bar !== target.children[place])) target.replaceChildren(...order);
}

// By the label "memory": what is in it, and the term.
const MEMORIES = {
  device: ['rows', 'rowMemory'],
  host_rows: ['rows outside the GPU', 'rowMemory'],
  host: ['ids and payloads', 'idMemory'],
  attributes: ['attributes', 'attributes'],
  filter_cache: ['filter cache', 'filterCache'],
  term_numbers: ['numbers of terms', 'termNumbers'],
  queue: ['queue', 'queue'],
  requests: ['requests', 'requests'],
  replies: ['replies', 'replies'],
};

function drawMemory(metrics) {
  const isGpu = metrics.get('nearfield_device_info', ({ backend }) => backend === 'gpu') > 0;
  const bars = Object.entries(MEMORIES).flatMap(([memory, [name, term]]) => {
    const isOfIt = (labels) => labels.memory === memory;
    const used = metrics.get('nearfield_memory_bytes', isOfIt);
    const limit = metrics.get('nearfield_memory_bytes_max', isOfIt);
    if (used === undefined) return [];
    const text = `${bytes(used)} of ${bytes(limit)}`;
    const label = memory === 'device' && isGpu ? `${name}, on the GPU` : name;
    return [{ name: label, used, limit, text, term }];
  });
  for (const { labels, value } of metrics.all('nearfield_disk_bytes')) {
    const free = metrics.get('nearfield_disk_free_bytes', ({ dir }) => dir === labels.dir);
    const text = `${bytes(free)} of ${bytes(value)} free`;
    bars.push({ name: `disk of ${labels.dir}`, used: value - free, limit: value, text });
  }
  drawBars($('memory'), bars);
}

function drawGpu(metrics) {
  const gpu = (name) => metrics.get(`nearfield_gpu_${name}`);
  const age = gpu('sample_age_seconds');
  $('gpu').hidden = age === undefined;
  if (age === undefined) return;
  const [busy, used, all] = ['utilization_ratio', 'memory_used_bytes', 'memory_bytes'].map(gpu);
  const [watts, wattsMax] = ['power_watts', 'power_limit_watts'].map(gpu);
  const bars = [
    { name: 'busy', used: busy, limit: 1, text: percent(busy) },
    { name: 'memory', used, limit: all, text: `${bytes(used)} of ${bytes(all)}` },
    {
      name: 'power',
      used: watts,
      limit: wattsMax,
      text: `${count(watts)} of ${count(wattsMax)} W`,
    },
  ];
  drawBars($('gpu-bars'), bars.filter((bar) => bar.used !== undefined));
  const ecc = metrics.all('nearfield_gpu_ecc_errors_total').map(
    ({ labels, value }) => `${count(value)} ${labels.type}`);
  write($('gpu-note'), [
    `${count(gpu('temperature_celsius'))} °C`,
    ...(ecc.length > 0 ? [`ECC errors: ${ecc.join(', ')}`] : []),
    `Xid events: ${count(gpu('xid_events_total'))}`,
    `read ${duration(age)} ago`,
  ].join(' · '));
}

// ---- The server

function drawServer(metrics, now) {
  const info = metrics.all('nearfield_info')[0].labels;
  const device = metrics.all('nearfield_device_info')[0]?.labels;
  const of = device === undefined ? '' : ` · ${device.backend.toUpperCase()} · ${device.device}`;
  write($('device'), info.version + of);
  const get = (name) => metrics.get(name);
  write($('updated'), [
    `as of ${clock(now)}`,
    `up ${duration(now / 1000 - get('process_start_time_seconds'))}`,
    `connections: ${count(get('nearfield_connections'))}`,
    `${bytes(get('process_resident_memory_bytes'))} resident`,
    `${count(get('nearfield_log_lines_dropped_total'))} log lines dropped`,
  ].join(' · '));
}

function drawFigures(metrics, history) {
  drawSearches(metrics, history);
  drawPath(metrics, history);
  drawAudit(metrics);
  drawCollections(metrics);
  drawMemory(metrics);
  drawGpu(metrics);
  drawServer(metrics, history.last.at);
}

export { $, collectionsOf, drawFigures, element, write };
