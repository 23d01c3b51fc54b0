import { Failure } from '../../failure.js';

/** Where Ray's dashboard listens on a head that says nothing else. */
const usualAddress = 'http://127.0.0.1:8265';

/**
 * The dashboard that is meant: by the option, Ray's own variables, the configuration, else this machine.
 *
 * @example
 * rayAddress('http://head:8265/', {}, undefined); // 'http://head:8265'
 */
export function rayAddress(
  option: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  configured: string | undefined,
): string {
  if (option !== undefined) return checked(option, '--address');
  const server = environment['RAY_API_SERVER_ADDRESS'];
  if (server) return checked(server, 'RAY_API_SERVER_ADDRESS');
  // Ray uses the same variable for the address of its nodes, which is no URL.
  const address = environment['RAY_ADDRESS'];
  if (address?.startsWith('http')) return checked(address, 'RAY_ADDRESS');
  return configured === undefined ? usualAddress : checked(configured, 'ray.address');
}

function checked(text: string, from: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
  if (url === undefined || !isWeb || url.username !== '' || url.search !== '' || url.hash !== '') {
    throw new Failure({
      kind: 'input',
      code: 'bad-option',
      fact: `${from} cannot be "${text.slice(0, 200)}".`,
      next: 'Write the address of the dashboard, such as http://head:8265',
    });
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}
