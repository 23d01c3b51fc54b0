import type { Failure } from '../../failure.js';
import { ByteReader } from '../files/byte-reader.js';
import type { ByteSource } from '../files/byte-source.js';
import { JsonReader } from '../files/json-reader.js';
import { limits } from '../limits.js';
import { badSafetensors } from './safetensors-header.js';

/** Names of files that an index lists, sorted. They must lie beside the index. */
export function readSafetensorsIndex(source: ByteSource, place: string): readonly string[] {
  const fail = (what: string): Failure => badSafetensors(place, what);
  const json = new JsonReader(new ByteReader(source, 0, source.size, fail), limits.nameBytes, fail);
  const names = new Set<string>();
  json.object((key) => {
    if (key !== 'weight_map') {
      json.skip();
      return;
    }
    json.object(() => {
      const name = json.text();
      // An index from a stranger must not send us to other folders.
      if (!/^[^/\\]+\.safetensors$/.test(name) || name.includes('\0')) {
        throw fail(`it lists "${name.slice(0, 60)}", which is not a safetensors file beside it`);
      }
      names.add(name);
      if (names.size > limits.shards) throw fail(`it lists over ${limits.shards} files`);
    });
  });
  json.end();
  if (names.size === 0) throw fail('its "weight_map" lists no file');
  return [...names].toSorted();
}
