/** A program that takes so much of the host's memory, and prints what it has at the end. */
export function takingMemory(bytes: number): readonly string[] {
  const program = `
import sys, time
held = []
for _ in range(int(sys.argv[1]) // 4194304):
    held.append(bytearray(b"x") * 4194304)
print("took", len(held) * 4194304)
# Long enough for the supervisor to see what it has.
time.sleep(2)
`;
  return ['python3', '-c', program, String(bytes)];
}
