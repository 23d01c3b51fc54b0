/**
 * Something that happens, for its listeners. Parts that are built first emit; those that are built
 * later listen, so that no part has to know of one that is not there yet.
 *
 * @example
 * const changed = new Signal<string>();
 * changed.listen((id) => console.log(id));
 * changed.emit('7');
 */
export class Signal<Value = void> {
  readonly #listeners: ((value: Value) => void)[] = [];

  listen(listener: (value: Value) => void): void {
    this.#listeners.push(listener);
  }

  emit(value: Value): void {
    for (const listener of this.#listeners) listener(value);
  }
}
