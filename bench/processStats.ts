/** Reads CPU time and memory of processes from /proc. */
import { readdirSync, readFileSync } from "node:fs"

/** /proc counts CPU time in hundredths of a second on every Linux machine. */
const microsecondsPerTick = 10_000

interface Stat {
  readonly parent: number
  readonly own: number
  /** CPU time of children that have exited. */
  readonly children: number
}

const statOf = (pid: number): Stat | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8")
    // The program name is in parentheses and may contain spaces, so parsing starts after the last parenthesis.
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

/** Reads the CPU time of a process, in microseconds. */
export const readCpu = (pid: number) => (statOf(pid)?.own ?? 0) * microsecondsPerTick

/** Reads the CPU time of a process and of its children, in microseconds, including children that have exited. */
export const readTreeCpu = (pid: number) => {
  const stats = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((
    name,
  ) => statOf(Number(name)))
  const living = stats.reduce(
    (sum, stat) => sum + (stat?.parent === pid ? stat.own : 0),
    0,
  )
  const parent = statOf(pid)
  return (living + (parent?.own ?? 0) + (parent?.children ?? 0)) *
    microsecondsPerTick
}

const mebibytes = (pid: number, name: string) => {
  const [, kilobytes] = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(
    readFileSync(`/proc/${pid}/status`, "utf8"),
  ) ?? []
  return Number(kilobytes ?? 0) / 1024
}

/** Reads the resident memory in MiB: the current value and the maximum. */
export const readMemory = (pid: number) => ({
  now: mebibytes(pid, "VmRSS"),
  most: mebibytes(pid, "VmHWM"),
})
