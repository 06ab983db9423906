// The box that searches by stored id, with the calls of the HTTP port (server/http). The API key is
// kept in its field only, and sent as a header.
import { $, collectionsOf, element, write } from './draw.js';
import { SCANS, count, duration } from './figures.js';

const REPLY_MS_MAX = 8000;

// Returns the reply to a request that no cache answers.
function ask(address, options = {}) {
  const signal = AbortSignal.timeout(REPLY_MS_MAX);
  return fetch(address, { cache: 'no-store', signal, ...options });
}

let port = ''; // address of the HTTP port
let asked = ''; // the question to which `example` is the answer
let example = { collection: '', id: '' };

// Adapts the form to what /start.json says about searches of this page.
function adaptForm({ url, needs_key: needsKey = false, note }) {
  port = url;
  asked = '';
  for (const field of $('search').elements) field.disabled = url === undefined;
  $('key-label').hidden = !needsKey;
  $('key').required = needsKey;
  write($('search-note'), note);
}

// Returns the messages of the reply to a call. Throws an Error for one that is an error.
async function call(method, collection, request) {
  const key = $('key').value;
  const reply = await ask(`${port}/v1/collections/${encodeURIComponent(collection)}/${method}`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'nearfield-caller': 'operations page',
      ...(key === '' ? {} : { Authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(request),
  }).catch(({ message }) => {
    throw Error(`no answer from ${port}: ${message}. A tunnel must forward this port, too, with `
      + 'its number; with TLS, the browser must trust its certificate.');
  });
  const lines = (await reply.text()).split('\n').filter((line) => line !== '');
  const messages = lines.map((line) => JSON.parse(line));
  if (!reply.ok) throw Error(`${reply.statusText}: ${messages[0].message}`);
  return messages;
}

let forms = new Map(); // of the collections, by name: epoch and type of the ids

// Offers the collections that the metrics name.
function offerCollections(metrics) {
  const found = [...collectionsOf(metrics)].filter(([, { info }]) => info);
  const names = found.map(([name]) => name);
  forms = new Map(found);
  const offered = [...$('collection').options].map(({ value }) => value);
  if (names.join() === offered.join()) return;
  const chosen = $('collection').value;
  $('collection').replaceChildren(
    ...names.map((name) => element('option', { value: name, textContent: name })));
  if (names.includes(chosen)) $('collection').value = chosen;
}

// Fills in an id of the chosen collection to try first, unless the visitor has typed one.
async function offerExample() {
  const [collection, field, key] = [$('collection').value, $('row-id'), $('key')];
  const isTyped = () => field.value !== example.id || document.activeElement === key;
  if (field.disabled || isTyped() || !key.checkValidity()) return;
  if (collection === '' || collection === example.collection) return;
  const question = JSON.stringify([collection, forms.get(collection).epoch, key.value]);
  if (question === asked) return;
  asked = question;
  try {
    const request = { rows_max: 1, with_payload: false, with_vectors: false };
    const found = await call('scan', collection, request);
    const [id] = found.flatMap(({ ids }) => ids?.texts ?? ids?.numbers ?? []);
    if (isTyped() || asked !== question) return;
    example = id === undefined ? { collection: '', id: '' } : { collection, id };
    field.value = example.id;
    field.placeholder = id === undefined ? 'the collection is empty' : '';
  } catch (error) {
    console.info(error);
    field.placeholder = '';
  }
}

const decode = (base64) => Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
const lastWord = (constant = '') => constant.split('_').pop().toLowerCase();

function timeText(microseconds) {
  const time = new Date(Number(BigInt(microseconds) / 1000n));
  return Number.isNaN(time.valueOf()) ? `${microseconds} µs` : time.toISOString();
}

// Returns "name: values" of each attribute that row `row` of the columns has (common.proto,
// AttributeColumn).
function attributesOf(columns, row) {
  return columns.flatMap(({ attribute, values = {}, presence, list_sizes: sizes }) => {
    const bits = presence === undefined ? null : decode(presence);
    const has = (place) => bits === null || ((bits[place >> 3] >> (place & 7)) & 1) === 1;
    if (!has(row)) return [];
    let before = 0; // rows before it that have a value
    for (let place = 0; place < row; ++place) before += has(place) ? 1 : 0;
    const begin =
      sizes === undefined ? before : sizes.slice(0, before).reduce((sum, size) => sum + size, 0);
    const size = sizes === undefined ? 1 : sizes[before];
    const own = (Object.values(values)[0] ?? []).slice(begin, begin + size);
    const texts = values.timestamp_us_values === undefined ? own : own.map(timeText);
    return [`${attribute}: ${texts.join(', ')}`];
  });
}

function neighborOf({ ids, scores, payloads = [], attributes = [] }, place) {
  const id = (ids.texts ?? ids.numbers)[place];
  const link = element('a', { className: 'id', href: '#search', textContent: id });
  link.addEventListener('click', () => {
    $('row-id').value = id;
    search();
  });
  // Bytes that are not UTF-8 are written as U+FFFD. Nine digits distinguish all scores.
  const payload = new TextDecoder().decode(decode(payloads[place] ?? ''));
  return element('li', {},
    element('span', { className: 'place', textContent: place + 1 }),
    link,
    element('span', { className: 'score', textContent: Number(scores[place]).toPrecision(9) }),
    element('pre', { textContent: payload }),
    element('p',
      { className: 'attributes', textContent: attributesOf(attributes, place).join(' · ') }));
}

// Shows a SearchResponse in the JSON of protobuf, which leaves empty fields out.
function showAnswer({ epoch = 0, results, cost = {} }) {
  const { scores = [] } = results[0];
  $('neighbors').replaceChildren(...scores.map((_, place) => neighborOf(results[0], place)));
  const time = (name) => duration(Number(cost[name] ?? 0) / 1e6);
  const scan = SCANS[lastWord(cost.scan_precision)];
  write($('search-note'), [
    `${scores.length} neighbors of epoch ${epoch}`,
    `${lastWord(cost.backend)} scanned ${scan ?? 'nothing'}`,
    `${count(cost.rows_scanned ?? 0)} rows, ${count(cost.candidates ?? 0)} candidates`,
    `waited ${time('queue_us')}, computed ${time('device_us')}, total ${time('total_us')}`,
  ].join(' · '));
}

async function search() {
  const button = $('search').querySelector('button');
  const [collection, id] = [$('collection').value, $('row-id').value];
  const rowId = forms.get(collection).id_type === 'uint64' ? { number: id } : { text: id };
  button.disabled = true;
  try {
    const [found] = await call('search', collection, {
      queries: [{ row_id: rowId }], k: $('k').valueAsNumber, with_payload: true, attributes: ['*'],
    });
    showAnswer(found);
  } catch (error) {
    $('neighbors').replaceChildren();
    write($('search-note'), error.message);
  } finally {
    button.disabled = false;
  }
}

$('search').addEventListener('submit', (event) => {
  event.preventDefault();
  search();
});

$('collection').addEventListener('change', offerExample);

export { adaptForm, ask, offerCollections, offerExample };
