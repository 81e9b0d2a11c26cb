/**
 * The commands with which someone in this checkout installs, starts and operates Tickerline: npm scripts on Node, and
 * tasks from `deno.json` on Deno. Messages use them, so that they never suggest a program that is not installed. This
 * file is JavaScript because `operate/cli/preflight.js` must run on Node versions that cannot run TypeScript.
 */
import process from "node:process"

const isOnDeno = process.versions.deno !== undefined

/** Installs the dependencies, including the embedded PostgreSQL. */
export const installCommand = isOnDeno ? "deno install --prod" : "npm ci"

/** Starts the service. */
export const startCommand = isOnDeno ? "deno task start" : "npm start"

/** Runs a command, such as `migrate`, which follows after a space. */
export const tickerlineCommand = isOnDeno ? "deno task tickerline" : "npm run tickerline --"

/** The same, but prints only the command's own output. */
export const silentTickerlineCommand = isOnDeno ? "deno task --quiet tickerline" : "npm run --silent tickerline --"
