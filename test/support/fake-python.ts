import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** In Python's place: the trace of a program that takes 100 MiB, and 10 MiB a sample. */
export function fakePython(folder: string): string {
  const path = join(folder, 'python3');
  const script = `#!/bin/sh
for word; do
  [ "$last" = --output ] && output=$word
  [ "$last" = --batch-size ] && batch=$word
  last=$word
done
cat > "$output" <<END
{"plimsoll":"trace","version":1,"torch":"2.11.0","workload":{"program":["train.py"]}}
["s",0,""]
["m","phase:building"]
["a",1,104857600,0,0,"w"]
["m","phase:steady steps"]
["a",2,$((batch * 10485760)),0,0,"x"]
["f",2]
{"end":true,"parameters":26214400,"parameterBytes":104857600,"notes":[]}
END
`;
  writeFileSync(path, script);
  chmodSync(path, 0o755);
  return path;
}
