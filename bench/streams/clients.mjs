// A thousand clients in one process. All count what arrives; some of them read the time that an event
// carries, so that counting does not become the bottleneck.
import { connect } from 'node:net';
import { epochMs } from './epoch-ms.mjs';

const [port, count, readers] = process.argv.slice(2).map(Number);
/** In every event, once: it ends a line that begins an event. */
const mark = Buffer.from('\nevent: ');
const time = /"epochMs":(\d+(?:\.\d+)?)/;
/** Opened in groups, as the queue of the operating system for new connections is short. */
const atOnce = 50;

let events = 0;
let bytes = 0;
let cut = 0;
let delays = [];
for (let at = 0; at < count; at += atOnce) {
  const group = Math.min(atOnce, count - at);
  await Promise.all(Array.from({ length: group }, (_, index) => open(at + index < readers)));
}
process.on('message', (word) => {
  process.send({ word, events, bytes, cut, delays });
  [events, bytes, delays] = [0, 0, []];
});
process.send({ word: 'ready' });

function open(reads) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.write('GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n');
    });
    socket.once('error', reject);
    socket.once('data', resolve);
    socket.once('close', () => (cut += 1));
    socket.on('data', reads ? reader() : counter());
  });
}

/** A mark that lies across two pieces is found by looking at the end of the last one again. */
function counter() {
  let tail = Buffer.alloc(0);
  return (piece) => {
    bytes += piece.length;
    const seam = Buffer.concat([tail, piece.subarray(0, mark.length - 1)]);
    events += marksIn(seam) + marksIn(piece);
    tail = Buffer.from(piece.subarray(-(mark.length - 1)));
  };
}

function marksIn(buffer) {
  let found = 0;
  for (let at = buffer.indexOf(mark); at !== -1; at = buffer.indexOf(mark, at + 1)) found += 1;
  return found;
}

function reader() {
  let text = '';
  return (piece) => {
    bytes += piece.length;
    text += piece.toString('latin1');
    for (;;) {
      const end = text.indexOf('\n\n');
      if (end === -1) return;
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      // A chunk's own line may stand before the first.
      if (!/(^|\n)event: /.test(event)) continue;
      events += 1;
      const sent = time.exec(event)?.[1];
      if (sent !== undefined) delays.push(epochMs() - Number(sent));
    }
  };
}
