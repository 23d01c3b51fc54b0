// Serves the bytes of a file, and does nothing else: what any program in Node takes.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const page = readFileSync(process.argv[2]);
const server = createServer((_, response) => response.end(page));
server.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ place: `http://127.0.0.1:${server.address().port}/` }));
});
