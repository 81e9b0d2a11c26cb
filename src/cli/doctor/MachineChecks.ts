/** What the process has to run on: its runtime, clock, zones, memory and files. */
import { Clock, DateTime, Effect, FileSystem } from "effect"
import { totalmem } from "node:os"
import process from "node:process"
import { CacheBytesConfig } from "../../lists/QueryCache.ts"
import { failed, passed, skipped, warned } from "./Finding.ts"

const mebibyte = 1_048_576

export const checkRuntime = Effect.sync(() => {
  const { deno, node } = process.versions
  if (deno !== undefined) return passed("runtime", `Deno ${deno}`)
  const [major = 0, minor = 0] = node.split(".").map(Number)
  return major > 22 || (major === 22 && minor >= 18) ? passed("runtime", `Node ${node}`) : failed(
    "runtime",
    `Node ${node} is too old`,
    "Use Node 24: npm ci installs one beside the project, which npm run uses.",
  )
})

const offset = (zone: string, instant: string) =>
  DateTime.makeUnsafe(instant).pipe(
    DateTime.setZone(DateTime.zoneMakeNamedUnsafe(zone)),
    DateTime.formatIsoOffset,
  ).slice(-6)

/** Days and times of the market depend on them: New York's winter and summer, and Chicago's. */
const known = [
  ["America/New_York", "2026-01-15T12:00:00Z", "-05:00"],
  ["America/New_York", "2026-07-15T12:00:00Z", "-04:00"],
  ["America/Chicago", "2026-07-15T12:00:00Z", "-05:00"],
] as const

export const checkZones = Effect.try(() =>
  known.filter(([zone, instant, expected]) => offset(zone, instant) !== expected)
)
  .pipe(
    Effect.map((wrong) => wrong.length === 0),
    Effect.orElseSucceed(() => false),
    Effect.map((right) =>
      right ? passed("time zones", "New York and Chicago change their clocks when they should") : failed(
        "time zones",
        "the runtime does not know New York's or Chicago's time",
        "Use a build of Node with full ICU (the official ones), or unset NODE_ICU_DATA.",
      )
    ),
  )

const earliest = Date.UTC(2026, 0, 1)
const latest = Date.UTC(2100, 0, 1)

export const checkClock = Effect.map(Clock.currentTimeMillis, (now) => {
  const shown = new Date(now).toISOString()
  return now >= earliest && now < latest ? passed("clock", shown) : failed(
    "clock",
    `it is said to be ${shown}`,
    "Set the clock, best by NTP: limits, expiry of keys and days go by it.",
  )
})

/** What a process holds beside its cache, as measured (README, speed). */
const beside = 256

export const checkMemory = Effect.gen(function* () {
  // A container's own bound; 0 or absurd where there is none.
  const bound = process.constrainedMemory?.() ?? 0
  const total = bound > 0 && bound < totalmem() ? bound : totalmem()
  const has = Math.floor(total / mebibyte)
  const cache = Math.ceil((yield* CacheBytesConfig) * 2 / mebibyte)
  return has >= cache + beside ? passed("memory", `${has} MiB, of which the cache may take ${cache}`) : warned(
    "memory",
    `${has} MiB for a cache of ${cache} MiB and some ${beside} MiB beside it`,
    "Allow it more memory, or lower CACHE_MEGABYTES.",
  )
})

const enoughFiles = 4096

export const checkFiles = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const limits = yield* Effect.orElseSucceed(fs.readFileString("/proc/self/limits"), () => "")
  const [, soft] = /^Max open files\s+(\S+)/m.exec(limits) ?? []
  if (soft === undefined) return skipped("open files", "this system does not tell its limit")
  return soft === "unlimited" || Number(soft) >= enoughFiles ? passed("open files", `up to ${soft}`) : warned(
    "open files",
    `no more than ${soft}, and each connection is one`,
    "Raise it: ulimit -n 65536, or LimitNOFILE= of systemd.",
  )
})
