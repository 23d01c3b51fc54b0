import type { Frame } from '../snapshot.js';

/** Folders that hold what others wrote: installed packages, Python's own library, C++ sources. */
const library =
  /(?:site|dist)-packages\/|\/lib(?:64)?\/python\d|^<|\.(?:cpp|cc|cxx|cu|h|hpp|so)(?:\.|$)|^\?\?$|^$/;

/** The frame stands in the program of the user, not in a library. */
export function isOwn(frame: Frame): boolean {
  return !library.test(slashes(frame.file));
}

/**
 * A file for people: inside of packages, the path from the package on; else its last two parts.
 *
 * @example
 * shortFile('/venv/lib/python3.12/site-packages/torch/nn/functional.py'); // 'torch/nn/functional.py'
 */
export function shortFile(file: string): string {
  const path = slashes(file);
  const installed = /(?:site|dist)-packages\/(.+)$/.exec(path)?.[1];
  const own = /\/lib(?:64)?\/python\d[\d.]*\/(.+)$/.exec(path)?.[1];
  return installed ?? own ?? path.split('/').slice(-2).join('/');
}

/** Where a frame is: `train.py:21`. */
export function placeText({ file, line }: Frame): string {
  return `${shortFile(file)}:${line}`;
}

/** A frame on one line: `step (train.py:21)`. */
export function frameText(frame: Frame): string {
  return `${frame.name} (${placeText(frame)})`;
}

/** Code that only passes a call on; never the answer to "who holds it?". */
const passing =
  /\/(?:torch\/nn\/modules\/module|torch\/_compile|torch\/_dynamo\/eval_frame)\.py$|\/(?:contextlib|functools)\.py$/;
/** Models that stand around another model and do no work of their own. */
const wrapping = /\/(?:torch\/nn\/parallel|torch\/distributed|torch\/_dynamo|accelerate)\//;

/** The frame belongs to what hands a call on to a model: PyTorch's machinery, or a wrapper. */
export function isPassing({ file }: Frame): boolean {
  const path = slashes(file);
  return passing.test(path) || wrapping.test(path);
}

/**
 * The part of a program that allocated: the innermost frame that stands in no machinery of PyTorch,
 * with its file. Layers of a model are told apart where their files are.
 *
 * @example
 * moduleOf(frames); // 'transformers.models.gpt2.modeling_gpt2.forward'
 */
export function moduleOf(frames: readonly Frame[]): string | undefined {
  const frame = moduleFrame(frames);
  if (frame === undefined) return undefined;
  const path = shortFile(frame.file).replace(/\.py$/, '').replaceAll('/', '.');
  return `${path}.${frame.name}`;
}

/** The innermost frame that stands in no machinery of PyTorch. */
export function moduleFrame(frames: readonly Frame[]): Frame | undefined {
  return (
    frames.find(
      ({ file }) => !/^torch\/(?!optim\/)/.test(shortFile(file)) && !passing.test(slashes(file)),
    ) ?? frames.find(({ file }) => !passing.test(slashes(file)))
  );
}

/** The place in the user's own program that a call came from: the innermost own frame. */
export function ownFrame(frames: readonly Frame[]): Frame | undefined {
  return frames.find(isOwn);
}

function slashes(file: string): string {
  return file.replaceAll('\\', '/');
}
