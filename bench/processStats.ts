/** Reads the CPU time and memory usage of processes from /proc. */
import { readdirSync, readFileSync } from "node:fs"

/** The unit in which /proc reports CPU time: a hundredth of a second on all Linux machines. */
export const microsecondsPerTick = 10_000

/** Values from /proc/PID/stat. CPU times are in ticks. */
interface Stat {
  readonly parent: number
  readonly own: number
  /** The CPU time of child processes that have exited. */
  readonly children: number
}

/** Reads the values of a process. Returns undefined if the process has ended. */
const readStat = (pid: number): Stat | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8")
    // The program name is in parentheses and may contain spaces, so parsing starts after the last closing parenthesis.
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
export const readCpu = (pid: number) => (readStat(pid)?.own ?? 0) * microsecondsPerTick

/**
 * Reads the CPU time of a process and of all its descendants, in microseconds. Descendants that have exited are
 * included.
 */
export const readTreeCpu = (pid: number) => {
  const stats = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((name) => {
    const stat = readStat(Number(name))
    return stat === undefined ? [] : [{ pid: Number(name), ...stat }]
  })
  const childrenOf = Map.groupBy(stats, ({ parent }) => parent)
  const sum = (pid: number): number =>
    (childrenOf.get(pid) ?? []).reduce((total, child) => total + child.own + child.children + sum(child.pid), 0)
  const root = stats.find((stat) => stat.pid === pid)
  return ((root?.own ?? 0) + (root?.children ?? 0) + sum(pid)) * microsecondsPerTick
}

const readMebibytes = (pid: number, name: string) => {
  const [, kilobytes] = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(
    readFileSync(`/proc/${pid}/status`, "utf8"),
  ) ?? []
  return Number(kilobytes ?? 0) / 1024
}

/** Reads the current and the maximum resident memory of a process, in MiB. */
export const readMemory = (pid: number) => ({
  now: readMebibytes(pid, "VmRSS"),
  most: readMebibytes(pid, "VmHWM"),
})
