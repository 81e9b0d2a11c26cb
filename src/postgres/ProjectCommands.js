/**
 * The commands with which a user of this checkout installs, starts and operates Tickerline: those of npm on Node, and
 * the tasks of `deno.json` on Deno. Messages name them, so that they never advise a program that is not installed.
 * Written in JavaScript, because `operate/cli/preflight.js` must run on Node versions that cannot run TypeScript.
 */
import process from "node:process"

const isOnDeno = process.versions.deno !== undefined

/** Installs the dependencies, including the embedded PostgreSQL. */
export const installCommand = isOnDeno ? "deno install --prod" : "npm ci"

/** Starts the service. */
export const startCommand = isOnDeno ? "deno task start" : "npm start"

/** Runs a command such as `migrate`, which follows after a space. */
export const tickerlineCommand = isOnDeno ? "deno task tickerline" : "npm run tickerline --"

/** The same without any output but that of the command. */
export const silentTickerlineCommand = isOnDeno ? "deno task --quiet tickerline" : "npm run --silent tickerline --"
