import { Failure } from '../failure.js';

/** Longer than any token that an identity provider makes. */
const maxSecretCharacters = 16_384;

/**
 * An address of Prometheus as people write it; a path is kept, as a proxy may have one.
 *
 * @example
 * prometheusUrl('http://prometheus:9090/'); // 'http://prometheus:9090'
 */
export function prometheusUrl(text: string, source: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.username !== '' || url.password !== '')) {
    throw new Failure({
      kind: 'input',
      code: 'bad-option',
      fact: `${source} holds a user or a password. Every user of this machine can see them there.`,
      next: 'Put "basic USER:PASSWORD" into PLIMSOLL_PROMETHEUS_AUTH, or into the file of --prometheus-auth-file.',
    });
  }
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol)) {
    return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
  }
  throw new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `${source} cannot be "${text.slice(0, 200)}".`,
    next: 'It takes an address, such as http://prometheus:9090.',
  });
}

/**
 * What is sent in the header `Authorization`.
 *
 * @example
 * authorizationOf('bearer abc', 'PLIMSOLL_PROMETHEUS_AUTH'); // 'Bearer abc'
 */
export function authorizationOf(text: string, source: string): string {
  const [, kind = '', secret = ''] = /^\s*(bearer|basic)\s+(\S.*?)\s*$/is.exec(text) ?? [];
  const isPrintable = /^[\x21-\x7e]+$/.test(secret) && secret.length <= maxSecretCharacters;
  if (kind.toLowerCase() === 'bearer' && isPrintable) return `Bearer ${secret}`;
  if (kind.toLowerCase() === 'basic' && /^[^:\n]+:[^\n]*$/.test(secret)) {
    return `Basic ${Buffer.from(secret.slice(0, maxSecretCharacters)).toString('base64')}`;
  }
  throw new Failure({
    kind: 'input',
    code: 'bad-prometheus-auth',
    fact: `${source} holds neither a token nor a user with a password.`,
    next: 'Write "bearer TOKEN" or "basic USER:PASSWORD" there.',
  });
}
