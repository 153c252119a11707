// Draws charts with uPlot in the colours of the style sheet.

const { uPlot } = globalThis;
const dark = matchMedia("(prefers-color-scheme: dark)");
const phone = matchMedia("(max-width: 40rem)");

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The dash patterns of lines.
const dashes = { solid: [], dashed: [9, 5], dotted: [2, 5] };

/**
 * A chart in an element. series are {label, colour, dash, width, steps, points, bars}. colour is
 * the name of a property of the style sheet. With steps, a value holds until the next point. With
 * points, the chart has points instead of a line. With bars, each bar starts at its x and has width 1.
 */
export class Chart {
  constructor(element, legend, { series, x, y, height = 260, mark }) {
    Object.assign(this, { element, series, x, y, height, mark, data: [[], ...series.map(() => [])] });
    this.entries = series.map(entry);
    legend.replaceChildren(...this.entries);
    dark.addEventListener("change", () => this.draw());
    new ResizeObserver(() => {
      if (this.plot && this.plot.width !== element.clientWidth) this.plot.setSize({ width: element.clientWidth, height });
    }).observe(element);
    this.draw();
  }

  /** Changes the label of a series. */
  label(series, text) {
    this.entries[series].lastChild.textContent = text;
  }

  /** Draws lists of [x, y], one for each series. The x axis goes from begin to end. */
  set(lists, end, begin = 0) {
    this.data = uPlot.join(lists.map((points) => [points.map((p) => p[0]), points.map((p) => p[1])]));
    Object.assign(this, { begin, end });
    this.element.plotted = lists; // tests read the points here
    this.plot.setData(this.data);
  }

  draw() {
    this.plot?.destroy();
    this.plot = new uPlot(this.options(), this.data, this.element);
  }

  options() {
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = (label, size) => ({
      label, labelFont: font, labelSize: 20, font, size, stroke: colour("muted"),
      grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1, size: 5 },
    });
    return {
      width: this.element.clientWidth, height: this.height, padding: [8, 20, 0, 0],
      legend: { show: false }, cursor: { show: false },
      scales: {
        x: { time: false, range: (_, min, max) => [this.begin ?? 0, Math.max(this.end ?? 0, max ?? 0) || 1] },
        y: { range: (_, min, max) => [0, Math.max(1, (max ?? 0) * 1.08)] },
      },
      axes: [{ ...axis(this.x, 34), space: phone.matches ? 44 : 64 }, { ...axis(this.y, 44), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] }],
      series: [{}, ...this.series.map(line)],
      hooks: { drawAxes: this.mark === undefined ? [] : [(plot) => rule(plot, this.mark)] },
    };
  }
}

function line(s) {
  const stroke = colour(s.colour);
  if (s.points) return { stroke, paths: () => null, points: { show: true, size: s.points, fill: stroke, width: 0 } };
  if (s.bars) return { stroke, fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.86], align: 1 }), points: { show: false } };
  const width = s.width ?? 2;
  return { stroke, width, dash: dashes[s.dash ?? "solid"], spanGaps: true, points: { show: false }, ...(s.steps && { paths: uPlot.paths.stepped({ align: 1 }) }) };
}

/** Draws a vertical line at an x. */
function rule(plot, x) {
  const { ctx, bbox } = plot;
  const at = Math.round(plot.valToPos(x, "x", true));
  ctx.save();
  ctx.strokeStyle = colour("limit");
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(at, bbox.top);
  ctx.lineTo(at, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

/** Returns the entry of a series in a legend: a sample of its line, and its label. */
function entry(s) {
  const item = document.createElement("li");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const shape = document.createElementNS(svg.namespaceURI, s.bars ? "rect" : s.points ? "circle" : "line");
  const set = (element, attributes) => Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  set(svg, { width: 26, height: 10, viewBox: "0 0 26 10", "aria-hidden": "true" });
  set(shape, s.bars ? { x: 8, width: 10, height: 10, fill: `var(--${s.colour})` } : s.points ? { cx: 13, cy: 5, r: s.points / 2, fill: `var(--${s.colour})` }
    : { x1: 1, x2: 25, y1: 5, y2: 5, stroke: `var(--${s.colour})`, "stroke-width": s.width ?? 2, "stroke-dasharray": dashes[s.dash ?? "solid"].join(" ") });
  svg.append(shape);
  item.append(svg, s.label);
  return item;
}

/** Returns the points of a cumulative count: the number of instants up to each instant, from 0 to end. */
export function cumulative(instants, end) {
  const points = [[0, 0]];
  instants.forEach((at, i) => {
    if (points.at(-1)[0] === at) points.at(-1)[1] = i + 1;
    else points.push([at, i + 1]);
  });
  if (points.at(-1)[0] < end) points.push([end, instants.length]);
  return points;
}
