// Load every page of a dashboard in Chromium; print findings as JSON: console messages, failed requests, axe-core.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, address, ...paths] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const findings = [];
const note = (page, kind, text) => findings.push({ page, kind, text });

for (const colorScheme of ["light", "dark"]) {
  const context = await browser.newContext({ colorScheme, bypassCSP: false, viewport: { width: 1280, height: 900 } });
  for (const path of paths) {
    const page = await context.newPage();
    page.on("console", (message) => note(path, `console ${message.type()}`, message.text()));
    page.on("pageerror", (error) => note(path, "error", String(error)));
    page.on("requestfailed", (request) => {
      if (!request.url().endsWith("/events")) note(path, "request", request.url());
    });
    await page.goto(address + path);
    await page.waitForTimeout(400);
    const drawn = await page.evaluate(
      () => document.querySelectorAll("[data-chart] canvas").length === document.querySelectorAll("[data-chart]").length,
    );
    if (!drawn) note(path, "chart", "a chart is not drawn");
    // evaluated by the debugging protocol, which the policy of the page does not limit
    const { violations } = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
    for (const one of violations) note(path, `axe ${one.id}`, `${one.help}: ${one.nodes[0].html.slice(0, 200)}`);
    await page.close();
  }
  await context.close();
}
await browser.close();
console.log(JSON.stringify(findings));
