import { type HostName, isAllowedHost, readHost } from './hosts.js';

export interface BrowserHeaders {
  readonly origin?: string | undefined;
  readonly 'sec-fetch-site'?: string | undefined;
  readonly 'sec-fetch-mode'?: string | undefined;
  readonly 'sec-fetch-dest'?: string | undefined;
}

/**
 * Whether a request may come from where it comes from: our own page, or a program that is no
 * browser. `host` is what the request was sent to, and has been checked; TLS may end at a proxy, so
 * either scheme is ours.
 */
export function isOwnOrigin(
  headers: BrowserHeaders,
  request: { readonly host: HostName; readonly path: string; readonly method: string },
  allowed: readonly string[],
): boolean {
  if (headers.origin !== undefined && !isOwn(headers.origin, request.host, allowed)) return false;
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return true;
  // A link to the page, in a chat or a wiki: the page itself holds nothing, and loads the rest as ours.
  return (
    request.method === 'GET' &&
    request.path === '/' &&
    headers['sec-fetch-mode'] === 'navigate' &&
    headers['sec-fetch-dest'] === 'document'
  );
}

const usualPorts: Readonly<Record<string, string>> = { http: '80', https: '443' };

function isOwn(origin: string, host: HostName, allowed: readonly string[]): boolean {
  const [, scheme = '', rest = ''] = /^(https?):\/\/(.+)$/.exec(origin) ?? [];
  const from = readHost(rest);
  if (from === undefined) return false;
  // Browsers leave the usual port out of an origin; a proxy may put it into the host.
  const isSamePort =
    from.port === host.port || (from.port === '' && host.port === usualPorts[scheme]);
  return (from.name === host.name && isSamePort) || isAllowedHost(from, allowed);
}
