import { type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import { readServerNote, usualSocket } from '../../server/service/server-file.js';
import { socketArgument } from '../options/arguments.js';
import { tokenOfHome } from '../options/serve-token.js';

/** The address of "plimsoll serve" unless it was given another. */
const usualServer = 'http://127.0.0.1:8000';

export interface ServerAddress {
  /** Without a slash at its end. */
  readonly url: string;
  readonly token?: string | undefined;
  /** Its local socket: the kernel tells it who asks, and no token is needed. */
  readonly socket?: string | undefined;
  /**
   * It was not named, there is no token to prove itself with, and no process of ours serves there:
   * what listens on that port may be anybody's, and is not spoken to.
   */
  readonly isForeign?: boolean;
}

export interface ServerArguments {
  readonly server?: string;
  readonly socket?: string;
  readonly json?: boolean;
}

/** Every command that speaks to a server takes these. */
export function addServerOptions(command: Command): Command {
  return command
    .option('--server <url>', `server address (your own server, else ${usualServer})`)
    .option('--socket <path>', 'local socket of a server, where no token is needed', socketArgument)
    .option('--json', 'print one JSON document on stdout');
}

/** The server that was named, or that of this home, or that for all accounts, or where one usually is. */
export function findServer(
  given: ServerArguments,
  environment: Readonly<Record<string, string | undefined>>,
  shared: string = usualSocket,
): ServerAddress {
  const { server } = given;
  const home = homeFolder(environment);
  const socket = namedSocket(given, environment);
  if (socket !== undefined) return atSocket(socket, environment);
  const note = readServerNote(home);
  const named = server ?? (environment['PLIMSOLL_SERVER'] || undefined);
  if (named === undefined && note === undefined && hasSharedSocket(shared)) {
    return atSocket(shared, environment);
  }
  const url = checkedUrl(named ?? note?.url ?? usualServer, server === undefined);
  const own = note !== undefined && sameOrigin(note.url, url) ? note : undefined;
  const kept = note === undefined && named === undefined ? tokenOfHome(home) : undefined;
  const token = environment['PLIMSOLL_TOKEN'] || (own?.token ?? kept);
  const isNamed = named !== undefined || token !== undefined;
  const isForeign = !isNamed && (own === undefined || !isAlive(own.pid));
  return { url, token, ...(isForeign && { isForeign }) };
}

/** A word on the command line goes before a variable. */
function namedSocket(
  { server, socket }: ServerArguments,
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const [variable, ofServer] = [environment['PLIMSOLL_SOCKET'], environment['PLIMSOLL_SERVER']];
  const isTwice = server !== undefined && socket !== undefined;
  const isTwiceSet = [server, socket].every((one) => one === undefined) && variable && ofServer;
  if (isTwice || isTwiceSet) {
    const [one, other] = isTwice
      ? ['--server', '--socket']
      : ['PLIMSOLL_SERVER', 'PLIMSOLL_SOCKET'];
    throw new Failure({
      kind: 'input',
      code: isTwice ? 'bad-option' : 'bad-variable',
      fact: `${one} and ${other} name two servers.`,
      next: 'Leave one of them out.',
    });
  }
  return socket ?? (server === undefined ? variable || undefined : undefined);
}

function atSocket(
  path: string,
  environment: Readonly<Record<string, string | undefined>>,
): ServerAddress {
  checkSocket(path);
  return {
    url: 'http://localhost',
    socket: path,
    token: environment['PLIMSOLL_TOKEN'] || undefined,
  };
}

function checkedUrl(text: string, fromVariable: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.username === '') {
    return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
  }
  throw new Failure({
    kind: 'input',
    code: fromVariable ? 'bad-variable' : 'bad-option',
    fact: `${fromVariable ? 'PLIMSOLL_SERVER' : '--server'} cannot be "${text.slice(0, 200)}".`,
    next: `It takes an address, such as ${usualServer}.`,
  });
}

/** Of another user is not alive for us: a server of ours would be our own. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function sameOrigin(one: string, other: string): boolean {
  return new URL(one).origin === new URL(other).origin;
}

/** Returns the name of a server for people. */
export function placeOf({ url, socket }: ServerAddress): string {
  return socket ?? url;
}

/** Programs and folders are the same for us and for the server. */
export function isOnThisMachine({ url }: Pick<ServerAddress, 'url'>): boolean {
  const { hostname } = new URL(url);
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.[\d.]+$/.test(hostname);
}

/** Whether a server of this machine listens there for all accounts, or did before it was killed. */
function hasSharedSocket(path: string): boolean {
  const stats = statOf(path);
  return stats?.isSocket() === true && isSafe(path, stats, process.getuid?.());
}

/**
 * Refuses a socket that another account could have put there: it would be sent jobs and their
 * secrets. One that is not there is found out when it is asked.
 */
export function checkSocket(path: string, uid = process.getuid?.()): void {
  const stats = statOf(path);
  if (stats === undefined || isSafe(path, stats, uid)) return;
  throw new Failure({
    kind: 'input',
    code: 'unsafe-socket',
    fact: `Another account could have put the socket ${path} there.`,
    next: 'Use one in a folder that only root, or the account of the server, can write to.',
  });
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    // Its folder is closed to us, and so is the socket.
    return undefined;
  }
}

/** Only root, we, or the owner of the folder can have put it there, or can replace it. */
function isSafe(path: string, { uid: owner }: Stats, uid: number | undefined): boolean {
  const folder = statSync(dirname(path));
  const isOurs = owner === 0 || owner === uid;
  const isOpen = (folder.mode & 0o022) !== 0;
  const isSticky = (folder.mode & 0o1000) !== 0;
  return isOpen ? isOurs && isSticky : isOurs || owner === folder.uid;
}
