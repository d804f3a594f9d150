// Find a match that a model lost, with the keyboard alone, while the run goes on; print what was reached as JSON.
import { createRequire } from "node:module";

const [modules, address, run] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const page = await (await browser.newContext()).newPage();
const reached = [];

// Press Tab until an element with this accessible name has the focus, which must be visible.
async function focus(name) {
  for (let presses = 0; presses < 400; presses++) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const element = document.activeElement;
      const label = element.getAttribute("aria-label") || element.labels?.[0]?.firstChild.textContent || element.innerText || "";
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      return { label: label.trim(), isVisible: outlineStyle !== "none" && outlineWidth !== "0px" };
    });
    if (found.label === name) {
      reached.push({ name, isVisible: found.isVisible });
      return;
    }
  }
  throw new Error(`${name} is not reached by Tab on ${page.url()}`);
}

async function follow(name) {
  await focus(name);
  await Promise.all([page.waitForURL((url) => url.href !== page.url()).catch(() => {}), page.keyboard.press("Enter")]);
  await page.waitForLoadState();
}

await page.goto(address);
await follow(run);
await follow("Matches");
await focus("participant");
await page.keyboard.type("main");
await focus("outcome for it");
await page.keyboard.type("lost");
await follow("Search");
const commands = await page.locator("td code").allInnerTexts();
await follow("Overview");
const before = await page.locator("dl.facts").innerText();
await page.waitForFunction((text) => document.querySelector("dl.facts").innerText !== text, before, { timeout: 30000 });
await browser.close();
console.log(JSON.stringify({ reached, commands }));
