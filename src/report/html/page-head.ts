import { html, Markup } from './markup.js';
import { pageStyle } from './style.js';

/** Nothing may be fetched by the page, whatever stands in the data. */
const closed = "default-src 'none'; style-src 'unsafe-inline'";

export interface PageHead {
  readonly title: string;
  readonly version: string;
  /** Beside the style that all pages share. */
  readonly style?: string;
  /** The page has scripts of its own, which may start a worker from a text that is in the page. */
  readonly scripts?: boolean;
}

/** How each page begins, up to its body. */
export function pageHead({ title, version, style = '', scripts = false }: PageHead): Markup {
  const policy = scripts
    ? `${closed}; script-src 'unsafe-inline'; worker-src blob:; child-src blob:`
    : closed;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="generator" content="plimsoll ${version}">
<title>${title}</title>
<style>${new Markup(pageStyle)}${new Markup(style)}</style>
</head>`;
}
