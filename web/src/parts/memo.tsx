import { Component, type ComponentChildren } from 'preact';

/** A component that is drawn again only when `same` says that its properties differ. */
export function memo<P extends object>(
  draw: (props: P) => ComponentChildren,
  same: (one: P, other: P) => boolean,
) {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return !same(this.props, next);
    }
    override render(): ComponentChildren {
      return draw(this.props);
    }
  };
}
