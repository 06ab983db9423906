// What the words of the page mean. An element with data-term shows it while the pointer is on it,
// and when it has the focus.
const TERMS = {
  searches: 'Searches that ended, of all callers. A search may have many queries.',
  refused: 'Calls that met a limit of the server, such as the length of its queue. '
    + 'Callers may try again.',
  latency: 'Time of a search in the server, without the network. p50: half of the searches '
    + 'were faster. p99: 99 of 100 were.',
  waited: 'A search waits until the passes before it end; then one pass computes the answers of '
    + 'all searches that wait.',
  precision: 'What the first pass over the rows reads: int8 codes, which take one byte for each '
    + 'dimension and are faster, or the exact rows. The answers are the same.',
  certified: 'Proven exact: bounds on the error of the codes show that no row outside the answer '
    + 'can score higher than a row in it.',
  escalated: 'Queries with more candidates than fit into the space reserved for them, answered by '
    + 'a slower scan. It costs time, never exactness.',
  pass: 'One pass over the rows of a collection answers all queries that wait for it.',
  audit: 'The oracle is a slow, obviously correct program that scores every row. A sample of the '
    + 'answers is computed again by it: ids and all bits of the scores must be equal.',
  audited: 'Answers whose ids and scores were compared with those of the oracle.',
  dropped: 'Sampled answers that were not checked, because the audit may use only a small share '
    + 'of one core.',
  scrub: 'Reads the rows in memory again and compares them with those on disk, slowly and '
    + 'continuously.',
  collections: 'A collection holds rows of one form: an id, a vector, and perhaps attributes '
    + 'and a payload.',
  deleted: 'Deleted rows whose memory is not released yet. No search finds them.',
  vectors: 'Numbers in a vector, their type, and the metric that scores them: cosine, dot '
    + '(product) or l2 (distance). A higher score is always better.',
  scan: 'What scans of this collection read first: int8 codes or the exact rows. The answers are '
    + 'the same.',
  generations: 'Unchanging parts of a collection. A commit adds one; they are merged in the '
    + 'background.',
  rowMemory: 'Memory of vectors, their codes, norms and order: what scans read.',
  idMemory: 'Memory of ids, payloads and attributes.',
  epoch: 'Number of the state of a collection. Each commit makes the next one; an answer names '
    + 'the epoch that it is exact for.',
  memory: 'In use and reserved, next to its limit. An upload that does not fit is refused before '
    + 'its first row.',
  storedId: 'Finds the rows that are nearest to a stored row. That row is left out.',
  k: 'How many neighbors to find.',
  attributes: 'Typed values of rows, which filters compare.',
  filterCache: 'Results of recently used filters.',
  termNumbers: 'Numbers of attributes that row terms of recent searches read.',
  queue: 'Searches that wait.',
  requests: 'Calls that are being read or answered.',
  replies: 'Replies that callers have not read yet.',
};

// Makes an element explain a term.
function explain(target, term = target.dataset.term) {
  target.tabIndex = 0;
  target.dataset.tip = TERMS[term];
  target.setAttribute('aria-description', TERMS[term]);
  return target;
}

document.querySelectorAll('[data-term]').forEach((each) => explain(each));
document.addEventListener('keydown', ({ key }) => {
  if (key === 'Escape') document.activeElement?.blur();
});

export { explain };
