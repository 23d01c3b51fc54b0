/** What the page of a run has beyond the common look. */
export const runStyle = `
.command { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 13.5px; background: var(--chip); padding: 8px 12px; border-radius: 4px; overflow-wrap: anywhere; margin: 18px 0 0; max-width: none; }
.hull { display: block; width: 100%; min-width: 140px; height: 22px; overflow: visible; }
.hull .room { fill: var(--chip); }
.hull .cargo { fill: var(--water); }
.hull .cargo.sunk { fill: var(--critical); }
.hull .line { stroke: var(--accent); stroke-width: 1.8; }
.rungs { list-style: none; margin: 14px 0 0; padding: 0; }
.rungs li { display: grid; grid-template-columns: 11.5em 1fr; gap: 0 14px; padding: 8px 0; border-bottom: 1px solid var(--rule); }
.rungs b { font-weight: 600; }
pre.said { white-space: pre-wrap; font-size: 12.5px; }
.said { border-left: 3px solid var(--critical); padding: 5px 0 5px 16px; margin: 14px 0 0; overflow-wrap: anywhere; max-width: 76ch; }
.outcome.succeeded { color: var(--allocated); } .outcome.failed { color: var(--critical); } .outcome.interrupted { color: var(--warning); }
@media (max-width: 640px) { .rungs li { grid-template-columns: 1fr; } .hull { min-width: 90px; } }
`;
