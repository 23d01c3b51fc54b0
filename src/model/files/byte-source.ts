/** Bytes that can be read from any place: a file on disk, or memory in tests. */
export interface ByteSource {
  readonly size: number;
  /** Fills `into` from `position` on; answers how many bytes there were. */
  read(into: Buffer, position: number): number;
}
