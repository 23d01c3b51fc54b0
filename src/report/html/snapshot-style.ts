/** What the page of a snapshot adds to the look of all pages. */
export const snapshotStyle = `
main { max-width: 1180px; }
.chart-box { position: relative; margin-top: 14px; border: 1px solid var(--rule); border-radius: 6px; background: var(--card); overflow: hidden; }
.chart-box canvas { display: block; width: 100%; touch-action: none; cursor: crosshair; }
.chart-box:focus-visible, .flame:focus-visible, .segment-map:focus-visible { outline: 2px solid var(--water); outline-offset: 2px; }
.chart-box .overlay { position: absolute; inset: 0; pointer-events: none; }
.controls { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 10px; align-items: center; }
button { font: inherit; font-size: 13.5px; color: var(--ink); background: var(--chip); border: 1px solid var(--rule); border-radius: 6px; padding: 4px 11px; cursor: pointer; }
button:hover { border-color: var(--soft); }
button[aria-pressed="true"] { background: var(--ink); color: var(--ground); }
button:focus-visible { outline: 2px solid var(--water); outline-offset: 1px; }
.stack-list { list-style: none; margin: 12px 0 0; padding: 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); gap: 1px 18px; }
.stack-list button { width: 100%; text-align: left; background: none; border: 0; padding: 3px 4px; display: flex; gap: 9px; align-items: baseline; border-radius: 4px; }
.stack-list button:hover, .stack-list button[aria-pressed="true"] { background: var(--chip); color: var(--ink); }
.stack-list i { flex: none; width: 11px; height: 11px; border-radius: 2px; align-self: center; }
.stack-list b { flex: none; width: 5.6em; text-align: right; font-weight: 600; }
.stack-list span { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.frames { margin: 12px 0 0; padding: 10px 14px; border-left: 3px solid var(--water); background: var(--card); font-size: 13.5px; max-height: 300px; overflow: auto; }
.frames p { margin-bottom: 6px; max-width: none; }
.frames ol { margin: 0; padding-left: 26px; font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 12.5px; }
.frames li { overflow-wrap: anywhere; }
.flame { position: relative; margin-top: 12px; overflow: hidden; border-radius: 6px; }
.flame div { position: absolute; height: 21px; line-height: 20px; padding: 0 5px; font-size: 12px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; border: 1px solid var(--card); border-radius: 3px; cursor: pointer; color: #10151b; }
.flame div.chosen { outline: 2px solid var(--ink); outline-offset: -2px; }
.segment-map { margin-top: 12px; border: 1px solid var(--rule); border-radius: 6px; background: var(--card); max-height: 520px; overflow-y: auto; }
.segment-map canvas { display: block; width: 100%; }
.holders td.name { font-size: 13.5px; }
@media (max-width: 640px) { .stack-list { grid-template-columns: minmax(0, 1fr); } }
@media print { .controls, .flame, .segment-map, .readout { display: none; } }
`;
