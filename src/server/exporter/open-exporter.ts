import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { alertSinks, openDevices, type Settings } from '../../config/settings.js';
import { selectDevices } from '../../device/select-devices.js';
import { openOutputFile } from '../../files/output-file.js';
import { type Clock, systemClock } from '../../time/clock.js';
import type { DeviceState } from '../../watch/types.js';
import { isLoopback, isOwnHost, readHost } from '../access/hosts.js';
import { Exchanges, securityHeaders, stopParsingWhenClosed } from '../http/exchanges.js';
import { serverLimits } from '../http/limits.js';
import { closeServers, listen, StrangerConnections } from '../http/listen.js';
import { type NodeWatch, openNodeWatch } from './node-watch.js';

export interface ExporterOptions {
  readonly settings: Settings;
  readonly host: string;
  readonly port: number;
  readonly token?: string | undefined;
  /** For the textfile collector of node_exporter: the page is written there, and it does not listen. */
  readonly textfile?: string | undefined;
  readonly maxProcesses: number;
  readonly node: string;
  readonly version: string;
  readonly folder: string;
  /** Lines for the person who runs it. */
  readonly log: (line: string) => void;
}

export interface Exporter {
  /** The place of the page: an address, or a file. */
  readonly place: string;
  readonly states: () => readonly DeviceState[];
  /** Whether every device was read at least once. */
  hasReadAll(): boolean;
  readonly notes: readonly string[];
  close(): Promise<void>;
}

/** Opens all of it, or nothing. */
export async function openExporter(options: ExporterOptions): Promise<Exporter> {
  const { settings, folder } = options;
  const isAllowed = await gateOf(options);
  const deliver = alertSinks(settings.deliver, folder);
  const discovery = await openDevices(settings);
  try {
    const chosen = selectDevices(discovery.devices, settings.devices);
    const node = openNodeWatch({
      discovery,
      // Without names, devices that appear later are watched, too.
      devices: settings.devices.length === 0 ? undefined : chosen,
      watch: {
        intervalSeconds: settings.intervalSeconds,
        processIntervalSeconds: settings.processIntervalSeconds,
        thresholds: settings.alerts,
        deliver,
      },
      loadLine: settings.loadLinePercent / 100,
      maxProcesses: options.maxProcesses,
      node: options.node,
      version: options.version,
      clock: systemClock,
    });
    const page = await publish(node, isAllowed, options).catch(async (error: unknown) => {
      await node.close();
      throw error;
    });
    return {
      place: page.place,
      states: () => node.states(),
      hasReadAll: () => node.states().length >= chosen.length,
      notes: discovery.notes,
      async close() {
        await page.close();
        await node.close();
        discovery.close();
      },
    };
  } catch (error) {
    discovery.close();
    throw error;
  }
}

interface Page {
  readonly place: string;
  close(): Promise<void>;
}

type IsAllowed = (authorization: string | undefined) => boolean;

/** Loaded where a token is asked for: cryptography takes some megabytes. */
async function gateOf({ host, token }: ExporterOptions): Promise<IsAllowed> {
  if (token === undefined) return () => true;
  const { bearerToken, checkToken, isSameSecret } = await import('../access/token.js');
  checkToken(host, token);
  return (authorization) => isSameSecret(bearerToken(authorization) ?? '', token);
}

async function publish(
  node: NodeWatch,
  isAllowed: IsAllowed,
  options: ExporterOptions,
): Promise<Page> {
  const { host, port, textfile } = options;
  if (textfile !== undefined) return writeRegularly(node, textfile, options);
  const server = createExporterServer({
    host,
    isAllowed,
    page: sharedPage(() => node.text(), systemClock, options.settings.intervalSeconds),
    fault: (error) => options.log(`The metrics cannot be written: ${String(error)}`),
  });
  const { url } = await listen(server, host, port);
  server.on('error', (error) => options.log(`It cannot take a connection: ${error.message}`));
  return {
    place: `${url}/metrics`,
    close: () => closeServers([server], () => {}, systemClock),
  };
}

/** However often the devices are read, a page is made at most so often. */
const pageSeconds = 1;

