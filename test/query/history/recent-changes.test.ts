/** Compares the buffer of recent changes, which all streams in a process share, with a model (decision 0117). */
import { assert, describe, it } from "@effect/vitest"
import type { ChangeFeedEntry, ChangeFeedPosition } from "../../../src/query/history/ChangeFeed.ts"
import {
  isLaterFeedPosition,
  makeChangeMatcher,
  makeRecentChangeBuffer,
} from "../../../src/query/history/RecentChanges.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const encoder = new TextEncoder()

/** Creates a change with `size` bytes of JSON. */
const makeChange = (recordedAt: number, position: number, dataset: string, size: number): ChangeFeedEntry => ({
  recordedAt,
  position,
  dataset,
  kind: "added",
  tickers: ["A"],
  cursor: `${recordedAt}.${position}`,
  json: encoder.encode("x".repeat(size)),
})

const listIds = (text: Uint8Array) =>
  Array.from(new TextDecoder().decode(text).matchAll(/^id: (.*)$/gm), ([, id]) => id)

const all = makeChangeMatcher({ datasets: ["a", "b"], kinds: undefined, tickers: undefined })
const onlyB = makeChangeMatcher({ datasets: ["b"], kinds: ["added"], tickers: ["A", "Z"] })

describe("The recent changes", () => {
  it("give each stream the changes after its position, once and in order, or report that they were dropped (decision 0117)", () => {
    for (let seed = 1; seed <= getInputCount(200); seed++) {
      const choose = makeRandomChooser(seed)
      const start: ChangeFeedPosition = { recordedAt: 0, position: Infinity }
      const recent = makeRecentChangeBuffer({ cursor: "0.", end: start }, 20_000)
      const written: Array<ChangeFeedEntry> = []
      const streams: Array<
        { place: { next: number; cursor: string; end: ChangeFeedPosition }; from: number; ids: Array<string> }
      > = []
      let [time, position] = [0, 0]
      /** Whether the newest transaction is complete. If it is, the next change must belong to a new transaction. */
      let isEnded = true
      /** The number of streams that fell behind. */
      let dropped = 0
      for (let step = 0; step < 60; step++) {
        const count = choose([0, 1, 2, 5])
        const changes = Array.from({ length: count }, () => {
          const isNext = isEnded || choose([true, false])
          isEnded = false
          time += isNext ? 1 : 0
          position = isNext ? 1 : position + 1
          return makeChange(time, position, choose(["a", "b"]), choose([10, 500, 3_000]))
        })
        const last = changes.at(-1)
        if (last !== undefined) {
          written.push(...changes)
          isEnded = choose([true, false])
          const end = { recordedAt: last.recordedAt, position: isEnded ? Infinity : last.position }
          recent.append({ changes, cursor: last.cursor, end, hasMore: false })
        }
        // A stream joins at the position up to which it has already read the feed. This may be before the newest
        // change.
        const from = choose([written.length, Math.max(0, written.length - choose([1, 3, 9]))])
        const joined = written[from - 1]
        const end = joined ?? start
        const next = recent.find(end)
        if (next !== undefined) streams.push({ place: { next, cursor: joined?.cursor ?? "0.", end }, from, ids: [] })
        for (const stream of streams) {
          if (choose([true, false, false])) continue
          if (recent.isBehind(stream.place)) {
            dropped += 1
            streams.splice(streams.indexOf(stream), 1)
            continue
          }
          // Takes batches until the stream has received all changes.
          for (;;) {
            const taken = recent.take(stream.place, all)
            if (taken === undefined) break
            stream.ids.push(...listIds(taken.text).map(String))
            assert.strictEqual(taken.count === 0 ? undefined : stream.ids.at(-1), taken.cursor)
          }
          assert.deepStrictEqual(stream.ids, written.slice(stream.from).map(({ cursor }) => cursor))
          if (stream.ids.length > 0) assert.strictEqual(stream.place.cursor, written.at(-1)?.cursor)
        }
      }
      assert.isAbove(streams.length + dropped, 0)
    }
  })

  it("are selected by dataset, kind and symbol, once for all equal filters (decision 0117)", () => {
    const recent = makeRecentChangeBuffer({ cursor: "0.", end: { recordedAt: 0, position: Infinity } }, 20_000)
    const changes = [makeChange(1, 1, "a", 10), makeChange(1, 2, "b", 10), makeChange(2, 1, "b", 10)]
    recent.append({ changes, cursor: "2.", end: { recordedAt: 2, position: Infinity }, hasMore: false })
    const take = (matcher: typeof all) =>
      recent.take({ next: 0, cursor: "0.", end: { recordedAt: 0, position: Infinity } }, matcher)
    const [first, second] = [
      take(onlyB),
      take(makeChangeMatcher({ datasets: ["b"], kinds: ["added"], tickers: ["A", "Z"] })),
    ]
    assert.deepStrictEqual(listIds(first?.text ?? new Uint8Array()), ["1.2", "2.1"])
    assert.strictEqual(first?.text, second?.text)
    assert.strictEqual(
      take(all)?.text,
      take(makeChangeMatcher({ datasets: ["b", "a"], kinds: undefined, tickers: undefined }))?.text,
    )
    for (const filter of [{ kinds: ["removed" as const], tickers: undefined }, { kinds: undefined, tickers: ["Z"] }]) {
      assert.strictEqual(take(makeChangeMatcher({ datasets: ["a", "b"], ...filter }))?.count, 0)
    }
  })

  it("take up at most the given number of bytes, except for the newest batch, which is always kept (decision 0117)", () => {
    const maxBytes = 100_000
    const recent = makeRecentChangeBuffer({ cursor: "0.", end: { recordedAt: 0, position: Infinity } }, maxBytes)
    for (let time = 1; time <= 1_000; time++) {
      const change = makeChange(time, 1, "a", 900)
      recent.append({ changes: [change], cursor: change.cursor, end: change, hasMore: false })
    }
    const places = Array.from({ length: 1_000 }, (_, index) => ({ recordedAt: index + 1, position: 1 }))
    const kept = places.filter((place) => recent.find(place) !== undefined)
    // A change with 900 bytes of JSON takes up about 1,000 bytes, including its other fields.
    assert.isTrue(kept.length > 20 && kept.length * 1_000 < maxBytes, String(kept.length))
    assert.isTrue(isLaterFeedPosition(kept[0] ?? { recordedAt: 0, position: 0 }, { recordedAt: 900, position: 1 }))
    const huge = makeChange(2_000, 1, "a", 1_000_000)
    recent.append({ changes: [huge], cursor: huge.cursor, end: huge, hasMore: false })
    assert.isUndefined(recent.find({ recordedAt: 999, position: 1 }))
    assert.isDefined(recent.find({ recordedAt: 1_000, position: 1 }))
  })
})
