/** A problem can come in endless variants; beyond this many they tell nothing new. */
const maxNotes = 100;

/** Sentences for people, each kept once. */
export class Notes {
  readonly #notes = new Set<string>();

  add(note: string): void {
    if (this.#notes.size < maxNotes) this.#notes.add(note);
  }

  all(): readonly string[] {
    return [...this.#notes];
  }
}
