/** Limits the CPU of processes with Linux control groups, to simulate small machines. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"

export interface CpuQuota {
  /** Adds a process with all its threads. It leaves the group when it exits. */
  readonly add: (pid: number) => void
  /** Fraction of scheduling periods since the last call in which the group was throttled. */
  readonly throttled: () => number
  readonly remove: () => void
}

/** Shorter than the default, so that throttled processes wait only briefly. */
const periodMicroseconds = 10_000

const legacyRoot = "/sys/fs/cgroup/cpu"
const unifiedRoot = "/sys/fs/cgroup"

const isUnified = () => existsSync(join(unifiedRoot, "cgroup.controllers"))

const number = (text: string, name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(text)?.[1] ?? 0)

/** Creates a control group limited to `cores`, such as 0.25. Requires root on Linux. */
export const createCpuQuota = (name: string, cores: number): CpuQuota => {
  const folder = join(isUnified() ? unifiedRoot : legacyRoot, `tickerline-${name}-${process.pid}`)
  const quota = Math.round(cores * periodMicroseconds)
  try {
    if (isUnified()) writeFileSync(join(unifiedRoot, "cgroup.subtree_control"), "+cpu")
    mkdirSync(folder)
    // High weight: other processes get the remaining CPU time.
    const settings = isUnified()
      ? { "cpu.max": `${quota} ${periodMicroseconds}`, "cpu.weight": "10000" }
      : { "cpu.cfs_period_us": periodMicroseconds, "cpu.cfs_quota_us": quota, "cpu.shares": "100000" }
    for (const [file, value] of Object.entries(settings)) writeFileSync(join(folder, file), String(value))
  } catch (error) {
    throw new Error("No share of the processor can be set aside; run this as root on Linux.", { cause: error })
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
