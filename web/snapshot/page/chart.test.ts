import { describe, expect, it } from 'vitest';
import { ChartView } from './chart.js';

const GiB = 2 ** 30;

/** 1,001 ticks; the last 500 take nine tenths of ten seconds. */
function chart(): ChartView {
  const time = { ticks: Uint32Array.of(0, 500, 1000), seconds: Float64Array.of(0, 1, 10) };
  const made = new ChartView({ ticks: 1001, time });
  made.fullHigh = 8 * GiB;
  return made;
}

describe('the part of a recording that a chart shows', () => {
  it('is all of it, on an axis of time where there are times', () => {
    expect(chart()).toMatchObject({ axis: 'time', from: 0, to: 10, isAll: true });
    expect(new ChartView({ ticks: 1001, time: undefined })).toMatchObject({
      axis: 'events',
      from: 0,
      to: 1001,
    });
  });

  it('keeps the value under the pointer in its place when it zooms', () => {
    const view = chart();
    view.zoom(0.5, 8);
    expect([view.from, view.to]).toEqual([4, 9]);
    view.zoom(100, 8);
    expect([view.from, view.to]).toEqual([0, 10]);
  });

  it('shows the same events on the other axis', () => {
    const view = chart();
    view.zoom(0.1, 0);
    view.setAxis('events');
    expect([view.from, view.to]).toEqual([0, 500]);
    view.setAxis('time');
    expect([view.from, view.to]).toEqual([0, 1]);
  });

  it('moves no further than the recording goes', () => {
    const view = chart();
    view.zoom(0.5, 10);
    view.move(3);
    expect([view.from, view.to]).toEqual([5, 10]);
    view.move(-30);
    expect([view.from, view.to]).toEqual([0, 5]);
  });

  it('zooms and moves vertically within what there is', () => {
    const view = chart();
    view.moveVertically(1);
    expect(view.vertical).toBeUndefined();
    view.zoomVertically(0.25, 8 * GiB);
    expect(view.vertical).toEqual({ low: 6 * GiB, high: 8 * GiB });
    view.moveVertically(-0.5);
    expect(view.vertical).toEqual({ low: 5 * GiB, high: 7 * GiB });
    expect(view.isAll).toBe(false);
    view.zoomVertically(4, 6 * GiB);
    expect(view.vertical).toBeUndefined();
  });

  it('goes to a tick with some of the recording around it', () => {
    const view = chart();
    view.around(750);
    expect((view.from + view.to) / 2).toBeCloseTo(5.5);
    view.all();
    expect(view.isAll).toBe(true);
  });
});
