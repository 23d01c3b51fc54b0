/** What the page of a snapshot adds to the look of all pages. */
export const snapshotStyle = `
main { max-width: 1180px; }
.chart-box { position: relative; margin-top: 14px; border: 1px solid var(--rule); border-radius: 6px; background: var(--card); overflow: hidden; }
.chart-box canvas { display: block; width: 100%; touch-action: pan-y; cursor: crosshair; }
.chart-box:focus-visible, .flame:focus-visible, .segment-map:focus-visible { outline: 2px solid var(--water); outline-offset: 2px; }
.chart-box .overlay { position: absolute; inset: 0; pointer-events: none; }
.controls { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 10px; align-items: center; }
button { font: inherit; font-size: 13.5px; color: var(--ink); background: var(--chip); border: 1px solid var(--rule); border-radius: 6px; padding: 4px 11px; cursor: pointer; }
button:hover { border-color: var(--soft); }
button[aria-pressed="true"] { background: var(--ink); color: var(--ground); }
button:focus-visible { outline: 2px solid var(--water); outline-offset: 1px; }
.choices { display: inline-flex; margin-right: 6px; }
.choices button { border-radius: 0; margin-left: -1px; }
.choices button:first-child { border-radius: 6px 0 0 6px; margin-left: 0; }
.choices button:last-child { border-radius: 0 6px 6px 0; }
input[type="number"] { font: inherit; font-size: 13.5px; width: 8.5em; color: var(--ink); background: var(--card); border: 1px solid var(--soft); border-radius: 6px; padding: 3px 8px; }
label { font-size: 13.5px; }
.keys { margin-top: 4px; }
.keys summary { cursor: pointer; }
.stack-list, .near { list-style: none; margin: 8px 0 0; padding: 0; }
.stack-list { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(420px, 100%), 1fr)); gap: 1px 18px; }
.stack-list button, .near button { width: 100%; text-align: left; background: none; border: 0; padding: 3px 4px; display: flex; gap: 9px; align-items: baseline; border-radius: 4px; color: var(--ink); }
.stack-list button:hover, .stack-list button[aria-pressed="true"], .near button:hover, .near button[aria-current] { background: var(--chip); color: var(--ink); }
.stack-list i { flex: none; width: 11px; height: 11px; border-radius: 2px; align-self: center; }
.stack-list b { flex: none; width: 5.6em; text-align: right; font-weight: 600; }
.stack-list span, .near small { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.near { border: 1px solid var(--rule); border-radius: 6px; background: var(--card); max-height: 310px; overflow-y: auto; padding: 4px; }
.near:empty { display: none; }
.near i { flex: none; width: 6.5em; text-align: right; font-style: normal; color: var(--soft); }
.near span { flex: none; }
.near button[aria-current] { box-shadow: inset 3px 0 0 var(--accent); }
.link { background: none; border: 0; padding: 0; text-align: left; color: var(--ink); text-decoration: underline; text-decoration-color: var(--soft); text-underline-offset: 3px; overflow-wrap: anywhere; }
.state-words { margin-top: 12px; max-width: 90ch; min-height: 3.1em; }
.state-bar { display: flex; height: 14px; margin-top: 10px; border-radius: 4px; overflow: hidden; background: var(--chip); }
.state-bar i { display: block; height: 100%; }
#bar-used, .legend .used { background: var(--water); }
#bar-pending, .legend .pending { background: var(--warning); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin-top: 5px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; vertical-align: -1px; }
.legend .cached { background: var(--chip); box-shadow: inset 0 0 0 1px var(--soft); }
.frames { margin: 12px 0 0; padding: 10px 14px; border-left: 3px solid var(--water); background: var(--card); font-size: 13.5px; max-height: min(300px, 40vh); overflow: auto; scroll-margin: 12px; }
.frames p { margin-bottom: 6px; max-width: none; overflow-wrap: anywhere; }
.frames ol { margin: 0; padding-left: 26px; }
.frames li { overflow-wrap: anywhere; padding: 1px 0; }
.frames li b { font-weight: 500; }
.frames li.own b { font-weight: 700; }
.frames li span { color: var(--soft); font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 12px; margin-left: 6px; }
.frames summary { cursor: pointer; color: var(--soft); }
.flame { margin-top: 12px; overflow: hidden; border-radius: 6px; }
.flame canvas { display: block; width: 100%; cursor: pointer; }
.segment-map { margin-top: 12px; border: 1px solid var(--rule); border-radius: 6px; background: var(--card); max-height: 520px; overflow-y: auto; }
.segment-map canvas { display: block; width: 100%; }
.holders td.name { font-size: 13.5px; }
@media (max-width: 640px) {
  .stack-list button, .near button { flex-wrap: wrap; gap: 0 9px; padding: 5px 4px; }
  .stack-list span { flex: 1 1 12em; white-space: normal; overflow-wrap: anywhere; }
  .near i { width: auto; }
  .near span { flex: 1 1 auto; }
  .near small { flex: 1 1 100%; white-space: normal; overflow-wrap: anywhere; }
  .controls button { padding: 7px 11px; }
}
@media print { .controls, .near, .keys, .chart-box, .flame, .segment-map, .readout { display: none; } }
`;
