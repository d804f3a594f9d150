// Usage: node replay.cjs NODE_MODULES CHROMIUM URL FOLDER…
// Opens the page at URL in Chromium, replays the golden vectors of every folder, and prints the results as JSON.
const { join } = require("node:path");

async function main([modules, executablePath, url, ...folders]) {
  const { chromium } = require(join(modules, "playwright-core"));
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    await page.goto(url);
    const results = {};
    for (const folder of folders) results[folder] = await page.evaluate((name) => replayFolder(name), folder);
    console.log(JSON.stringify(results));
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2));
