/**
 * The oldest Node version on which the service runs: the requirement of Effect's platform package, and of `engines` in
 * `package.json`. This file is JavaScript because `preflight.js` must run on Node versions that cannot run TypeScript.
 */
export const oldestNodeVersion = "22.19"
