import { Failure } from '../../failure.js';
import { readConfigValues } from '../config/read-config.js';
import { limits } from '../limits.js';

/** A config comes within a second; a hub that is silent so long does not answer. */
const patienceMs = 60_000;
const usualEndpoint = 'https://huggingface.co';
/** Organization and name, each as the hub allows them; nothing that could lead elsewhere. */
const hubName = /^(?:[\w][\w.-]{0,95}\/)?[\w][\w.-]{0,95}$/;

/** Who asks the hub, and where it is. */
export interface HubAccess {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Downloads the config.json of a model, and nothing else, from the hub that `HF_ENDPOINT` names, with
 * `HF_TOKEN` where it is set. Answers its text, checked to be the config of a model.
 *
 * @example
 * await downloadConfig('openai-community/gpt2', { environment: process.env });
 */
export async function downloadConfig(name: string, access: HubAccess): Promise<string> {
  if (!hubName.test(name) || name.includes('..')) {
    throw hubFailure(name, 'a hub has no such names', 'Write it as organization/name.');
  }
  const address = addressOf(name, access.environment['HF_ENDPOINT'] ?? usualEndpoint);
  const token = access.environment['HF_TOKEN'];
  const text = await textAt(address, name, token, access.signal);
  const bytes = Buffer.from(text);
  readConfigValues(
    { size: bytes.length, read: (into, from) => bytes.copy(into, 0, from) },
    address.href,
  );
  return text;
}

function addressOf(name: string, endpoint: string): URL {
  const base = endpoint.endsWith('/') ? endpoint : `${endpoint}/`;
  if (!/^https?:\/\//i.test(base) || !URL.canParse(base)) {
    throw hubFailure(
      name,
      `HF_ENDPOINT is "${endpoint.slice(0, 100)}", which is not a web address`,
      'Correct it, or unset it.',
    );
  }
  return new URL(`${name}/resolve/main/config.json`, base);
}

async function textAt(
  address: URL,
  name: string,
  token: string | undefined,
  signal: AbortSignal | undefined,
): Promise<string> {
  const patience = AbortSignal.timeout(patienceMs);
  try {
    const answer = await fetch(address, {
      headers: token ? { authorization: `Bearer ${token}` } : {},
      signal: signal === undefined ? patience : AbortSignal.any([signal, patience]),
    });
    if (!answer.ok) {
      await answer.body?.cancel();
      throw refused(name, answer.status, token !== undefined);
    }
    return await limitedText(answer, name);
  } catch (error) {
    if (error instanceof Failure || signal?.aborted) throw error;
    const why = error instanceof Error ? (causeOf(error) ?? error.message) : String(error);
    throw hubFailure(
      name,
      `${address.host} cannot be asked (${why.slice(0, 120)})`,
      'Check the network and HF_ENDPOINT, or leave --hub out.',
      error,
    );
  }
}

function causeOf({ cause }: Error): string | undefined {
  return cause instanceof Error && cause.message !== '' ? cause.message : undefined;
}

/** Counted while it comes: the size that a server names may be wrong. */
async function limitedText(answer: Response, name: string): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of answer.body ?? []) {
    bytes += piece.length;
    if (bytes > limits.configBytes) {
      throw hubFailure(
        name,
        `its config.json is larger than ${limits.configBytes} bytes`,
        'Check the name.',
      );
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

function refused(name: string, status: number, hasToken: boolean): Failure {
  if (status === 404) {
    return hubFailure(name, 'the hub has no config.json of that name', 'Check the name.');
  }
  if (status === 401 || status === 403) {
    return hubFailure(
      name,
      `the hub does not give it to this user (${status})`,
      hasToken
        ? 'Check the name, HF_TOKEN, and whether its terms were accepted on the hub.'
        : 'Check the name; for a gated model set HF_TOKEN.',
    );
  }
  return hubFailure(name, `the hub answered ${status}`, 'Try again later.');
}

function hubFailure(name: string, why: string, next: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'missing',
    code: 'hub-failed',
    fact: `The config of "${name.slice(0, 200)}" was not downloaded: ${why}.`,
    next,
    cause,
  });
}
