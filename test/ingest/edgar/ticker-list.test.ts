/**
 * Tests the symbol changes that are inferred from copies of the SEC's ticker list. The tests cover these pitfalls of
 * the data: the list may revert to an earlier state (2), not every change is a rename (3), delisted companies disappear
 * (4), and companies have several symbols (5).
 */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import {
  decodeTickerList,
  groupTickersByIssuer,
  inferTickerChanges,
  isTickerListShrunk,
  type ListedTicker,
  type TickerListCopy,
} from "../../../src/ingest/edgar/read/TickerList.ts"
import { tickerListUrl } from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { readRecording, tickerListCopies } from "./Recordings.ts"

const cik = "0000000001"

const dayOf = (number: number) => new Date(Date.UTC(2026, 0, 1 + number)).toISOString().slice(0, 10)

const makeRow = (ticker: string): ListedTicker => ({ cik, name: "Company", ticker, exchange: "Nasdaq" })

/**
 * Builds one copy of the list per argument. An argument consists of the day number and the company's symbols, separated
 * by spaces.
 */
const makeCopies = (...copies: ReadonlyArray<readonly [number, string]>): ReadonlyArray<TickerListCopy> =>
  copies.map(([day, tickers]) => ({
    day: dayOf(day),
    rows: tickers.split(" ").filter((one) => one !== "").map(makeRow),
  }))

const findPairs = (copies: ReadonlyArray<TickerListCopy>) =>
  inferTickerChanges(copies).map((row) => [row["old_ticker"], row["new_ticker"], row["effective_date"]])

describe("A ticker list", () => {
  it("has the same rows whether the CIK is a number or text", () => {
    const { rows } = Result.getOrThrow(
      decodeTickerList(readRecording("tickers/company_tickers_exchange.2023-05-26.excerpt.json"), tickerListUrl),
    )
    assert.deepStrictEqual(rows[0], { cik: "0000320193", name: "Apple Inc.", ticker: "AAPL", exchange: "Nasdaq" })
    assert.strictEqual(rows.length, 203)
    assert.isFalse(rows.some(({ exchange }) => exchange === ""))
    const [copy] = tickerListCopies()
    assert.deepStrictEqual(copy?.rows[0], {
      cik: "0001045810",
      name: "NVIDIA CORP",
      ticker: "NVDA",
      exchange: "Nasdaq",
    })
    assert.strictEqual(copy?.rows.length, 251)
  })

  it("finds its columns by name, and leaves out symbols that no table can store", () => {
    const text = JSON.stringify({
      fields: ["ticker", "new", "exchange", "name", "cik"],
      data: [["ABC", 1, null, " A ", 7], ["a b", 1, null, "B", 8]],
    })
    assert.deepStrictEqual(Result.getOrThrow(decodeTickerList(text, tickerListUrl)).rows, [
      { cik: "0000000007", name: "A", ticker: "ABC", exchange: null },
    ])
  })

  it("leaves out up to 1% of unreadable rows, and counts them", () => {
    const decode = (bad: number) =>
      decodeTickerList(
        JSON.stringify({
          fields: ["cik", "name", "ticker", "exchange"],
          data: Array.from({ length: 200 }, (_, index) => [index < bad ? null : index + 1, "A", "ABC", null]),
        }),
        tickerListUrl,
      )
    const { rows, unreadable } = Result.getOrThrow(decode(2))
    assert.deepStrictEqual([rows.length, unreadable], [198, 2])
    assert.isTrue(Result.isFailure(decode(3)))
  })

  it("is rejected if it has another format", () => {
    const reject = (text: string) =>
      Result.match(decodeTickerList(text, tickerListUrl), {
        onSuccess: () => "accepted",
        onFailure: ({ reason }) => reason,
      })
    const other = readRecording("tickers/company_tickers.2024-05-14.excerpt.json")
    assert.strictEqual(reject(other), "has an unexpected value at fields")
    assert.strictEqual(
      reject(`{"fields":["cik","name","ticker"],"data":[[1,"A","ABC"]]}`),
      "has an unexpected value at exchange",
    )
    assert.strictEqual(
      reject(`{"fields":["cik","name","ticker","exchange"],"data":[["x","A","ABC",null]]}`),
      "has an unexpected value at cik",
    )
    assert.strictEqual(reject("<html>"), "is an HTML or XML page instead of JSON")
  })

  it("groups the symbols of a company, with the first as the primary symbol (pitfall 5)", () => {
    const rows = [makeRow("TWO"), { ...makeRow("XYZ"), cik: "0000000002" }, makeRow("TWO-PC")]
    assert.deepStrictEqual(groupTickersByIssuer(rows).get(cik), {
      cik,
      name: "Company",
      ticker: "TWO",
      exchange: "Nasdaq",
      tickers: ["TWO", "TWO-PC"],
    })
  })

  it("has shrunk if it lacks more than 1% of the rows (pitfall 2)", () => {
    assert.isTrue(isTickerListShrunk({ length: 10_418 }, { length: 9_304 }))
    assert.isFalse(isTickerListShrunk({ length: 10_000 }, { length: 9_900 }))
    assert.isTrue(isTickerListShrunk({ length: 10_000 }, { length: 9_899 }))
    assert.isFalse(isTickerListShrunk({ length: 10_000 }, { length: 12_000 }))
  })
})

