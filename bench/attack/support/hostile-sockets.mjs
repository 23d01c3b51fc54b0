// Connections of strangers: no token, and no intention to behave.
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { openFilesOf } from './leftovers.mjs';
import { until } from './place.mjs';

/** The loopback network has 16 million addresses: strangers need not come from the owner's. */
export function strangersAddress(number) {
  return `127.0.${1 + (number % 3)}.${1 + (number % 250)}`;
}

/** Resolves when it is open; one that is refused or closed is what the server decides. */
export function openSocket(url, { from, bytes = '' } = {}) {
  const { port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port: Number(port), localAddress: from });
    socket.on('error', () => resolve(socket));
    socket.once('connect', () => {
      if (bytes.length > 0) socket.write(bytes);
      resolve(socket);
    });
    // Nothing is read until somebody does: the window fills.
    socket.pause();
  });
}

export function destroyAll(sockets) {
  for (const socket of sockets) socket.destroy();
}

export function get(path, { host, token } = {}) {
  const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`;
  return `GET ${path} HTTP/1.1\r\nHost: ${host ?? '127.0.0.1'}\r\n${authorization}\r\n`;
}

/** The largest file of the page, which everyone may read. */
export async function largestPageFile(url) {
  const page = await (await fetch(url)).text();
  const [, path] = /<script[^>]+src="([^"]+)"/.exec(page) ?? [];
  return path === undefined ? '/' : new URL(path, `${url}/`).pathname;
}

/** Every connection that the attack closed must be closed on the other side, too. */
export async function judgeSockets(server, before, findings, withinMs = 150_000) {
  const isBack = () => openFilesOf(server.pid) <= before + 4;
  if (await until(isBack, { everyMs: 250, withinMs })) return;
  findings.left.push(
    `${openFilesOf(server.pid) - before} open files of the server more than before`,
  );
}

/** The owner's answers after the attack, when nothing is left of it. */
export async function judgeService(server, findings) {
  await wait(500);
  for (let number = 0; number < 20; number++) {
    const { status } = await server.ask('GET', '/jobs?limit=1');
    if (status !== 200)
      findings.wrong.push(`after the attack GET /jobs was answered with ${status}`);
  }
}
