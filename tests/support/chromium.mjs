// Debian's Chromium, without a window, by playwright-core. Every name is this machine, and certificates are not what is looked at: the edge's
// authority is in no browser's store.
import { createRequire } from 'node:module';

// Like every package of stories, from tests/e2e.
const { chromium: driver } = createRequire(new URL('../e2e/', import.meta.url))('playwright-core');

// -> {tab(): a page of one and the same browser's profile, profile, close()}
export async function chromium() {
  const browser = await driver.launch({ executablePath: '/usr/bin/chromium', chromiumSandbox: process.getuid() !== 0,
    args: ['--host-resolver-rules=MAP * 127.0.0.1', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking', '--no-first-run'] });
  const profile = await browser.newContext({ ignoreHTTPSErrors: true });
  profile.setDefaultTimeout(60000);
  return { profile, tab: () => profile.newPage(), close: () => browser.close() };
}
