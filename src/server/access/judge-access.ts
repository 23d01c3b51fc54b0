import { Failure } from '../../failure.js';
import { addressTooLong, shown } from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';
import { type HostPolicy, isOwnHost, readHost } from './hosts.js';
import { type BrowserHeaders, isOwnOrigin } from './same-origin.js';

/** What of a request decides whether it is let in at all. */
export interface Arrival {
  readonly method: string;
  /** Path and query; or a whole address, as for a proxy. */
  readonly url: string;
  /** Every `Host` header; there must be one. */
  readonly hosts: readonly string[];
  readonly headers: BrowserHeaders;
}

/** Why a request is refused before anybody looks at what it asks for; undefined lets it in. */
export function judgeAccess(
  { method, url, hosts, headers }: Arrival,
  policy: HostPolicy,
): Failure | undefined {
  if (url.length > serverLimits.urlCharacters) return addressTooLong();
  const [text, ...more] = hosts;
  if (text === undefined || more.length > 0) return noHost();
  const host = readHost(text);
  if (host === undefined || !isOwnHost(host, policy)) return foreignHost(text);
  // Where the address names a host itself, that one counts, and a proxy may have gone by either.
  const named = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1];
  if (named !== undefined) {
    const target = readHost(named);
    if (target === undefined || !isOwnHost(target, policy)) return foreignHost(named);
  }
  const path = url.split('?', 1)[0] ?? '';
  if (isOwnOrigin(headers, { host, path, method }, policy.allowed)) return undefined;
  return foreignOrigin(headers.origin);
}

function noHost(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-host',
    fact: 'The request has no Host header, or more than one.',
    next: 'Send one Host header.',
  });
}

function foreignHost(text: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'foreign-host',
    fact: `The request is for the host "${shown(text)}", which is not a name of this server.`,
    next: 'Use localhost or the address it listens on, or start the server with that name: plimsoll serve --allow-host NAME',
  });
}

function foreignOrigin(origin: string | undefined): Failure {
  return new Failure({
    kind: 'input',
    code: 'foreign-origin',
    fact: `The request comes from ${origin === undefined ? 'a page of another site' : `"${shown(origin)}"`}.`,
    next: 'Use the page of this server, or a program that is not a browser.',
  });
}
