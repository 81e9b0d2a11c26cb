/**
 * Loaded into each measured server before its own modules. On SIGUSR2, writes the event loop delay to the file
 * `EVENT_LOOP_FILE`. The file is renamed into place, so it is never incomplete when it is read.
 */
import { renameSync, writeFileSync } from "node:fs"
import process from "node:process"
import { readDelay, watchEventLoop } from "./eventLoop.ts"

const takeDelays = watchEventLoop()
const file = process.env["EVENT_LOOP_FILE"] ?? ""

process.on("SIGUSR2", () => {
  writeFileSync(`${file}.new`, JSON.stringify(readDelay(takeDelays())))
  renameSync(`${file}.new`, file)
})
