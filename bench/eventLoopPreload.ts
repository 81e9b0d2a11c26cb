/** Runs in each measured server before its own modules: writes the delay of its event loop to a file at SIGUSR2. */
import { renameSync, writeFileSync } from "node:fs"
import process from "node:process"
import { readDelay, watchEventLoop } from "./eventLoop.ts"

const takeDelays = watchEventLoop()
const file = process.env["EVENT_LOOP_FILE"] ?? ""

process.on("SIGUSR2", () => {
  writeFileSync(`${file}.new`, JSON.stringify(readDelay(takeDelays())))
  renameSync(`${file}.new`, file)
})
