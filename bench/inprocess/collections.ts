/** Measures the cost of V8's garbage collections, based on the statistics that V8 provides. */
import { GCProfiler, type GCProfilerResult } from "node:v8"

type Collection = GCProfilerResult["statistics"][number]

/** The garbage collections during a period. */
export interface Collections {
  /** The pauses of all scavenges, in milliseconds. A scavenge collects the young generation. */
  readonly scavenges: ReadonlyArray<number>
  /** The number of bytes that scavenges promoted to the old generation, where only a mark-compact collects them. */
  readonly promotedBytes: number
  /** The pauses of all mark-compacts, in milliseconds. A mark-compact collects the whole heap. */
  readonly markCompacts: ReadonlyArray<number>
}

/** Returns whether a heap space belongs to the young generation. All other spaces belong to the old generation. */
const isYoung = (space: string) => space.startsWith("new_")

const sumOldSpaces = ({ heapSpaceStatistics }: Collection["beforeGC"]) =>
  heapSpaceStatistics.reduce((sum, { spaceName, spaceUsedSize }) => sum + (isYoung(spaceName) ? 0 : spaceUsedSize), 0)

const summarize = (collections: ReadonlyArray<Collection>): Collections => {
  const pausesOf = (type: string) => collections.flatMap(({ cost, gcType }) => gcType === type ? [cost / 1000] : [])
  return {
    scavenges: pausesOf("Scavenge"),
    promotedBytes: collections.filter(({ gcType }) => gcType === "Scavenge").reduce(
      (sum, { afterGC, beforeGC }) => sum + sumOldSpaces(afterGC) - sumOldSpaces(beforeGC),
      0,
    ),
    markCompacts: pausesOf("MarkSweepCompact"),
  }
}

/**
 * Records garbage collections until the returned function is called. V8 reads the sizes of its heap spaces immediately
 * before and after each collection, while nothing else runs. The number of promoted bytes therefore does not depend on
 * other load or on when a collection happens, unlike pauses or the heap size between two collections.
 */
export const recordCollections = () => {
  const profiler = new GCProfiler()
  profiler.start()
  return () => summarize(profiler.stop()?.statistics ?? [])
}