/** One page for all who ask before the next sample, so that a flood of requests costs one page. */
function sharedPage(text: () => string, clock: Clock, intervalSeconds: number): () => Buffer {
  const seconds = Math.min(pageSeconds, intervalSeconds);
  let made: { readonly page: Buffer; readonly at: number } | undefined;
  return () => {
    const now = clock.seconds();
    if (made === undefined || now - made.at >= seconds) {
      made = { page: Buffer.from(text()), at: now };
    }
    return made.page;
  };
}

/** After each reading of the processes; a disk that is full for a while does not end it. */
function writeRegularly(
  node: NodeWatch,
  textfile: string,
  { settings, folder, log }: ExporterOptions,
): Page {
  const file = openOutputFile(textfile, folder);
  const stopping = new AbortController();
  let trouble = '';
  async function loop(): Promise<void> {
    let due = systemClock.seconds();
    while (!stopping.signal.aborted) {
      due += settings.processIntervalSeconds;
      await systemClock.waitUntil(due, stopping.signal);
      if (stopping.signal.aborted) return;
      try {
        file.write(node.text());
        trouble = '';
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        if (text !== trouble) log(text);
        trouble = text;
      }
    }
  }
  const looping = loop();
  return {
    place: textfile,
    async close() {
      stopping.abort();
      await looping;
    },
  };
}

/** Prometheus keeps one open; a flood must not fill the memory. Beyond it the oldest is closed. */
const connections = 64;

interface ExporterListenerOptions {
  readonly host: string;
  /** Whether it may read, by its `Authorization` header. */
  readonly isAllowed: (authorization: string | undefined) => boolean;
  /** The metrics, as they are when somebody asks. */
  readonly page: () => Buffer;
  /** A fault of ours. */
  readonly fault: (error: unknown) => void;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A server of one page; it does not listen yet. */
function createExporterServer(options: ExporterListenerOptions): Server {
  const exchanges = new Exchanges();
  const strangers = new StrangerConnections(connections);
  const server = createServer(
    {
      maxHeaderSize: serverLimits.headerBytes,
      headersTimeout: serverLimits.headersSeconds * 1000,
      requestTimeout: serverLimits.requestSeconds * 1000,
      keepAliveTimeout: serverLimits.keepAliveSeconds * 1000,
    },
    (request, response) =>
      exchanges.take(server, request, response, () =>
        send(request, response, answerTo(request, options)),
      ),
  );
  server.on('connection', (socket) => {
    stopParsingWhenClosed(socket);
    strangers.add(socket);
  });
  server.timeout = serverLimits.silentSeconds * 1000;
  return server;
}

function answerTo(request: IncomingMessage, options: ExporterListenerOptions): Answer {
  const { method, url = '', headers } = request;
  const { host } = options;
  const named = readHost(headers.host ?? '');
  // A page in a browser could point its own name at this machine; beyond loopback all may ask.
  if (isLoopback(host) && !(named && isOwnHost(named, { listening: host, allowed: [] }))) {
    return plain(403, 'foreign-host: Use localhost or the address that it listens on.');
  }
  if (!options.isAllowed(headers.authorization)) {
    const challenge = { 'www-authenticate': 'Bearer' };
    return {
      ...plain(401, 'token-needed: Send "Authorization: Bearer TOKEN".'),
      headers: challenge,
    };
  }
  const path = url.split('?', 1)[0];
  if (path === '/') return plain(200, 'plimsoll exporter: the metrics are at /metrics');
  if (path !== '/metrics') return plain(404, 'unknown-route: The metrics are at /metrics.');
  if (method !== 'GET' && method !== 'HEAD') {
    return { ...plain(405, 'wrong-method: Use GET.'), headers: { allow: 'GET, HEAD' } };
  }
  try {
    return {
      status: 200,
      type: 'text/plain; version=0.0.4; charset=utf-8',
      body: options.page(),
    };
  } catch (error) {
    options.fault(error);
    return plain(500, 'internal-error: See the log of the exporter.');
  }
}

function plain(status: number, text: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', body: `${text}\n` };
}

function send(
  { method }: IncomingMessage,
  response: ServerResponse,
  { status, type, body, headers }: Answer,
): void {
  response.writeHead(status, {
    ...securityHeaders,
    ...headers,
    'content-type': type,
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
  });
  response.end(method === 'HEAD' ? undefined : body);
}
