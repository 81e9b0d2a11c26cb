/** Limits the CPU usage of a process with a Linux control group, to simulate a small machine. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"

/** A control group that limits the CPU usage of its processes. */
export interface CpuQuota {
  /** Adds a process with all its threads to the control group. Linux removes the process when it exits. */
  readonly add: (pid: number) => void
  /** Returns the share of the scheduling periods since the last call in which the processes exhausted their quota. */
  readonly throttled: () => number
  /** Removes the control group. All its processes must have ended. */
  readonly remove: () => void
}

/** The scheduling period in microseconds. It is shorter than the default, so that throttled requests wait less. */
const period = 10_000

/** The mount point of the CPU controller with control groups v1, and of all controllers with v2. */
const version1 = "/sys/fs/cgroup/cpu"
const version2 = "/sys/fs/cgroup"

const isVersion2 = () => existsSync(join(version2, "cgroup.controllers"))

const readNumber = (text: string, name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(text)?.[1] ?? 0)

/**
 * Creates a control group with a CPU quota. `cores` may be a fraction, such as 0.25. Requires Linux and root
 * privileges.
 */
export const createCpuQuota = (name: string, cores: number): CpuQuota => {
  const folder = join(isVersion2() ? version2 : version1, `tickerline-${name}-${process.pid}`)
  const quota = Math.round(cores * period)
  try {
    if (isVersion2()) writeFileSync(join(version2, "cgroup.subtree_control"), "+cpu")
    mkdirSync(folder)
    // A high weight gives the processes of this group priority over all other processes on the machine.
    const settings = isVersion2()
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
      ;[periods, throttled] = [readNumber(stat(), "nr_periods"), readNumber(stat(), "nr_throttled")]
      return (throttled - before[1]) / Math.max(1, periods - before[0])
    },
    remove: () => rmdirSync(folder),
  }
}
