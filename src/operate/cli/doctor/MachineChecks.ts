/** Checks the machine: runtime, clock, time zones, memory, and open-file limit. */
import { Clock, DateTime, Effect, FileSystem } from "effect"
import { totalmem } from "node:os"
import process from "node:process"
import { HalfCacheBytesConfig } from "../../../postgres/versions/DatasetVersions.ts"
import { isSupportedNode, supportedNodeVersions } from "../NodeVersion.js"
import * as Finding from "./DoctorFinding.ts"

/** Reports the runtime and its version. Fails if the service does not support this version of Node. */
export const checkRuntime = Effect.sync(() => {
  const { deno, node } = process.versions
  if (deno !== undefined) return Finding.passed(`Deno ${deno}`)
  return isSupportedNode(node) ? Finding.passed(`Node ${node}`) : Finding.failed(
    `Node ${node} is not supported`,
    `Use Node ${supportedNodeVersions}. \`npm ci\` installs one, and \`npm run\` uses it.`,
  )
})

const earliestPlausible = Date.UTC(2026, 0, 1)
const latestPlausible = Date.UTC(2100, 0, 1)

/** Reports whether the system clock is obviously wrong. */
export const checkSystemClock = Effect.map(Clock.currentTimeMillis, (now) => {
  const time = new Date(now).toISOString()
  return now >= earliestPlausible && now < latestPlausible ? Finding.passed(time) : Finding.failed(
    `the clock shows ${time}`,
    "Set the clock, preferably with NTP. Rate limits, key expiry and calendar days depend on it.",
  )
})

const formatOffset = (zone: string, instant: string) =>
  DateTime.makeUnsafe(instant).pipe(
    DateTime.setZone(DateTime.zoneMakeNamedUnsafe(zone)),
    DateTime.formatIsoOffset,
  ).slice(-6)

/** Sample UTC offsets of the time zones that determine market days and times: zone, instant, and expected offset. */
const expectedOffsets = [
  ["America/New_York", "2026-01-15T12:00:00Z", "-05:00"],
  ["America/New_York", "2026-07-15T12:00:00Z", "-04:00"],
  ["America/Chicago", "2026-07-15T12:00:00Z", "-05:00"],
] as const

/** Checks that the runtime has correct data for the time zones of New York and Chicago. */
export const checkTimeZones = Effect.try(() =>
  expectedOffsets.every(([zone, instant, expected]) => formatOffset(zone, instant) === expected)
)
  .pipe(
    Effect.orElseSucceed(() => false),
    Effect.map((isCorrect) =>
      isCorrect ? Finding.passed("New York and Chicago have the expected offsets") : Finding.failed(
        "the runtime lacks the time zones of New York or Chicago",
        "Use an official build of Node, which includes full ICU data, or unset NODE_ICU_DATA.",
      )
    ),
  )

const mebibyte = 1_048_576

/** The measured memory usage of a process without its caches, in MiB. */
const baseMemory = 256

/** Reports whether the machine has enough memory for the caches that the settings allow. */
export const checkMemory = Effect.gen(function* () {
  // The container's memory limit. If there is no limit, Node returns 0 or a huge number.
  const limit = process.constrainedMemory?.() ?? 0
  const available = Math.floor((limit > 0 && limit < totalmem() ? limit : totalmem()) / mebibyte)
  // `HalfCacheBytesConfig` is half of CACHE_MEGABYTES. Cached query results and cached responses may each use that
  // much, and so may the ticker changes in memory.
  const cache = Math.ceil((yield* HalfCacheBytesConfig) * 3 / mebibyte)
  return available >= cache + baseMemory
    ? Finding.passed(`${available} MiB, of which the caches may use ${cache} MiB`)
    : Finding.warning(
      `${available} MiB, but the service needs about ${baseMemory} MiB in addition to caches of ${cache} MiB`,
      "Give the process more memory, or lower CACHE_MEGABYTES.",
    )
})

const minOpenFiles = 4096

/** Reports whether the process may open enough files and sockets at the same time. */
export const checkOpenFileLimit = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const limits = yield* Effect.orElseSucceed(fs.readFileString("/proc/self/limits"), () => "")
  const [, softLimit] = /^Max open files\s+(\S+)/m.exec(limits) ?? []
  if (softLimit === undefined) return Finding.skipped("this system does not report its limit")
  return softLimit === "unlimited" || Number(softLimit) >= minOpenFiles
    ? Finding.passed(`limit ${softLimit}`)
    : Finding.warning(
      `the limit is ${softLimit}, and each connection needs one file`,
      "Raise the limit: `ulimit -n 65536`, or `LimitNOFILE=` in systemd.",
    )
})
