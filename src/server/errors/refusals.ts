import { Failure } from '../../failure.js';
import { serverLimits } from '../http/limits.js';

function refusal(code: string, fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code, fact, next });
}

/** Words from outside are shown so far that a person knows them again. */
export function shown(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}

export function unknownRoute(method: string, path: string): Failure {
  return refusal(
    'unknown-route',
    `There is no ${method} ${shown(path)}.`,
    'GET /openapi.json lists all routes.',
  );
}

export function wrongMethod(method: string, path: string, allowed: readonly string[]): Failure {
  return refusal(
    'wrong-method',
    `${shown(path)} does not take ${method}.`,
    `It takes ${allowed.join(', ')}.`,
  );
}

export function noPage(): Failure {
  return refusal(
    'no-page',
    'The dashboard is not there: its files were not built.',
    'Run "npm run build"; the API works without it (GET /openapi.json).',
  );
}

export function bodyTooLarge(maxBytes: number): Failure {
  return refusal(
    'body-too-large',
    `The body has more than ${maxBytes} bytes.`,
    'Put long input into a file, and name the file.',
  );
}

export function wrongContentType(contentType: string | undefined): Failure {
  return refusal(
    'wrong-content-type',
    contentType === undefined
      ? 'The request does not say what its body is.'
      : `The body is "${shown(contentType)}".`,
    'Send JSON, with the header "Content-Type: application/json".',
  );
}

export function packedBody(packing: string): Failure {
  return refusal(
    'packed-body',
    `Compressed bodies are not accepted: "${shown(packing)}".`,
    'Send it as it is, without Content-Encoding.',
  );
}

export function tooManyBodies(): Failure {
  return refusal(
    'too-busy',
    'Too many requests are being received at the same time.',
    'Ask again in a moment.',
  );
}

/** For the log and the metrics; the client is gone. */
export function clientLeft(): Failure {
  return refusal('client-left', 'The client left while it was sending.', 'Send it again.');
}

export function badJson(why: string): Failure {
  return refusal('bad-json', `The body is not JSON: ${why}.`, 'Correct it and send it again.');
}

export function addressTooLong(): Failure {
  return refusal(
    'address-too-long',
    `The address has more than ${serverLimits.urlCharacters} letters.`,
    'Shorten it; no address of this server needs so many.',
  );
}

export function badAddress(): Failure {
  return refusal(
    'bad-address',
    'The address of the request cannot be read.',
    'Write it as RFC 3986 has it: a path that begins with "/", and percent signs as %25.',
  );
}

export function brokenRequest(why: string): Failure {
  return refusal(
    'broken-request',
    `Malformed HTTP request: ${why}.`,
    'Correct it, or use a client.',
  );
}

export function headersTooLarge(): Failure {
  return refusal(
    'headers-too-large',
    `The headers have more than ${serverLimits.headerBytes} bytes.`,
    'Send fewer; most often it is cookies of other programs on this host name.',
  );
}

export function slowRequest(): Failure {
  return refusal(
    'slow-request',
    `The request did not arrive whole within ${serverLimits.requestSeconds} seconds.`,
    'Send it again, without pauses.',
  );
}

export function tooManyStreams(): Failure {
  return refusal(
    'too-many-streams',
    `The limit of ${serverLimits.eventStreams} open event streams is reached.`,
    'Close some of them, or ask again later.',
  );
}

export function tooManyAnswers(): Failure {
  return refusal(
    'too-many-answers',
    `${serverLimits.answersAtOnce} estimates and plans are being made.`,
    'Ask again when one of them is done.',
  );
}

export function tooBusy(): Failure {
  return refusal(
    'too-busy',
    'Too many answers wait for slow clients.',
    'Ask again in a moment, or for less: limit= of GET /jobs.',
  );
}

export function closing(): Failure {
  return refusal(
    'closing',
    'The server is being closed.',
    'Ask again when it is back; jobs go on.',
  );
}
