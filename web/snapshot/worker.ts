/** The thread that holds the recording and answers the page. Nothing here draws. */
import { describeLife } from './answer/describe.js';
import { eventsBetween } from './answer/near.js';
import { flameOf, openedOf, stackOf } from './answer/open.js';
import { stateAt } from './answer/state.js';
import { viewOf } from './answer/view.js';
import { openRecording, type Recording, unpack } from './data/recording.js';
import type { Kind, Question, Questions } from './messages.js';

const pieces: string[] = [];
let recording: Recording | undefined;

addEventListener('message', ({ data }: MessageEvent<Question>) => {
  answer(data).then(
    (found) => postMessage({ id: data.id, answer: found }, { transfer: buffersOf(found) }),
    (error: unknown) => postMessage({ id: data.id, failed: String(error) }),
  );
});

async function answer(question: Question): Promise<Questions[Kind]['answer']> {
  if (question.kind === 'piece') return pieces.push(question.ask);
  if (question.kind === 'open') {
    const data = await unpack(pieces.splice(0));
    recording = openRecording(data);
    return openedOf(recording, data);
  }
  if (recording === undefined) throw new Error('the recording is not open yet');
  switch (question.kind) {
    case 'view':
      return viewOf(recording, question.ask);
    case 'state':
      return stateAt(recording, question.ask);
    case 'near':
      return eventsBetween(recording, ...question.ask);
    case 'life':
      return describeLife(recording, question.ask);
    case 'stack':
      return stackOf(recording, question.ask);
    case 'flame':
      return flameOf(recording, question.ask);
    default:
      return question satisfies never;
  }
}

/** Pictures are handed over, not copied. */
function buffersOf(found: Questions[Kind]['answer']): ArrayBuffer[] {
  if (typeof found === 'number' || !('shades' in found)) return [];
  const { shades, ids } = found;
  return [shades.buffer, ids.buffer].filter((buffer) => buffer instanceof ArrayBuffer);
}
