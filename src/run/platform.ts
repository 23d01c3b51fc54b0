import { Failure } from '../failure.js';

/** Refuses Windows, which has neither process groups nor signals. */
export function checkPlatform(what: string, platform: NodeJS.Platform = process.platform): void {
  if (platform !== 'win32') return;
  throw new Failure({
    kind: 'missing',
    code: 'not-on-windows',
    fact: `"${what}" needs process groups and signals, which Windows does not have.`,
    next: 'Run it inside WSL.',
  });
}
