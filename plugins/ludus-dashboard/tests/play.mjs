// Play one match per given run to its end in Chromium; print results, console messages and findings of axe-core as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, address, ...games] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const { origin, search } = new URL(address);
const results = [];

async function findings(page) {
  const { violations } = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
  return violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`);
}

// Press keys or click until the match ends; `how` is "keys", "typed", "buttons" or "mouse".
async function playOn(page, how, keys) {
  const status = page.locator("#status");
  const end = Date.now() + 120000;
  for (let n = 0; Date.now() < end; n++) {
    const text = await status.innerText();
    if (/recorded\./.test(text) || (await status.locator("a").count())) return;
    if (!(await page.locator("#viewer").count())) return;
    const key = keys[n % keys.length];
    if (how === "mouse") {
      const box = await page.locator("#viewer canvas").boundingBox();
      await page.mouse.click(box.x + box.width * (0.1 + 0.8 * ((n % 7) / 6)), box.y + box.height / 2).catch(() => {});
    } else if (how === "buttons") {
      const button = page.locator("#legal button").first();
      await button.click({ timeout: 200 }).catch(() => {});
    } else if (how === "hold") {
      await page.keyboard.down(key);
      await page.waitForTimeout(60);
      await page.keyboard.up(key);
    } else {
      await page.keyboard.press(key);
    }
    await page.waitForTimeout(25);
  }
  throw new Error(`the match has not ended: ${await status.innerText()}`);
}

for (const game of games) {
  const { run, seat = "0", speed = "1", how = "keys", keys = [], others = {} } = JSON.parse(game);
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(120000); // a busy machine may take long
  const messages = [];
  page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => messages.push(String(error)));
  await page.goto(`${origin}/runs/${run}/play${search}`);
  const form = await findings(page);
  await page.selectOption("select[name=seat]", seat);
  await page.fill("input[name=speed]", speed);
  for (const [place, name] of Object.entries(others)) await page.fill(`input[name=at-${place}]`, name);
  await page.getByRole("button", { name: "Play" }).press("Enter");
  await page.waitForFunction(() => document.querySelector("#status") && !/connecting/.test(document.querySelector("#status").innerText));
  const focused = await page.evaluate(() => document.activeElement.id);
  const accessibility = [...form, ...(await findings(page))];
  await playOn(page, how, keys);
  const status = await page.locator("#status").innerText();
  accessibility.push(...(await findings(page)));
  await page.locator("#status a").click();
  await page.waitForFunction(() => /^tick \d+ of \d+$/.test(document.querySelector("#status").innerText));
  accessibility.push(...(await findings(page)));
  results.push({ run, focused, messages, accessibility, status });
  await page.close();
}
await browser.close();
console.log(JSON.stringify(results));
