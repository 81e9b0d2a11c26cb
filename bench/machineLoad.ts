/**
 * Determines how much other programs used the machine during a benchmark. Results measured on a busy machine are not
 * reliable.
 */
import { readFileSync } from "node:fs"
import { availableParallelism, loadavg } from "node:os"
import process from "node:process"
import { microsecondsPerTick, readTreeCpu } from "./processStats.ts"

/** How much other programs used the machine. */
export interface MachineLoad {
  /**
   * The system's one-minute load average at the start: the average number of processes that were running or waiting for
   * a core.
   */
  readonly loadAverage: number
  readonly cores: number
  /**
   * The share of the total CPU time of all cores that other programs and other virtual machines used during the run.
   */
  readonly others: number
}

/**
 * Parses `/proc/stat`, and returns the CPU ticks used by all programs and by other virtual machines. Interrupts are
 * excluded, because the benchmark's own sockets cause many of them.
 */
export const parseBusyTicks = (stat: string) => {
  const [user = 0, nice = 0, system = 0, , , , , steal = 0] = (/^cpu +(.*)$/m.exec(stat)?.[1] ?? "").split(" ").map(
    Number,
  )
  return user + nice + system + steal
}

const readBusyMicros = () => parseBusyTicks(readFileSync("/proc/stat", "utf8")) * microsecondsPerTick

/** Starts watching the machine. Returns a function that returns the load since the start. */
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
 * Returns whether the machine was too busy: the load average exceeded a quarter of the cores, or other programs used
 * more than 5% of the CPU time.
 */
export const isBusy = ({ cores, loadAverage, others }: MachineLoad) => loadAverage > cores / 4 || others > 0.05

/** Describes the load in a sentence, and adds a warning if the machine was too busy. */
export const describeLoad = (load: MachineLoad) => {
  const figures =
    `The load average at the start was ${load.loadAverage.toFixed(2)} on ${load.cores} cores, and other ` +
    `programs used ${(100 * load.others).toFixed(1)}% of the CPU time during the run.`
  return isBusy(load) ? `**The machine was busy: do not compare these figures with others.** ${figures}` : figures
}
