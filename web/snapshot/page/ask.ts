import type { Kind, Questions, Reply } from '../messages.js';

export type Ask = <Name extends Kind>(
  kind: Name,
  ask: Questions[Name]['ask'],
) => Promise<Questions[Name]['answer']>;

/** Starts the thread that holds the recording. Its program stands in the page. */
export function openWorker(program: string, failed: (why: string) => void): Ask {
  const blob = new Blob([program], { type: 'text/javascript' });
  const worker = new Worker(URL.createObjectURL(blob));
  const waiting = new Map<number, (event: MessageEvent) => void>();
  let last = 0;
  worker.addEventListener('message', (event: MessageEvent<Reply<Kind>>) => {
    const { id } = event.data;
    waiting.get(id)?.(event);
    waiting.delete(id);
  });
  worker.addEventListener('error', (event) => failed(event.message || 'its worker did not start'));
  return <Name extends Kind>(kind: Name, ask: Questions[Name]['ask']) =>
    new Promise<Questions[Name]['answer']>((resolve, reject) => {
      last += 1;
      waiting.set(last, ({ data }: MessageEvent<Reply<Name>>) => {
        if ('answer' in data) resolve(data.answer);
        else {
          failed(data.failed);
          reject(new Error(data.failed));
        }
      });
      worker.postMessage({ id: last, kind, ask }, []);
    });
}

/** Only the newest of many questions is worth an answer: the ones between are never asked. */
export function newestOnly<Input>(work: (input: Input) => Promise<void>): (input: Input) => void {
  let next: { input: Input } | undefined;
  let busy = false;
  const go = async () => {
    busy = true;
    try {
      while (next) {
        const { input } = next;
        next = undefined;
        await work(input);
      }
    } finally {
      busy = false;
    }
  };
  return (input) => {
    next = { input };
    // What failed was said where the answer came in.
    if (!busy) go().catch(() => undefined);
  };
}
