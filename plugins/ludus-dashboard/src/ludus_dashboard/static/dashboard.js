// Reload the live part of a page when the run changes, and draw the charts.
"use strict";

const COLORS = 8;

// A canvas needs plain colors, so an element resolves the variables of the style sheet.
function css(name, alpha = 1) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g);
  probe.remove();
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

// --- live updates: only visible tabs hold a connection, because browsers allow few of them per host

let source = null;

function connect() {
  const address = document.body.dataset.events;
  if (!address || document.hidden || source) return;
  source = new EventSource(address);
  source.onmessage = () => htmx.trigger(document.body, "changed");
}

function disconnect() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", connect);

// --- charts

function seriesOptions(chart) {
  const options = [{ label: chart.xLabel }];
  const columns = [chart.x];
  const bands = [];
  for (const series of chart.series) {
    const name = `--p${(series.color ?? 0) % COLORS}`;
    options.push({
      label: series.label,
      stroke: css(name),
      width: 1.5,
      dash: series.dash ? [6, 4] : undefined,
      spanGaps: true,
      points: { show: chart.x.length < 80 && !series.dash },
    });
    columns.push(series.values);
    if (!series.low) continue;
    const at = options.length;
    for (const bound of [series.high, series.low]) {
      options.push({ label: "", stroke: "transparent", spanGaps: true, points: { show: false }, class: "bound" });
      columns.push(bound);
    }
    bands.push({ series: [at, at + 1], fill: css(name, 0.18) });
  }
  return { options, columns, bands };
}

function draw(figure) {
  const text = figure.dataset.chart;
  const chart = JSON.parse(text);
  const { options, columns, bands } = seriesOptions(chart);
  const axis = { stroke: css("--text"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
  figure.replaceChildren();
  new uPlot(
    {
      title: chart.title,
      width: figure.clientWidth || 480,
      height: 260,
      scales: { x: { time: false } },
      axes: [{ ...axis, label: chart.xLabel }, { ...axis, size: 64 }],
      series: options,
      bands,
    },
    columns,
    figure,
  );
  figure.drawn = text;
}

function drawAll() {
  for (const figure of document.querySelectorAll("[data-chart]")) {
    if (figure.drawn !== figure.dataset.chart || !figure.firstChild) draw(figure);
  }
}

window.addEventListener("resize", () => document.querySelectorAll("[data-chart]").forEach(draw));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.querySelectorAll("[data-chart]").forEach(draw),
);
document.body.addEventListener("htmx:afterSettle", drawAll);
drawAll();
connect();
