import { alertSinks } from '../../config/alert-sinks.js';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import { selectDevices } from '../../device/select-devices.js';
import { openOutputFile } from '../../files/output-file.js';
import { systemClock } from '../../time/clock.js';
import type { DeviceState } from '../../watch/types.js';
import { closeServers } from '../http/close-server.js';
import { listen } from '../http/listen.js';
import { createExporterServer } from './exporter-listener.js';
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
  /** Where the page is: an address, or a file. */
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
    text: () => node.text(),
    fault: (error) => options.log(`The metrics cannot be written: ${String(error)}`),
  });
  const { url } = await listen(server, host, port);
  server.on('error', (error) => options.log(`It cannot take a connection: ${error.message}`));
  return {
    place: `${url}/metrics`,
    close: () => closeServers([server], () => {}, systemClock),
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
