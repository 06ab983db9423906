// The page of the operations port: asks for /metrics and /readyz once a second while it is visible,
// and draws them. It counts nothing itself; what was before it was opened is in /history.json.
import { $, drawFigures, element, write } from './draw.js';
import { History, Metrics, POLL_MS, bytes, clock, count, countersOf, duration } from './figures.js';
import { ask, offerCollections, offerExample } from './search.js';
import { adaptStart, drawStart } from './start.js';

const WHOLE_MS = 10000; // between two looks at the time since the start
const GAP_MS = 5000; // between two polls: the server knows what was meanwhile

const history = new History();
let answeredAt = null; // time of the figures shown
let keptAt = 0; // time of the history
let lostAt = null; // time of the first poll without an answer

function showBadge(text, state) {
  write($('badge'), text);
  $('badge').dataset.state = state;
}

// `notices`: {text, bad}.
function showNotices(notices) {
  const shown = [...$('notices').children].map(({ textContent }) => textContent);
  if (JSON.stringify(shown) === JSON.stringify(notices.map(({ text }) => text))) return;
  $('notices').replaceChildren(...notices.map(({ text, bad }) =>
    element('p', { className: bad ? 'bad' : '', textContent: text })));
}

// Shows how far the start is, with what /readyz says about it.
function showLoading(loading) {
  if (loading === undefined) {
    $('progress').removeAttribute('value');
    return write($('loading-text'), 'Starting');
  }
  $('progress').value = loading.bytes_total > 0 ? loading.bytes_read / loading.bytes_total : 0;
  const left =
    loading.seconds_left === undefined ? '' : `, ${duration(loading.seconds_left)} left`;
  write($('loading-text'),
    `Loaded ${count(loading.collections_loaded)} of ${count(loading.collections_count)} ` +
    `collections, ${bytes(loading.bytes_read)} of ${bytes(loading.bytes_total)}${left}`);
}

function drawHealth(metrics, readiness) {
  const { ready, phase, trusted, reason, damaged_collections: damaged = [] } = readiness;
  const lost = phase === 'device_lost' || !trusted;
  const state = ready ? 'good' : lost ? 'bad' : 'wait';
  showBadge(trusted ? phase.replace('_', ' ') : 'not trusted', state);
  const notices = ready ? [] : [{ text: reason, bad: lost }];
  for (const each of damaged) {
    notices.push({ text: `${each.collection}: ${each.reason}`, bad: true });
  }
  if (metrics.get('nearfield_exposed') === 1) {
    notices.push({ text: 'allow_insecure: callers beyond loopback need no TLS or no key' });
  }
  showNotices(notices);
  $('loading').hidden = phase !== 'starting';
  if (phase === 'starting') showLoading(readiness.loading);
}

async function keepHistory(counters) {
  history.keep(await (await ask('history.json')).json(), counters);
  keptAt = counters.at;
}

async function poll() {
  const [scrape, probe] = await Promise.all([ask('metrics'), ask('readyz')]);
  const metrics = new Metrics(await scrape.text());
  const readiness = await probe.json();
  const counters = countersOf(metrics, Date.now());
  if (answeredAt === null || lostAt !== null || counters.at - answeredAt > GAP_MS) {
    // The server may have started with other settings.
    history.moments = [];
    await Promise.all([adaptStart(), keepHistory(counters)]);
  } else if ($('whole').checked && counters.at - keptAt >= WHOLE_MS) {
    await keepHistory(counters);
  }
  answeredAt = counters.at;
  lostAt = null;
  document.body.classList.remove('stale');
  history.add(counters);
  drawHealth(metrics, readiness);
  drawFigures(metrics, history);
  drawStart(metrics);
  offerCollections(metrics);
  offerExample();
}

// Keeps the last figures.
function showLost() {
  lostAt ??= Date.now();
  document.body.classList.add('stale');
  showBadge('not reachable', 'bad');
  const kept = answeredAt === null ? '' : ` The figures are those of ${clock(answeredAt)}.`;
  showNotices([{ text: `Not reachable since ${clock(lostAt)}.${kept}`, bad: true }]);
}

let wake = () => {}; // ends the wait for the next poll

// Waits a second, and until the page is visible.
function nextPoll() {
  return new Promise((done) => {
    wake = done;
    setTimeout(() => {
      if (!document.hidden) return done();
      document.addEventListener('visibilitychange', done, { once: true });
    }, POLL_MS);
  });
}

$('span').addEventListener('change', () => {
  keptAt = 0; // the next poll looks at once
  wake();
});

for (;;) {
  try {
    await poll();
  } catch (error) {
    console.info(error);
    showLost();
  }
  await nextPoll();
}
