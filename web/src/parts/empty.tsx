import type { ComponentChildren } from 'preact';

/** Nothing is there yet: what that means, and what to type. */
export function Empty(props: { title: string; command?: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="title">{props.title}</p>
      <p>{props.children}</p>
      {props.command !== undefined && <pre>{props.command}</pre>}
    </div>
  );
}
