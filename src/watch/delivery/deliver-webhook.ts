import { Failure } from '../../failure.js';
import { type Clock, systemClock } from '../../time/clock.js';
import {
  callable,
  checkArguments,
  checkOptions,
  object,
  seconds,
  string,
  whole,
} from '../../units/arguments.js';
import { type AlertSink, createDeliveryQueue } from './deliver.js';

export interface WebhookDeliveryOptions {
  /** For each attempt: 10 s unless told otherwise. */
  readonly timeoutSeconds?: number;
  /** Attempts for each alert: 3 unless told otherwise. */
  readonly attempts?: number;
  /** Before the second attempt, doubled before each further one: 1 s unless told otherwise. */
  readonly backoffSeconds?: number;
  /** Sent along, for example an `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  readonly fetch?: typeof fetch;
}

/**
 * Posts each alert as JSON to an address, in the order in which they were raised. No answer, 429
 * and 5xx are tried again; 100 alerts may wait.
 *
 * @example
 * watch({ deliver: [deliverToWebhook('https://hooks.example.org/memory')] });
 */
export function deliverToWebhook(address: string, options: WebhookDeliveryOptions = {}): AlertSink {
  checkArguments('deliverToWebhook', { address }, { address: string });
  checkOptions('deliverToWebhook', options, {
    timeoutSeconds: seconds,
    attempts: whole(1),
    backoffSeconds: seconds,
    headers: object,
    clock: object,
    fetch: callable,
  });
  const url = webhookUrl(address);
  const clock = options.clock ?? systemClock;
  const attempts = options.attempts ?? 3;
  const send = options.fetch ?? fetch;

  /** Undefined when it was taken; else what went wrong and whether to try again. */
  async function post(
    body: string,
    stop: AbortSignal,
  ): Promise<{ problem: string; again: boolean } | undefined> {
    const timeoutSeconds = options.timeoutSeconds ?? 10;
    const over = new AbortController();
    const giveUp = (): void => over.abort();
    stop.addEventListener('abort', giveUp, { once: true });
    void clock.waitUntil(clock.seconds() + timeoutSeconds, over.signal).then(giveUp);
    try {
      const response = await send(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...options.headers },
        body,
        // A redirected POST becomes a GET of some page, which would look like a success.
        redirect: 'manual',
        signal: over.signal,
      });
      await response.body?.cancel().catch(() => {});
      if (response.ok) return undefined;
      const again = response.status === 429 || response.status >= 500;
      return { problem: `it answered ${response.status}.`, again };
    } catch (error) {
      if (over.signal.aborted) return { problem: `no answer in ${timeoutSeconds} s.`, again: true };
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      return { problem: cause instanceof Error ? cause.message : String(cause), again: true };
    } finally {
      over.abort();
      stop.removeEventListener('abort', giveUp);
    }
  }

  return createDeliveryQueue({
    // Only the origin: the path of a webhook is often its secret.
    name: `The alert webhook at ${url.origin}`,
    concurrency: 1,
    capacity: 100,
    work: async (alert, stop) => {
      const body = JSON.stringify(alert);
      for (let attempt = 1; ; attempt++) {
        const failure = await post(body, stop);
        if (!failure) return;
        if (!failure.again || attempt >= attempts || stop.aborted) throw new Error(failure.problem);
        const pause = (options.backoffSeconds ?? 1) * 2 ** (attempt - 1);
        await clock.waitUntil(clock.seconds() + pause, stop);
      }
    },
  });
}

function webhookUrl(address: string): URL {
  if (!URL.canParse(address)) {
    return refuse('The webhook is not a URL.', 'Write it like https://example.org/hook.');
  }
  const url = new URL(address);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return refuse(`The webhook is a ${url.protocol} URL.`, 'It must be http: or https:.');
  }
  if (url.username !== '' || url.password !== '') {
    return refuse(
      'The webhook has a user name or a password in its URL.',
      'Send them as an authorization header instead.',
    );
  }
  return url;
}

function refuse(fact: string, next: string): never {
  throw new Failure({ kind: 'input', code: 'bad-webhook', fact, next });
}
