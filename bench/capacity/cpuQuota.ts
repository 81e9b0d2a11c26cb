/** Limits the CPU use of a process with a Linux control group, so that it behaves like a small machine. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"

export interface CpuQuota {
  /** Adds a process with all of its threads. Linux removes the process when it exits. */
  readonly add: (pid: number) => void
  /** Returns the share of the scheduling periods since the last call in which the process used up its quota. */
  readonly throttled: () => number
  readonly remove: () => void
}

/** Scheduling period in microseconds. It is shorter than the default, so that throttled requests wait less. */
const period = 10_000

const old = "/sys/fs/cgroup/cpu"
const unified = "/sys/fs/cgroup"

const isUnified = () => existsSync(join(unified, "cgroup.controllers"))

const number = (text: string, name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(text)?.[1] ?? 0)

/** Creates a control group with a CPU quota. `cores` may be a fraction, such as 0.25. Needs root on Linux. */
export const createCpuQuota = (name: string, cores: number): CpuQuota => {
  const folder = join(isUnified() ? unified : old, `tickerline-${name}-${process.pid}`)
  const quota = Math.round(cores * period)
  try {
    if (isUnified()) writeFileSync(join(unified, "cgroup.subtree_control"), "+cpu")
    mkdirSync(folder)
    // A high weight gives this group priority over all other processes on the machine.
    const settings = isUnified()
      ? { "cpu.max": `${quota} ${period}`, "cpu.weight": "10000" }
      : { "cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota, "cpu.shares": "100000" }
    for (const [file, value] of Object.entries(settings)) writeFileSync(join(folder, file), String(value))
  } catch (error) {
    throw new Error("Cannot create a control group with a CPU quota; run this as root on Linux.", { cause: error })
  }
  const stat = () => readFileSync(join(folder, "cpu.stat"), "utf8")
  let [periods, throttled] = [0, 0]
  return {
    add: (pid) => writeFileSync(join(folder, "cgroup.procs"), String(pid)),
    throttled: () => {
      const before = [periods, throttled] as const
      ;[periods, throttled] = [number(stat(), "nr_periods"), number(stat(), "nr_throttled")]
      return (throttled - before[1]) / Math.max(1, periods - before[0])
    },
    remove: () => rmdirSync(folder),
  }
}
