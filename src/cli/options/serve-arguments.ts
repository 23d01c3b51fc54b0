import { badArgument } from './arguments.js';

export function portArgument(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw badArgument('--port', text, 'It takes a number from 0 (any free port) to 65535.');
}

export function socketArgument(text: string): string {
  if (text !== '' && !text.includes('\0')) return text;
  throw badArgument('--socket', text, 'It takes a path, such as /srv/plimsoll/server.sock.');
}

export function hostsArgument(text: string, before: readonly string[] = []): readonly string[] {
  if (/^[\w.:[\]-]{1,255}$/.test(text)) return [...before, text];
  throw badArgument('--allow-host', text, 'It takes a name, such as gpu.example.org.');
}
