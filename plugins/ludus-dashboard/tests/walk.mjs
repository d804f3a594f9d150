// Find a match that the newest model lost, watch it, and play against that model; print the number of clicks as JSON.
import { createRequire } from "node:module";

const [modules, address, run, screenshots] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const page = await (await browser.newContext({ viewport: { width: 1000, height: 800 } })).newPage();
page.setDefaultTimeout(120000); // a busy machine may take long
const messages = [];
page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
page.on("pageerror", (error) => messages.push(String(error)));
let clicks = 0;

async function click(locator) {
  clicks++;
  await locator.first().click();
  await page.waitForLoadState();
}

await page.goto(address);
await click(page.getByRole("link", { name: run, exact: true }));
await click(page.locator("main a[href*='/models/']"));
await click(page.locator("a[href*='kind=eval'][href*='outcome=lost']"));
await click(page.getByRole("link", { name: "watch" }));
await page.waitForFunction(() => /^tick \d+ of \d+$/.test(document.querySelector("#status").innerText));
const watched = await page.locator("h1").innerText();
if (screenshots) {
  await page.waitForFunction(() => /^tick (\d+) of \1$/.test(document.querySelector("#status").innerText));
  await page.screenshot({ path: `${screenshots}/watch.png` });
}
await click(page.getByRole("link", { name: "Play against these participants" }));
await click(page.getByRole("button", { name: "Play" }));
await page.waitForFunction(() => document.querySelector("#status")?.innerText.startsWith("Your turn"));
if (screenshots) await page.screenshot({ path: `${screenshots}/play.png` });
await page.getByRole("button", { name: "Leave the match" }).click();
await page.waitForFunction(() => /not recorded/.test(document.querySelector("#status").innerText));
await browser.close();
console.log(JSON.stringify({ clicks, watched, messages }));
