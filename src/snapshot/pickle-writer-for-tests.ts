/** Values as a test writes them; an object is a dict. `big` integers are bigints. */
export type Plain =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly Plain[]
  | { readonly [key: string]: Plain }
  | Tuple;

export class Tuple {
  readonly items: readonly Plain[];
  constructor(...items: readonly Plain[]) {
    this.items = items;
  }
}

/**
 * Pickles plain data as Python does, shared lists and dicts once, in protocol 2 to 5. With `rarely` it
 * uses opcodes for them that other writers use.
 */
export function pickle(
  value: Plain,
  protocol: 2 | 3 | 4 | 5 = 4,
  style: 'as Python' | 'rarely' = 'as Python',
): Uint8Array {
  const out: number[] = [];
  const memo = new Map<unknown, number>();
  const write = (one: Plain): void => {
    const known = typeof one === 'object' || typeof one === 'string' ? memo.get(one) : undefined;
    if (known !== undefined) get(out, known);
    else if (one === null) out.push(0x4e);
    else if (typeof one === 'boolean') out.push(one ? 0x88 : 0x89);
    else if (typeof one === 'number' && !Number.isInteger(one)) float(out, one);
    else if (typeof one === 'number' || typeof one === 'bigint') integer(out, one, style);
    else if (typeof one === 'string') {
      text(out, one, protocol, style);
      put(out, memo, one, protocol);
    } else if (one instanceof Tuple && style === 'rarely' && one.items.length < 4) {
      one.items.forEach(write);
      out.push(one.items.length === 0 ? 0x29 : 0x84 + one.items.length);
    } else if (one instanceof Tuple) {
      out.push(0x28);
      one.items.forEach(write);
      out.push(0x74);
      put(out, memo, one, protocol);
    } else if (isList(one)) list(one);
    else dict(one);
  };
  const list = (items: readonly Plain[]): void => {
    out.push(0x5d);
    put(out, memo, items, protocol);
    if (style === 'rarely') {
      for (const item of items) {
        write(item);
        // DUP, then POP; MARK and NONE, then POP_MARK; MARK, then POP; APPEND.
        out.push(0x32, 0x30, 0x28, 0x4e, 0x31, 0x28, 0x30, 0x61);
      }
      return;
    }
    for (let from = 0; from < items.length; from += 1000) {
      out.push(0x28);
      items.slice(from, from + 1000).forEach(write);
      out.push(0x65);
    }
  };
  const dict = (entries: { readonly [key: string]: Plain }): void => {
    if (style === 'as Python') {
      out.push(0x7d);
      put(out, memo, entries, protocol);
    }
    out.push(0x28);
    for (const [key, item] of Object.entries(entries)) {
      write(key);
      write(item);
    }
    out.push(style === 'as Python' ? 0x75 : 0x64);
    if (style === 'rarely') put(out, memo, entries, protocol);
  };
  write(value);
  out.push(0x2e);
  const frame = protocol >= 4 ? [0x95, ...little(BigInt(out.length), 8)] : [];
  return Uint8Array.from([0x80, protocol, ...frame, ...out]);
}

function isList(value: Plain): value is readonly Plain[] {
  return Array.isArray(value);
}

function put(out: number[], memo: Map<unknown, number>, one: unknown, protocol: number): void {
  const index = memo.size;
  memo.set(one, index);
  if (protocol >= 4) out.push(0x94);
  else if (index < 256) out.push(0x71, index);
  else out.push(0x72, ...little(BigInt(index), 4));
}

function get(out: number[], index: number): void {
  if (index < 256) out.push(0x68, index);
  else out.push(0x6a, ...little(BigInt(index), 4));
}

function text(out: number[], one: string, protocol: number, style: string): void {
  const bytes = new TextEncoder().encode(one);
  if (style === 'rarely') out.push(0x8d, ...little(BigInt(bytes.length), 8), ...bytes);
  else if (protocol >= 4 && bytes.length < 256) out.push(0x8c, bytes.length, ...bytes);
  else out.push(0x58, ...little(BigInt(bytes.length), 4), ...bytes);
}

function integer(out: number[], one: number | bigint, style: string): void {
  const value = BigInt(one);
  if (style === 'rarely' && value > 255n) out.push(0x8b, 9, 0, 0, 0, ...little(value, 9));
  else if (value >= 0n && value < 256n) out.push(0x4b, Number(value));
  else if (value >= 0n && value < 65_536n) out.push(0x4d, ...little(value, 2));
  else if (value >= -(2n ** 31n) && value < 2n ** 31n) out.push(0x4a, ...little(value, 4));
  else {
    let length = 1;
    while (value >= 2n ** BigInt(length * 8 - 1) || value < -(2n ** BigInt(length * 8 - 1))) {
      length += 1;
    }
    out.push(0x8a, length, ...little(value, length));
  }
}

function float(out: number[], one: number): void {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, one);
  out.push(0x47, ...new Uint8Array(view.buffer));
}

function little(value: bigint, length: number): number[] {
  return Array.from({ length }, (_, at) => Number((value >> BigInt(at * 8)) & 255n));
}
