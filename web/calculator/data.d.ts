/** Files that the build puts into the page as texts. */
declare module '*.jsonl' {
  const text: string;
  export default text;
}
