// How a program reaches this server: its address, and on an empty server code to copy.
import { $, write } from './draw.js';
import { adaptForm, ask } from './search.js';

async function adaptStart() {
  const { address, python, shell, files, search } = await (await ask('start.json')).json();
  adaptForm(search);
  document.querySelectorAll('.address').forEach((each) => write(each, address));
  $('at').hidden = false;
  write($('python'), python);
  write($('shell'), shell);
  write($('files'), files.join('\n'));
}

// Shows the code while there is nothing to show instead.
function drawStart(metrics) {
  const isEmpty = metrics.get('nearfield_collections') === 0;
  $('start-card').hidden = !isEmpty;
  $('collections-card').hidden = isEmpty;
  $('search-card').hidden = isEmpty;
}

for (const button of document.querySelectorAll('button[data-copies]')) {
  button.addEventListener('click', () => {
    getSelection().selectAllChildren($(button.dataset.copies));
    // Unlike the Clipboard API, also on a page without TLS.
    write(button, document.execCommand('copy') ? 'Copied' : 'Press Ctrl+C');
  });
}

export { adaptStart, drawStart };
