import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/** Ray gives the ports below to its workers. */
const lowest = 20_000;
const usualFirstEphemeral = 32_768;

/**
 * Ports that are free on every address. They lie outside of the ephemeral range: the system gives a port of
 * that range to any program that connects, so it could be taken before our service listens on it.
 */
export async function freePorts(count: number): Promise<readonly number[]> {
  const found = new Set<number>();
  const highest = Math.max(lowest + 10_000, firstEphemeral());
  while (found.size < count) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest));
    if (await isFree(port)) found.add(port);
  }
  return [...found];
}

function firstEphemeral(): number {
  try {
    return Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10);
  } catch {
    return usualFirstEphemeral;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '0.0.0.0', () => server.close(() => resolve(true)));
  });
}
