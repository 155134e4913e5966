// The demo's page: news of the origin and of Rangeway, requests for ranges, and lines to copy.

const videoPath = '/range-test.mp4';
const logRows = 40;

const byId = (id) => document.getElementById(id);
const video = byId('video');

// ---- Numbers and words -------------------------------------------------------------------------------------------

const wholeNumber = new Intl.NumberFormat('en');

function formatBytes(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} KB` : `${(bytes / 1_000_000).toFixed(2)} MB`;
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// ---- What the origin has sent ------------------------------------------------------------------------------------

let videoBytes = 0;

function showOrigin({ files }) {
  const file = files[videoPath];
  if (file === undefined) return;
  videoBytes = file.sizeBytes;
  const share = file.latestBytes / file.sizeBytes;
  const percent = Math.floor(share * 100);
  byId('filled').style.width = `${share * 100}%`;
  byId('strip').setAttribute('aria-valuenow', String(percent));
  byId('size').textContent = `${formatBytes(file.latestBytes)} of ${formatBytes(file.sizeBytes)}`;
  byId('origin-requests').textContent = wholeNumber.format(file.requests);
  byId('origin-bytes').textContent = formatBytes(file.bytes);
  byId('state').textContent = sentenceOf(share, file.requests);
}

function sentenceOf(share, requests) {
  if (share < 1) {
    return 'The origin sends the file, slowly and from its first byte on. The player has asked for the end of it, where its index is, and gets it as soon as it is there.';
  }
  if (requests === 1) return 'Rangeway has the whole file. Jump wherever you like: the origin is not asked again.';
  return `Rangeway has the whole file. The origin was asked ${requests} times, by Rangeway or by someone who asked it directly.`;
}

// ---- What Rangeway has answered ----------------------------------------------------------------------------------

function showRequest(request) {
  byId('client-requests').textContent = wholeNumber.format(request.total.requests);
  byId('client-bytes').textContent = formatBytes(request.total.bytes);
  const log = byId('log');
  const failed = request.status >= 400;
  const outcome = request.outcome === 'none' ? '–' : request.outcome;
  log.prepend(
    element(
      'tr',
      {},
      element('td', { textContent: request.range ?? 'none' }),
      element('td', { textContent: request.status, className: failed ? 'failed' : '' }),
      element('td', { textContent: outcome, className: outcome === 'hit' ? 'hit' : '' }),
      element('td', { textContent: formatBytes(request.bytesSent), className: 'number' }),
      element('td', { textContent: `${Math.round(request.durationMs)} ms`, className: 'number' }),
    ),
  );
  while (log.rows.length > logRows) log.lastElementChild.remove();
  for (const span of spansOf(request)) mark(span);
}

/** The spans that a request has read, half-open; of several ranges only where they lie is known. */
function spansOf({ range, status, bytesSent }) {
  if (videoBytes === 0 || status >= 300) return [];
  if (status === 200 || range === undefined) return [{ start: 0, end: bytesSent }];
  const specs = range.replace(/^bytes=/i, '').split(',');
  return specs.map((spec) => {
    const [first, last] = spec.trim().split('-');
    const start = first === '' ? videoBytes - Number(last) : Number(first);
    const asked = first === '' || last === '' ? videoBytes : Number(last) + 1;
    return { start, end: specs.length === 1 ? Math.min(start + bytesSent, asked) : asked };
  });
}

function mark({ start, end }) {
  const bar = element('i');
  bar.style.left = `min(${(start / videoBytes) * 100}%, 100% - 4px)`;
  bar.style.width = `${((end - start) / videoBytes) * 100}%`;
  const marks = byId('marks');
  marks.append(bar);
  while (marks.childElementCount > logRows) marks.firstElementChild.remove();
}

// ---- Ask for bytes -----------------------------------------------------------------------------------------------

/**
 * The browser's own cache is left out, so that it is Rangeway that answers. A browser would then ask every cache on the
 * way not to answer either; max-stale in its place keeps Rangeway free to.
 */
async function ask(range) {
  return fetch(videoPath, { headers: { range, 'cache-control': 'max-stale' }, cache: 'no-store' });
}

const tellingFields = ['content-range', 'cache-status'];

async function showReply(range) {
  const response = await ask(range);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const fields = [...response.headers].map(([name, value]) =>
    element('span', { className: tellingFields.includes(name) ? 'key' : '', textContent: `${name}: ${value}\n` }),
  );
  byId('reply-head').replaceChildren(
    element('span', { className: 'key', textContent: `${response.status} ${response.statusText}\n` }),
    ...fields,
  );
  byId('reply-body').textContent = isBinary(response) ? hexDump(bytes) : readable(bytes);
  byId('reply-sentence').textContent = `${range}: ${meaningOf(response, bytes.length)}`;
  byId('reply').hidden = false;
}

function meaningOf({ status, headers }, size) {
  if (status === 416) return `there are no such bytes; the file ends before (${headers.get('content-range')}).`;
  if (status !== 206) return `the whole file, ${formatBytes(size)}.`;
  if (headers.has('content-range')) return `${wholeNumber.format(size)} bytes, and not one more.`;
  return 'both ranges in one answer, each with its own Content-Range.';
}

function isBinary(response) {
  return response.headers.get('content-type') === 'video/mp4';
}

/** Text as text, its line ends kept. */
function readable(bytes) {
  return [...bytes].map((byte) => (byte === 0x0d || byte === 0x0a ? String.fromCharCode(byte) : characterOf(byte))).join('');
}

/** An ASCII character, or a dot for a byte that is none to be seen. */
function characterOf(byte) {
  return byte > 0x1f && byte < 0x7f ? String.fromCharCode(byte) : '·';
}

/** The first kilobyte, in hexadecimal and as characters; as many bytes a line as the screen is wide for. */
function hexDump(bytes) {
  const perLine = matchMedia('(max-width: 44rem)').matches ? 8 : 16;
  const lines = [];
  for (let start = 0; start < Math.min(bytes.length, 1024); start += perLine) {
    const row = [...bytes.subarray(start, start + perLine)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const characters = row.map(characterOf).join('');
    lines.push(`${hex.padEnd(perLine * 3 - 1)}  ${characters}`);
  }
  return lines.join('\n');
}

// ---- Lines to copy -----------------------------------------------------------------------------------------------

function showTrials({ origin, isFollowed, trials }) {
  if (!isFollowed) document.body.dataset.unfollowed = '';
  const withAddresses = (text) => text.replaceAll('{origin}', origin).replaceAll('{rangeway}', location.origin);
  byId('here').textContent = location.origin;
  byId('there').textContent = origin;
  byId('direct').href = origin;
  if (location.origin === origin) showDirect();
  byId('trials').replaceChildren(
    ...trials.map(({ title, command, shows }) => {
      const line = withAddresses(command);
      const copy = element('button', { type: 'button', textContent: 'Copy' });
      copy.setAttribute('aria-label', `Copy: ${title}`);
      copy.addEventListener('click', () => copyLine(copy, line));
      return element(
        'li',
        {},
        element('p', { textContent: `${title}:` }),
        element('div', { className: 'line' }, element('pre', { textContent: line }), copy),
        element('p', { className: 'shows', textContent: withAddresses(shows) }),
      );
    }),
  );
}

/** The page as its origin shows it to those who come without Rangeway. */
function showDirect() {
  byId('title').textContent = 'This video does not seek.';
  byId('lede').textContent =
    'You are at the origin itself: it sends whole files only. Press a jump button, and the player starts over, or stays where it is.';
  document.body.dataset.direct = '';
}

async function copyLine(button, line) {
  let told = 'Copied';
  try {
    await navigator.clipboard.writeText(line);
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    told = 'Selected';
  }
  button.textContent = told;
  setTimeout(() => (button.textContent = 'Copy'), 1500);
}

// ---- Begin -------------------------------------------------------------------------------------------------------

for (const button of document.querySelectorAll('[data-second]')) {
  button.addEventListener('click', () => {
    video.currentTime = Number(button.dataset.second);
  });
}

for (const button of document.querySelectorAll('[data-range]')) {
  button.addEventListener('click', async () => {
    button.ariaBusy = 'true';
    try {
      await showReply(button.dataset.range);
    } catch {
      byId('reply-sentence').textContent = 'No answer: is the demo still running?';
      byId('reply-head').textContent = '';
      byId('reply-body').textContent = '';
      byId('reply').hidden = false;
    } finally {
      button.ariaBusy = 'false';
    }
  });
}

const news = new EventSource('/demo-events');
news.addEventListener('open', () => {
  // The stream begins with what was told already, also when it begins again.
  byId('log').replaceChildren();
  byId('marks').replaceChildren();
});
news.addEventListener('stats', ({ data }) => showOrigin(JSON.parse(data)));
news.addEventListener('request', ({ data }) => {
  const request = JSON.parse(data);
  if (request.target === videoPath) showRequest(request);
});
news.addEventListener('error', () => {
  if (news.readyState !== EventSource.OPEN) byId('state').textContent = 'The demo has stopped, or cannot be reached.';
});

showTrials(await (await fetch('/demo.json')).json());
