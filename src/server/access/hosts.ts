import { isIP } from 'node:net';
import { Failure } from '../../failure.js';

/** Names under which a server on this machine is always meant. */
const ownNames: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

/** A name or address, as in the header: `[::1]:8000` has the name `[::1]`. */
export interface HostName {
  readonly name: string;
  readonly port: string;
}

/** Undefined where it is no host at all. */
export function readHost(text: string): HostName | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?$/i.exec(text);
  if (!match) return undefined;
  const [, name = '', port = ''] = match;
  // A name with the dot of the root is the same name.
  return { name: name.toLowerCase().replace(/\.$/, ''), port };
}

/** Only programs of this machine reach it. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (bare === 'localhost' || bare === '::1') return true;
  return /^(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(bare);
}

/** Listens on every address that the machine has. */
export function isWildcard(host: string): boolean {
  return ['', '0.0.0.0', '::', '[::]'].includes(host);
}

export interface HostPolicy {
  /** The address of the server. */
  readonly listening: string;
  /** Further names, with or without a port, as a proxy in front has them. */
  readonly allowed: readonly string[];
}

/**
 * Whether a request means this server. A page of somebody else can point its own name at our address
 * (DNS rebinding) and then speak to us as if it were ours; its requests carry that name. Where the
 * server listens on all addresses, any bare address is fine: an address cannot be rebound.
 */
export function isOwnHost(host: HostName, { listening, allowed }: HostPolicy): boolean {
  if (ownNames.has(host.name)) return true;
  if (isAllowedHost(host, allowed)) return true;
  if (isWildcard(listening)) return isIP(host.name.replace(/^\[(.*)\]$/, '$1')) !== 0;
  return bracketed(listening).toLowerCase() === host.name;
}

/** One without a port stands for all ports. */
export function isAllowedHost(host: HostName, allowed: readonly string[]): boolean {
  return allowed.some((text) => {
    const one = readHost(bracketed(text));
    return one?.name === host.name && (one.port === '' || one.port === host.port);
  });
}

/** One that is written in another way would never be met: better to say so at the start. */
export function checkAllowedHosts(allowed: readonly string[]): void {
  const wrong = allowed.find((text) => readHost(bracketed(text)) === undefined);
  if (wrong === undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-allowed-host',
    fact: `"${wrong.slice(0, 100)}" is not a valid host name.`,
    next: 'Write it as in an address: gpu.example, or gpu.example:8000.',
  });
}

/** An address with colons stands in brackets wherever a port may follow. */
export function bracketed(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host;
}
