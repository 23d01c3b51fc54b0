import type { Paint, Span } from '../spans.js';

/** Neighbours of one colour become one span, so that a line carries few escape sequences. */
export class Runs {
  readonly #done: Span[] = [];
  #text = '';
  #paint: Paint | undefined;

  add(text: string, paint: Paint | undefined): void {
    if (this.#text !== '' && paint !== this.#paint) {
      this.#done.push({ text: this.#text, paint: this.#paint });
      this.#text = '';
    }
    this.#paint = paint;
    this.#text += text;
  }

  /** What was added, and nothing left. */
  spans(): Span[] {
    if (this.#text !== '') this.#done.push({ text: this.#text, paint: this.#paint });
    this.#text = '';
    return this.#done;
  }
}

/** Spans whose neighbours of one colour are joined. */
export function merge(spans: readonly Span[]): Span[] {
  const runs = new Runs();
  for (const { text, paint } of spans) runs.add(text, paint);
  return runs.spans();
}
