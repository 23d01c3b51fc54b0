/** Opcodes that import, call, or reach outside of the file, and what each would do. */
export const refusedOpcodes: ReadonlyMap<number, readonly [name: string, what: string]> = new Map([
  [0x63, ['GLOBAL', 'import a name']],
  [0x93, ['STACK_GLOBAL', 'import a name']],
  [0x52, ['REDUCE', 'call a function']],
  [0x69, ['INST', 'import and call a class']],
  [0x6f, ['OBJ', 'call a class']],
  [0x81, ['NEWOBJ', 'call a class']],
  [0x92, ['NEWOBJ_EX', 'call a class']],
  [0x62, ['BUILD', 'set the state of an object']],
  [0x82, ['EXT1', 'import a registered name']],
  [0x83, ['EXT2', 'import a registered name']],
  [0x84, ['EXT4', 'import a registered name']],
  [0x50, ['PERSID', 'ask the program for an object']],
  [0x51, ['BINPERSID', 'ask the program for an object']],
  [0x97, ['NEXT_BUFFER', 'ask the program for a buffer']],
  [0x98, ['READONLY_BUFFER', 'change a buffer of the program']],
]);

/** Opcodes of protocol 0, written as text; protocols 2 to 5 do not use them. */
export const textOpcodes: ReadonlyMap<number, string> = new Map([
  [0x46, 'FLOAT'],
  [0x49, 'INT'],
  [0x4c, 'LONG'],
  [0x53, 'STRING'],
  [0x56, 'UNICODE'],
  [0x67, 'GET'],
  [0x70, 'PUT'],
]);
