import { isIPv6 } from 'node:net';

/**
 * Where an address belongs: itself, or of IPv6 its first 64 bits, since a host with one such address
 * has all that begin like it.
 *
 * @example
 * networkOf('2001:db8::7'); // '2001:db8:0:0'
 * networkOf('::ffff:192.0.2.7'); // '192.0.2.7'
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [front = [], back = []] = address
    .split('::')
    .map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(Math.max(0, 8 - front.length - back.length)).fill('0');
  return [...front, ...zeros, ...back].slice(0, 4).join(':').toLowerCase();
}
