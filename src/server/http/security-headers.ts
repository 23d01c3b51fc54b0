/**
 * On pages that are made of what a job left: they carry their own style and script, and may hold words
 * of the program. A sandbox keeps them apart from the dashboard: they have no cookie and can ask the
 * server for nothing.
 */
export const pageOfJobHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

/** On every answer. The page loads nothing from elsewhere, and no other site may put it into a frame. */
export const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};
