/** Finds out whether other programs used the machine during a benchmark. If so, its figures mean little. */
import { readFileSync } from "node:fs"
import { availableParallelism, loadavg } from "node:os"
import process from "node:process"
import { microsecondsPerTick, readTreeCpu } from "./processStats.ts"

/** How much other programs used the machine. */
export interface MachineLoad {
  /** The average number of programs that wanted a core in the minute before the start. */
  readonly loadAverage: number
  readonly cores: number
  /** The share of all cores' time that other programs and other virtual machines used during the run. */
  readonly others: number
}

/**
 * Returns the CPU ticks of all programs and of other virtual machines, from the text of `/proc/stat`. Interrupts are
 * left out, because the benchmark's own sockets cause many of them.
 */
export const parseBusyTicks = (stat: string) => {
  const [user = 0, nice = 0, system = 0, , , , , steal = 0] = (/^cpu +(.*)$/m.exec(stat)?.[1] ?? "").split(" ").map(
    Number,
  )
  return user + nice + system + steal
}

const readBusyMicros = () => parseBusyTicks(readFileSync("/proc/stat", "utf8")) * microsecondsPerTick

/** Starts to watch the machine. Returns a function that returns its load since then. */
export const watchMachine = () => {
  const [cores, loadAverage = 0] = [availableParallelism(), loadavg()[0]]
  const read = () => ({ at: performance.now(), others: readBusyMicros() - readTreeCpu(process.pid) })
  const before = read()
  return (): MachineLoad => {
    const after = read()
    const available = (after.at - before.at) * 1000 * cores
    return { loadAverage, cores, others: Math.max(0, (after.others - before.others) / available) }
  }
}

/**
 * Whether the machine was too busy: its load average exceeded a quarter of its cores, or others used 5% of the time.
 */
export const isBusy = ({ cores, loadAverage, others }: MachineLoad) => loadAverage > cores / 4 || others > 0.05

/** Describes the load in a sentence, with a warning if the machine was busy. */
export const describeLoad = (load: MachineLoad) => {
  const figures =
    `The load average at the start was ${load.loadAverage.toFixed(2)} on ${load.cores} cores, and other ` +
    `programs used ${(100 * load.others).toFixed(1)}% of the CPU time during the run.`
  return isBusy(load) ? `**The machine was busy: do not compare these figures with others.** ${figures}` : figures
}
