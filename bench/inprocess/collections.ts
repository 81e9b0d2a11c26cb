/** Measures what V8's garbage collections cost, by the figures of V8 itself. */
import { GCProfiler, type GCProfilerResult } from "node:v8"

type Collection = GCProfilerResult["statistics"][number]

/** The garbage collections of a period. */
export interface Collections {
  /** The pauses of all scavenges, which collect new objects, in milliseconds. */
  readonly scavenges: ReadonlyArray<number>
  /** Bytes that scavenges moved to the old generation, where only a mark-compact collects them. */
  readonly promotedBytes: number
  /** The pauses of all mark-compacts, which collect the whole heap, in milliseconds. */
  readonly markCompacts: ReadonlyArray<number>
}

/** Whether a heap space has new objects. Others belong to the old generation. */
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
 * Records the collections until the returned function is called. V8 reads the sizes of its spaces just before and after
 * each collection, while nothing else runs. So the promoted bytes depend neither on other load nor on when a collection
 * happens, unlike a time or the size of the heap between two collections.
 */
export const recordCollections = () => {
  const profiler = new GCProfiler()
  profiler.start()
  return () => summarize(profiler.stop()?.statistics ?? [])
}
