/** Reads CPU time and memory of processes from /proc. */
import { readdirSync, readFileSync } from "node:fs"

/** A Linux clock tick is 1/100 s on every machine. */
const microsecondsPerTick = 10_000

interface Stat {
  readonly parent: number
  readonly own: number
  /** CPU ticks of child processes that have ended. */
  readonly children: number
}

const readStat = (pid: number): Stat | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8")
    // The program name is in parentheses and may contain spaces.
    const [, parent, , , , , , , , , , user, system, childUser, childSystem] = text.slice(text.lastIndexOf(")") + 2)
      .split(" ").map(Number)
    return {
      parent: parent ?? 0,
      own: (user ?? 0) + (system ?? 0),
      children: (childUser ?? 0) + (childSystem ?? 0),
    }
  } catch {
    return undefined
  }
}

/** CPU time of a process in microseconds. */
export const cpuMicroseconds = (pid: number) => (readStat(pid)?.own ?? 0) * microsecondsPerTick

/** CPU time in microseconds, including running and ended child processes. */
export const cpuMicrosecondsWithChildren = (pid: number) => {
  const stats = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((
    name,
  ) => readStat(Number(name)))
  const living = stats.reduce(
    (sum, stat) => sum + (stat?.parent === pid ? stat.own : 0),
    0,
  )
  const parent = readStat(pid)
  return (living + (parent?.own ?? 0) + (parent?.children ?? 0)) *
    microsecondsPerTick
}

const mebibytes = (pid: number, name: string) => {
  const [, kilobytes] = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(
    readFileSync(`/proc/${pid}/status`, "utf8"),
  ) ?? []
  return Number(kilobytes ?? 0) / 1024
}

/** Resident memory in MiB: current (`now`) and peak (`most`). */
export const memoryOf = (pid: number) => ({
  now: mebibytes(pid, "VmRSS"),
  most: mebibytes(pid, "VmHWM"),
})