describe("Copies of the ticker list", () => {
  it("suggest no change while the SEC's responses alternate between two states (pitfall 2)", () => {
    assert.deepStrictEqual(tickerListCopies().map(({ day }) => day), [
      "2026-06-07",
      "2026-06-08",
      "2026-06-14",
      "2026-06-15",
      "2026-06-17",
    ])
    assert.deepStrictEqual(inferTickerChanges(tickerListCopies()), [])
  })

  it("suggest the rename, and nothing else, once the new state has lasted for a week (pitfall 2, pitfall 3)", () => {
    const copies = tickerListCopies()
    const { rows = [] } = copies.at(-1) ?? {}
    const later = ["2026-06-19", "2026-06-24", "2026-06-30"].map((day) => ({ day, rows }))
    assert.deepStrictEqual(inferTickerChanges([...copies, ...later]), [{
      old_ticker: "IAC",
      new_ticker: "PPLI",
      effective_date: "2026-06-17",
      cik: "0001800227",
      company_name: "People Inc",
      status: "estimated",
      source: "SEC ticker list: IAC until 2026-06-15, PPLI in 3 copies from 2026-06-17 to 2026-06-24",
      source_links: [
        "https://www.sec.gov/files/company_tickers_exchange.json#2026-06-15/0001800227",
        "https://www.sec.gov/files/company_tickers_exchange.json#2026-06-17/0001800227",
      ],
    }])
    assert.deepStrictEqual(
      inferTickerChanges([...later, ...copies].toReversed()),
      inferTickerChanges([...copies, ...later]),
    )
  })

  const standing = (oldTickers: string, newTickers: string) =>
    findPairs(makeCopies([0, oldTickers], [1, newTickers], [4, newTickers], [8, newTickers]))

  it("suggest a change that has lasted for a week and in three copies", () => {
    assert.deepStrictEqual(standing("FB", "META"), [["FB", "META", "2026-01-02"]])
    assert.deepStrictEqual(findPairs(makeCopies([0, "FB"], [1, "META"], [4, "META"], [7, "META"])), [])
    assert.deepStrictEqual(findPairs(makeCopies([0, "FB"], [1, "META"], [8, "META"])), [])
  })

  it("suggest a change even if the company has other symbols, too (pitfall 5)", () => {
    assert.deepStrictEqual(standing("FB FB-PA", "META FB-PA"), [["FB", "META", "2026-01-02"]])
    assert.deepStrictEqual(standing("OLDC OLDCU OLDCW", "NEWS NEWSW"), [["OLDC", "NEWS", "2026-01-02"]])
  })

  it("suggest nothing if a company lost or gained several symbols at once (pitfall 5)", () => {
    assert.deepStrictEqual(standing("AAA BBB", "CCC DDD"), [])
    assert.deepStrictEqual(standing("AAA", "CCC DDD"), [])
  })

  it("suggest nothing for suffixes, rights, units, warrants, when-issued shares and moves to OTC (pitfall 3)", () => {
    const pairs = [
      ["NUVID", "NUVI"],
      ["NVRI-WI", "NVRI"],
      ["LGL-RW", "LGL-RI"],
      ["KVAC", "KVACF"],
      ["PRNAF", "PRNAD"],
      ["OCTVV", "OCTLF"],
      ["IPV", "IPVV IPVVU"],
      ["ABCDU", "WXYZ"],
      ["BRK-A", "BRK-B"],
      ["ABCD", "ABCDQ"],
    ] as const
    for (const [before, after] of pairs) {
      assert.deepStrictEqual(standing(before, after), [], `${before} ${after}`)
      assert.deepStrictEqual(standing(after, before), [], `${after} ${before}`)
    }
  })

  it("suggest nothing if the old symbol returns, or was only an error in a few copies (pitfall 2)", () => {
    assert.deepStrictEqual(
      findPairs(makeCopies([0, "FB"], [1, "META"], [4, "META"], [9, "META"], [20, "FB"], [21, "META"])),
      [],
    )
    assert.deepStrictEqual(
      findPairs(makeCopies([0, "META"], [1, "FB"], [2, "META"], [4, "META"], [20, "META"])),
      [],
    )
  })

  it("date the change from the first day since which the new symbol was in every copy (pitfall 2)", () => {
    const copies = makeCopies([0, "FB"], [1, "META"], [2, ""], [4, "META"], [6, "META"], [12, "META"])
    assert.deepStrictEqual(findPairs(copies), [["FB", "META", "2026-01-05"]])
  })

  it("suggest no change from one company to another, and none if a company disappears (pitfall 4)", () => {
    const other = (ticker: string) => [{ ...makeRow(ticker), cik: "0000000002" }]
    const copies = [0, 1, 5, 9].map((day) => ({ day: dayOf(day), rows: day === 0 ? [makeRow("FB")] : other("META") }))
    assert.deepStrictEqual(inferTickerChanges(copies), [])
  })
})

// ----------------------------------------------------------------------------------------------------------------
// A model that follows the definition literally instead of scanning the copies
// ----------------------------------------------------------------------------------------------------------------

const symbols = ["FB", "META", "TWO", "XY"] as const

/** One entry per copy: the number of days since the previous copy, and the company's symbols. */
const Histories = Schema.Array(Schema.Tuple([
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5 })),
  Schema.Array(Schema.Literals(symbols)).check(Schema.isMaxLength(2)),
])).check(Schema.isMinLength(2), Schema.isMaxLength(9))

const findByDefinition = (copies: ReadonlyArray<TickerListCopy>) => {
  const has = (index: number, ticker: string) => copies[index]?.rows.some((row) => row.ticker === ticker) === true
  const indexes = copies.map((_, index) => index)
  const isListed = (index: number) => symbols.some((ticker) => has(index, ticker))
  const days = (from: number, until: number) =>
    (Date.parse(copies[until]?.day ?? "") - Date.parse(copies[from]?.day ?? "")) / 86_400_000
  const replaces = (older: string, newer: string) =>
    indexes.some((next) => {
      const before = indexes.findLast((index) => index < next && isListed(index))
      if (before === undefined || !isListed(next)) return false
      const lost = symbols.filter((ticker) => has(before, ticker) && !has(next, ticker))
      const gained = symbols.filter((ticker) => !has(before, ticker) && has(next, ticker))
      return String(lost) === older && String(gained) === newer
    })
  return symbols.flatMap((older) =>
    symbols.flatMap((newer) => {
      if (older === newer || !replaces(older, newer)) return []
      const firstOfOne = indexes.find((index) => has(index, older) !== has(index, newer))
      if (firstOfOne === undefined || !has(firstOfOne, older)) return []
      const lastOld = Math.max(...indexes.filter((index) => has(index, older)))
      const start = indexes.find((from) =>
        from > lastOld && indexes.some((until) =>
          until >= from + 2 && days(from, until) >= 7 &&
          indexes.every((index) => index < from || index > until || has(index, newer))
        )
      )
      return start === undefined ? [] : [[older, newer, copies[start]?.day]]
    })
  )
}

describe("Random copies", () => {
  it.prop(
    "suggest exactly the changes that a direct implementation of the definition finds (pitfall 2)",
    [Histories],
    ([history]) => {
      let day = 0
      const copies = history.map(([step, tickers]) => {
        day += step
        return { day: dayOf(day), rows: Array.from(new Set(tickers), makeRow) }
      })
      assert.sameDeepMembers(findPairs(copies), findByDefinition(copies))
    },
    { arbitrary: { runs: getInputCount(3000) } },
  )

  it("may suggest a change, so that the comparison means something", () => {
    const copies = makeCopies([0, "FB"], [2, "META"], [6, "META TWO"], [9, "META"])
    assert.deepStrictEqual(findByDefinition(copies), [["FB", "META", "2026-01-03"]])
    assert.deepStrictEqual(findPairs(copies), [["FB", "META", "2026-01-03"]])
  })
})
