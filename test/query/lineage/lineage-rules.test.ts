/** Tests D20 (components), D21 (chains and conflicts) and D35 (selection by CIK) without a database. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Result, Schema } from "effect"
import { readFileSync } from "node:fs"
import {
  formatLineage,
  type LineageCandidate,
  type LineageLink,
  maxLineageLinks,
  resolveLineage,
  resolveLineageOfEvents,
  selectLineageCandidate,
  type TickerChangeEvent,
  toCompanyLineage,
} from "../../../src/query/lineage/LineageRules.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

type Events = ReadonlyArray<TickerChangeEvent>

/** The reasons for conflicts listed in §4.1 (ambiguous symbols), in the order defined by D21. */
const reasonsInOrder = [
  "multiple_cik_lineages",
  "same_date_events",
  "competing_destinations",
  "broken_chain",
  "max_hops_exceeded",
] as const
type Reason = typeof reasonsInOrder[number]

/** Returns the date `number` days after 1998-01-01. */
const day = (number: number) => new Date(Date.UTC(1998, 0, 1 + number)).toISOString().slice(0, 10)

const event = (
  old_ticker: string,
  new_ticker: string,
  effective_date: string,
  cik: string | null = null,
  company_name: string | null = null,
): TickerChangeEvent => ({ old_ticker, new_ticker, effective_date, cik, company_name })

const links = (events: Events): ReadonlyArray<LineageLink> =>
  events.map(({ effective_date, new_ticker, old_ticker }) => ({ old_ticker, new_ticker, effective_date }))

const resolveEvents = ([first, ...others]: Events) => {
  if (first === undefined) throw new Error("a component has at least one event")
  return resolveLineage([first, ...others])
}

/** Resolves a component that must form a chain. */
const expectResolved = (events: Events) => {
  const resolution = resolveEvents(events)
  if (Result.isFailure(resolution)) throw new Error(`refused: ${resolution.failure.reasons.join(", ")}`)
  const { current_ticker, history }: { current_ticker: string; history: ReadonlyArray<LineageLink> } =
    resolution.success
  return { history, current_ticker }
}

/** Resolves a component that must be in conflict. */
const expectConflict = (events: Events) => {
  const resolution = resolveEvents(events)
  if (Result.isSuccess(resolution)) throw new Error(`resolved to ${resolution.success.current_ticker}`)
  const candidates: ReadonlyArray<
    Omit<LineageCandidate, "history"> & { readonly history: ReadonlyArray<LineageLink> }
  > = resolution.failure.candidates
  return { ...resolution.failure, candidates }
}

/** Returns the reasons of a conflict. The list is empty for a chain. */
const findReasons = (events: Events): ReadonlyArray<Reason> => {
  const resolution = resolveEvents(events)
  return Result.isFailure(resolution) ? resolution.failure.reasons : []
}

// ----------------------------------------------------------------------------------------------------------------
// Generators
// ----------------------------------------------------------------------------------------------------------------

const arbitraryInteger = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

const arbitraryArray = <A>(item: Arbitrary.Arbitrary<A>, length: number) =>
  Arbitrary.array(item, { minLength: length, maxLength: length })

const arbitraryChoice = <const Choices extends ReadonlyArray<string | null>>(choices: Choices) =>
  Arbitrary.map(arbitraryInteger(0, choices.length - 1), (at): Choices[number] => choices[at] ?? null)

/** Shuffles values by sorting them by random keys. */
const shuffle = <A>(items: ReadonlyArray<A>, keys: ReadonlyArray<number>) =>
  items.map((item, at) => ({ item, key: keys[at] ?? 0 }))
    .toSorted((left, right) => left.key - right.key)
    .map(({ item }) => item)

const arbitraryKeys = arbitraryArray(arbitraryInteger(0, 1_000_000_000), 80)

/**
 * A valid chain, oldest event first. All symbols differ, with one exception: the last symbol may equal an earlier one,
 * but not the one that it replaces. No symbol is therefore given up twice.
 */
const arbitraryChain = (least: number, most: number): Arbitrary.Arbitrary<Events> =>
  Arbitrary.flatMap(arbitraryInteger(least, most), (length) =>
    Arbitrary.map(
      Arbitrary.all({
        numbers: arbitraryArray(arbitraryInteger(0, 60_000), length + 1),
        gaps: arbitraryArray(arbitraryInteger(1, 800), length),
        end: arbitraryInteger(0, 2 * length),
        issuer: arbitraryInteger(1, 9_999_999),
        hasCik: arbitraryArray(arbitraryInteger(0, 1), length),
      }),
      ({ end, gaps, issuer, numbers, hasCik }) => {
        const symbols = numbers.map((number, at) => (number * 24 + at).toString(36).toUpperCase())
        if (end < length - 1) symbols[length] = symbols[end] ?? ""
        let at = 0
        return gaps.map((gap, link) => {
          at += gap
          const cik = hasCik[link] === 1 ? String(issuer).padStart(10, "0") : null
          return event(symbols[link] ?? "", symbols[link + 1] ?? "", day(at), cik, cik && "Issuer")
        })
      },
    ))

/** Several chains without common symbols. */
const arbitraryChains = Arbitrary.map(
  Arbitrary.array(arbitraryChain(1, 12), { minLength: 1, maxLength: 5 }),
  (all) =>
    all.map((events, number) =>
      events.map((one) => ({
        ...one,
        old_ticker: `${number}.${one.old_ticker}`,
        new_ticker: `${number}.${one.new_ticker}`,
      }))
    ),
)

const arbitrarySymbolPairs = (symbols: ReadonlyArray<string>) =>
  symbols.flatMap((from) => symbols.filter((to) => to !== from).map((to) => [from, to] as const))

/**
 * Removes events with the same symbols, date and CIK as an earlier event. The constraints of D22 keep such duplicates
 * out of the table.
 */
const withoutRepeats = (events: Events): Events =>
  events.filter((one, at) =>
    !events.slice(0, at).some((other) =>
      other.old_ticker === one.old_ticker && other.new_ticker === one.new_ticker &&
      other.effective_date === one.effective_date && other.cik === one.cik
    )
  )

/**
 * Merges events as D20 requires: events with the same symbols and date become one event if they have at most one CIK
 * between them.
 */
const mergeRepeats = (events: Events): Events => {
  const repeats = (one: TickerChangeEvent) =>
    events.filter((other) =>
      other.old_ticker === one.old_ticker && other.new_ticker === one.new_ticker &&
      other.effective_date === one.effective_date
    )
  return events.flatMap((one) => {
    const others = repeats(one).filter((other) => other !== one)
    if (one.cik === null) return others.some(({ cik }) => cik !== null) ? [] : [one]
    const name = others.every(({ cik }) => cik === null) ? others[0]?.company_name : undefined
    return [{ ...one, company_name: one.company_name ?? name ?? null }]
  })
}

const arbitraryFewPairs = arbitrarySymbolPairs(["A", "B", "C", "D", "E"])

/** Arbitrary events between a few symbols, with few dates and issuers, which makes conflicts frequent. */
const arbitraryEvents: Arbitrary.Arbitrary<Events> = Arbitrary.map(
  Arbitrary.array(
    Arbitrary.all({
      pair: arbitraryInteger(0, arbitraryFewPairs.length - 1),
      date: arbitraryInteger(0, 8),
      cik: arbitraryChoice([null, "0000000001", "0000000001", "0000000002", "0000000003"]),
      company_name: arbitraryChoice([null, "One", "Two"]),
    }),
    { minLength: 1, maxLength: 7 },
  ),
  (all) =>
    withoutRepeats(all.map(({ cik, company_name, date, pair }) => {
      const [from, to] = arbitraryFewPairs[pair] ?? ["A", "B"]
      return event(from, to, day(date), cik, company_name)
    })),
)

/** A chain of about the maximum length with up to three corrupted events. */
const arbitraryCorruptedChain: Arbitrary.Arbitrary<Events> = Arbitrary.map(
  Arbitrary.all({
    events: arbitraryChain(8, 16),
    corruptions: Arbitrary.array(
      Arbitrary.all({ at: arbitraryInteger(0, 15), from: arbitraryInteger(0, 15), what: arbitraryInteger(0, 3) }),
      { minLength: 0, maxLength: 3 },
    ),
  }),
  ({ corruptions, events }) =>
    withoutRepeats(corruptions.reduce<Events>((now, { at, from, what }) => {
      const source = now[from % now.length]
      return now.map((one, place) => {
        if (place !== at % now.length || source === undefined) return one
        if (what === 0) return { ...one, effective_date: source.effective_date }
        if (what === 1) return { ...one, cik: "0000000042" }
        const old_ticker = what === 2 ? source.old_ticker : one.old_ticker
        const new_ticker = what === 3 ? source.new_ticker : one.new_ticker
        return old_ticker === new_ticker ? one : { ...one, old_ticker, new_ticker }
      })
    }, events)),
)

// ----------------------------------------------------------------------------------------------------------------
// The independent implementation: D20 and D21 sentence by sentence, over pairs and over every order that dates allow
// ----------------------------------------------------------------------------------------------------------------

const listSymbolPairs = (events: Events) =>
  events.flatMap((left, at) => events.slice(at + 1).map((right) => [left, right] as const))

/** Returns every possible ordering by date. There is more than one only if events share a date. */
const listDateOrders = (events: Events): ReadonlyArray<Events> =>
  events.length === 0
    ? [[]]
    : events.filter((one) => events.every((other) => one.effective_date <= other.effective_date)).flatMap((first) =>
      listDateOrders(events.filter((other) => other !== first)).map((others) => [first, ...others])
    )

const isConnected = (ordered: Events) =>
  ordered.every((one, at) => at === 0 || ordered[at - 1]?.new_ticker === one.old_ticker)

/**
 * Returns the reasons that must apply and those that may apply. Events on the same date can be in any order. If only
 * some of these orders form a chain, D21 does not determine whether `broken_chain` applies, so both results are
 * correct.
 */
const findExpectedReasons = (
  events: Events,
): { readonly must: ReadonlyArray<Reason>; readonly may: ReadonlyArray<Reason> } => {
  const pairs = listSymbolPairs(events)
  const orders = listDateOrders(events)
  const differ = (left: string | null, right: string | null) => left !== null && right !== null && left !== right
  const certain: ReadonlyArray<readonly [Reason, boolean]> = [
    ["multiple_cik_lineages", pairs.some(([left, right]) => differ(left.cik, right.cik))],
    ["same_date_events", pairs.some(([left, right]) => left.effective_date === right.effective_date)],
    ["competing_destinations", pairs.some(([left, right]) => left.old_ticker === right.old_ticker)],
    ["broken_chain", !orders.some(isConnected)],
    ["max_hops_exceeded", events.length > 12],
  ]
  const must = certain.flatMap(([reason, holds]) => holds ? [reason] : [])
  return { must, may: orders.every(isConnected) || must.includes("broken_chain") ? must : [...must, "broken_chain"] }
}

/**
 * Finds components with a simple union-find: each symbol has a label, and each event merges the labels of its two
 * symbols.
 */
const findComponents = (events: Events): ReadonlyArray<Events> => {
  const label = new Map<string, string>()
  for (const { new_ticker, old_ticker } of events) {
    for (const symbol of [old_ticker, new_ticker]) if (!label.has(symbol)) label.set(symbol, symbol)
    const [merged, replaced] = [label.get(old_ticker) ?? "", label.get(new_ticker) ?? ""]
    for (const [symbol, current] of label) if (current === replaced) label.set(symbol, merged)
  }
  return [...new Set(label.values())].map((root) => events.filter((one) => label.get(one.old_ticker) === root))
}

/** One issuer's events in a conflict. */
interface Part {
  readonly cik: string
  readonly events: Events
}

/**
 * Returns the expected candidates in any order. The list is empty if an event has no CIK, or if an issuer's events do
 * not form a chain.
 */
const findParts = (events: Events): ReadonlyArray<Part> => {
  const known = events.flatMap(({ cik }) => cik === null ? [] : [cik])
  const split = [...new Set(known)].map((cik) => ({ cik, events: events.filter((one) => one.cik === cik) }))
  if (known.length < events.length || !split.every((part) => findExpectedReasons(part.events).may.length === 0)) {
    return []
  }
  return split.map((part) => ({ ...part, events: listDateOrders(part.events)[0] ?? [] }))
}

const getFirstDate = ({ history }: { readonly history: ReadonlyArray<LineageLink> }) => history[0]?.effective_date ?? ""

/** Returns the errors in the result for a component. The list is empty if the result is correct. */
const findProblems = (recorded: Events): ReadonlyArray<string> => {
  const resolution = resolveEvents(recorded)
  const events = mergeRepeats(recorded)
  const { may, must } = findExpectedReasons(events)
  if (Result.isSuccess(resolution)) {
    const right = listDateOrders(events)[0] ?? []
    return [
      ...must.map((reason) => `resolved in spite of ${reason}`),
      ...JSON.stringify(resolution.success.history) === JSON.stringify(links(right)) ? [] : ["wrong history"],
      ...resolution.success.current_ticker === right[right.length - 1]?.new_ticker ? [] : ["wrong current_ticker"],
    ]
  }
  const { candidates, reasons, tickers } = resolution.failure
  const involved = new Set(events.flatMap((one) => [one.old_ticker, one.new_ticker]))
  const wanted = findParts(events)
  return [
    ...must.filter((reason) => !reasons.includes(reason)).map((reason) => `lacks ${reason}`),
    ...reasons.filter((reason) => !may.includes(reason)).map((reason) => `invents ${reason}`),
    ...JSON.stringify(reasons) === JSON.stringify(reasonsInOrder.filter((reason) => reasons.includes(reason)))
      ? []
      : ["reasons out of order"],
    ...tickers.length === involved.size && tickers.every((symbol) => involved.has(symbol)) ? [] : ["wrong tickers"],
    ...tickers.every((symbol, at) => at === 0 || (tickers[at - 1] ?? "") < symbol) ? [] : ["tickers not sorted"],
    ...candidates.length === wanted.length ? [] : [`${candidates.length} candidates for ${wanted.length}`],
    ...candidates.every((one, at) => at === 0 || getFirstDate(candidates[at - 1] ?? one) <= getFirstDate(one))
      ? []
      : ["candidates not by first date"],
    ...wanted.flatMap(({ cik, events: own }) => {
      const found = candidates.find((candidate) => candidate.cik === cik)
      if (found === undefined) return [`no candidate ${cik}`]
      const names = own.flatMap(({ company_name }) => company_name === null ? [] : [company_name])
      return [
        ...JSON.stringify(found.history) === JSON.stringify(links(own)) ? [] : [`wrong history of ${cik}`],
        ...found.current_ticker === own[own.length - 1]?.new_ticker ? [] : [`wrong current_ticker of ${cik}`],
        ...(names.length === 0 ? found.company_name === null : names.includes(found.company_name ?? ""))
          ? []
          : [`wrong name of ${cik}`],
      ]
    }),
  ]
}

// ----------------------------------------------------------------------------------------------------------------

describe("resolveLineage (D20)", () => {
  it.prop(
    "gives every symbol of a company the complete history and the same current_ticker (D20)",
    [arbitraryChains, arbitraryKeys],
    ([all, order]) => {
      const unordered = findComponents(shuffle(all.flat(), order))
      assert.strictEqual(unordered.length, all.length)
      for (const events of all) {
        const last = events[events.length - 1]
        for (const symbol of new Set(events.flatMap((one) => [one.old_ticker, one.new_ticker]))) {
          const own = unordered.find((component) =>
            component.some((one) => one.old_ticker === symbol || one.new_ticker === symbol)
          )
          assert.deepStrictEqual(expectResolved(own ?? []), {
            history: links(events),
            current_ticker: last?.new_ticker ?? "",
          })
        }
      }
    },
    { arbitrary: { runs: 200 } },
  )

  it.prop(
    "finds the same chain for any order of the events (D21)",
    [arbitraryChain(1, 12), arbitraryKeys],
    ([events, order]) => {
      assert.deepStrictEqual(expectResolved(shuffle(events, order)), expectResolved(events))
    },
    { arbitrary: { runs: 300 } },
  )

  it.prop(
    "finds the same conflict for any order of the events (D21)",
    [arbitraryEvents, arbitraryKeys],
    ([events, order]) => {
      assert.deepStrictEqual(resolveEvents(shuffle(events, order)), resolveEvents(events))
    },
    { arbitrary: { runs: getInputCount(1000) } },
  )

  it("accepts one event (§2.2)", () => {
    assert.deepStrictEqual(expectResolved([event("FB", "META", "2022-06-09", "0001326801", "Meta")]), {
      history: [{ old_ticker: "FB", new_ticker: "META", effective_date: "2022-06-09" }],
      current_ticker: "META",
    })
  })

  it("accepts A to B and B to A, which ends where it began (D21)", () => {
    const events = [event("A", "B", "2001-01-01"), event("B", "A", "2002-01-01")]
    assert.deepStrictEqual(expectResolved(events), { history: links(events), current_ticker: "A" })
  })

  it("accepts A to B, B to C and C to A, which ends where it began (D21)", () => {
    const events = [event("A", "B", "2001-01-01"), event("B", "C", "2002-01-01"), event("C", "A", "2003-01-01")]
    assert.deepStrictEqual(expectResolved(events), { history: links(events), current_ticker: "A" })
  })

  it("merges a change that is recorded with a CIK and without (D20)", () => {
    const [first, last] = [event("A", "B", day(1), null, "One"), event("B", "C", day(2), "0000000001")]
    const resolution = resolveEvents([first, last, event("A", "B", day(1), "0000000001")])
    if (Result.isFailure(resolution)) throw new Error(resolution.failure.reasons.join())
    assert.deepStrictEqual<unknown>(resolution.success, {
      history: links([first, last]),
      current_ticker: "C",
      cik: "0000000001",
      company_name: "One",
    })
  })

  it("treats a missing CIK as unknown, not as different (D21)", () => {
    const events = [
      event("A", "B", "2001-01-01"),
      event("B", "C", "2002-01-01", "0000000007"),
      event("C", "D", "2003-01-01"),
      event("D", "E", "2004-01-01", "0000000007"),
    ]
    assert.strictEqual(expectResolved(events).current_ticker, "E")
    assert.strictEqual(expectResolved(events.map((one) => ({ ...one, cik: null }))).current_ticker, "E")
  })
})

describe("the maximum length (D21)", () => {
  it("is twelve links (§8)", () => {
    assert.strictEqual(maxLineageLinks, 12)
  })

  it.prop("allows twelve links (D21)", [arbitraryChain(12, 12)], ([events]) => {
    assert.deepStrictEqual(expectResolved(events).history, links(events))
  })

  it.prop("excludes thirteen or more links (D21)", [arbitraryChain(13, 23)], ([events]) => {
    const { candidates, reasons, tickers } = expectConflict(events)
    assert.deepStrictEqual([...reasons], ["max_hops_exceeded"])
    assert.deepStrictEqual(candidates, [])
    assert.deepStrictEqual(
      tickers,
      [...new Set(events.flatMap((one) => [one.old_ticker, one.new_ticker]))].toSorted(),
    )
  })
})

/** Returns a component whose conflict has exactly these reasons. */
const findExample = (wanted: ReadonlyArray<Reason>): Events => {
  const symbol = (number: number) => `S${String(number).padStart(2, "0")}`
  const length = wanted.includes("max_hops_exceeded") ? 13 : 3
  const plain = Array.from({ length }, (_, at) => event(symbol(at), symbol(at + 1), day(10 * at)))
  const end = symbol(length)
  const corruptEvent = plain.concat(
    wanted.includes("competing_destinations")
      ? [event(end, "T", day(1001)), event("T", end, day(1002)), event(end, "U", day(1003))]
      : [],
    wanted.includes("broken_chain") ? [event("X", symbol(1), day(2000))] : [],
  )
  return corruptEvent.map((one, at) => ({
    ...one,
    ...(wanted.includes("same_date_events") && at === 1 ? { effective_date: day(0) } : {}),
    ...(wanted.includes("multiple_cik_lineages") && at === 0 ? { cik: "0000000001" } : {}),
    ...(wanted.includes("multiple_cik_lineages") && at === 2 ? { cik: "0000000002" } : {}),
  }))
}

const subsets = Array.from(
  { length: 32 },
  (_, number) => reasonsInOrder.filter((_, at) => Math.floor(number / 2 ** at) % 2 === 1),
)

/** Returns whether an event contributes to a reason, as defined by D21. */
const contributesToReason = (events: Events, one: TickerChangeEvent, reason: Reason): boolean => {
  const others = events.filter((other) => other !== one)
  const before = events.filter((other) => other.effective_date < one.effective_date)
  switch (reason) {
    case "multiple_cik_lineages":
      return one.cik !== null && others.some(({ cik }) => cik !== null && cik !== one.cik)
    case "same_date_events":
      return others.some(({ effective_date }) => effective_date === one.effective_date)
    case "competing_destinations":
      return others.some(({ old_ticker }) => old_ticker === one.old_ticker)
    case "broken_chain":
      return before.length > 0 && before.toSorted((a, b) => a.effective_date < b.effective_date ? -1 : 1)
            .at(-1)?.new_ticker !== one.old_ticker
    case "max_hops_exceeded":
      return before.length >= 12
  }
}

describe("the events of a conflict (D21)", () => {
  it.prop(
    "are each listed once, sorted by date, and each reason has an event that contributes to it (D21)",
    [arbitraryEvents, arbitraryKeys],
    ([recorded, order]) => {
      const resolution = resolveEvents(shuffle(recorded, order))
      if (Result.isSuccess(resolution)) return
      const events = mergeRepeats(recorded)
      const { event_count, events: shown, reasons } = resolution.failure
      assert.strictEqual(event_count, events.length)
      assert.sameDeepMembers(
        shown.map((one) => event(one.old_ticker, one.new_ticker, one.effective_date, one.cik, one.company_name)),
        [...events],
      )
      assert.isTrue(shown.every((one, at) => at === 0 || (shown[at - 1]?.effective_date ?? "") <= one.effective_date))
      const held = new Set(shown.flatMap((one) => one.reasons))
      assert.deepStrictEqual(reasonsInOrder.filter((reason) => held.has(reason)), [...reasons])
      const dated = new Set(events.map(({ effective_date }) => effective_date)).size === events.length
      for (const one of shown) {
        const own = events.find((event) =>
          event.old_ticker === one.old_ticker && event.new_ticker === one.new_ticker && event.cik === one.cik &&
          event.effective_date === one.effective_date
        )
        // Events on the same date can be in any order, so it is undefined which of them breaks the chain or exceeds the
        // maximum length.
        const definiteReasons = reasonsInOrder.filter((reason) =>
          dated || (reason !== "broken_chain" && reason !== "max_hops_exceeded")
        )
        assert.isDefined(own)
        if (own === undefined) continue
        assert.deepStrictEqual(
          one.reasons.filter((reason) => definiteReasons.includes(reason)),
          definiteReasons.filter((reason) => contributesToReason(events, own, reason)),
        )
      }
    },
    { arbitrary: { runs: getInputCount(1000) } },
  )

  it.prop("have the reason max_hops_exceeded, beginning with the thirteenth event of a long chain (D21)", [
    arbitraryChain(13, 23),
  ], ([events]) => {
    const { events: shown } = expectConflict(events)
    assert.deepStrictEqual(
      shown.map(({ reasons }) => [...reasons]),
      events.map((_, at) => at < 12 ? [] : ["max_hops_exceeded"]),
    )
  })
})

describe("the reasons of a conflict (D21)", () => {
  for (const wanted of subsets) {
    it(`can be exactly these, in this order: ${wanted.join(", ") || "none"} (D21)`, () => {
      const events = findExample(wanted)
      assert.deepStrictEqual(findReasons(events), wanted)
      assert.deepStrictEqual(findReasons(events.toReversed()), wanted)
    })
  }

  it("of A to B, B to A and A to C are only competing_destinations (D21)", () => {
    const events = [event("A", "B", "2001-01-01"), event("B", "A", "2002-01-01"), event("A", "C", "2003-01-01")]
    assert.deepStrictEqual(findReasons(events), ["competing_destinations"])
  })

  it("of A to B and A to C are competing_destinations and broken_chain (D21)", () => {
    const events = [event("A", "B", "2001-01-01"), event("A", "C", "2002-01-01")]
    assert.deepStrictEqual(findReasons(events), ["competing_destinations", "broken_chain"])
  })

  it("of two symbols that become one are only broken_chain (D21)", () => {
    const events = [event("A", "C", "2001-01-01"), event("B", "C", "2002-01-01")]
    assert.deepStrictEqual(findReasons(events), ["broken_chain"])
  })

  it("of links whose dates are in the wrong order are only broken_chain (D21)", () => {
    const events = [event("B", "C", "2001-01-01"), event("A", "B", "2002-01-01")]
    assert.deepStrictEqual(findReasons(events), ["broken_chain"])
  })

  it("of A to B and B to A on one day are only same_date_events (D21)", () => {
    const events = [event("A", "B", "2001-01-01"), event("B", "A", "2001-01-01")]
    assert.deepStrictEqual(findReasons(events), ["same_date_events"])
  })

  it("of the same change by two issuers on one day are all except max_hops_exceeded (D21)", () => {
    const events = [event("A", "B", "2001-01-01", "0000000001"), event("A", "B", "2001-01-01", "0000000002")]
    assert.deepStrictEqual(findReasons(events), reasonsInOrder.slice(0, 4))
  })

  it("depend on all CIKs, not only on those of adjacent events (D21)", () => {
    const events = [
      event("A", "B", "2001-01-01", "0000000001"),
      event("B", "C", "2002-01-01"),
      event("C", "D", "2003-01-01", "0000000002"),
    ]
    assert.deepStrictEqual(findReasons(events), ["multiple_cik_lineages"])
  })

  it("come with all symbols involved, sorted and without duplicates (D21)", () => {
    const events = [event("Z", "B", "2001-01-01"), event("B", "M.A", "2002-01-01"), event("B", "A", "2003-01-01")]
    assert.deepStrictEqual(expectConflict(events).tickers, ["A", "B", "M.A", "Z"])
  })
})

describe("the candidates (D21)", () => {
  const fund = event("META", "METV", "2022-01-31", "0001683471", "The fund")
  const facebook = event("FB", "META", "2022-06-09", "0001326801", "Meta Platforms")

  it("are the chains of the issuers, ordered by first date and not by CIK (D21)", () => {
    const { candidates, reasons } = expectConflict([facebook, fund])
    assert.deepStrictEqual([...reasons], ["multiple_cik_lineages", "broken_chain"])
    assert.deepStrictEqual(candidates, [
      { cik: "0001683471", company_name: "The fund", history: links([fund]), current_ticker: "METV" },
      { cik: "0001326801", company_name: "Meta Platforms", history: links([facebook]), current_ticker: "META" },
    ])
  })

  it("include an issuer that returns to its symbol (D21)", () => {
    const first = [event("A", "B", "2001-01-01", "0000000009"), event("B", "A", "2005-01-01", "0000000009")]
    const second = [event("B", "C", "2002-01-01", "0000000008"), event("C", "D", "2006-01-01", "0000000008")]
    const third = [event("E", "D", "2003-01-01", "0000000001")]
    assert.deepStrictEqual(expectConflict([...third, ...second, ...first]).candidates, [
      { cik: "0000000009", company_name: null, history: links(first), current_ticker: "A" },
      { cik: "0000000008", company_name: null, history: links(second), current_ticker: "D" },
      { cik: "0000000001", company_name: null, history: links(third), current_ticker: "D" },
    ])
  })

  it("have the company name if any event of the issuer has it (D21)", () => {
    const { candidates } = expectConflict([
      event("A", "B", "2001-01-01", "0000000001", "One"),
      event("B", "C", "2002-01-01", "0000000001"),
      event("C", "D", "2003-01-01", "0000000002"),
    ])
    assert.deepStrictEqual(candidates.map(({ company_name }) => company_name), ["One", null])
  })

  it("are empty if an event has no CIK (D21)", () => {
    const unknown = event("METV", "METW", "2023-01-01")
    assert.deepStrictEqual(expectConflict([fund, facebook, unknown]).candidates, [])
  })

  it("are empty if the events of one issuer are not a valid chain (D21)", () => {
    const again = event("FB", "FACE", "2023-01-01", "0001326801", "Meta Platforms")
    assert.deepStrictEqual(expectConflict([fund, facebook, again]).candidates, [])
  })

  it("are empty if the events have one issuer or none (D21)", () => {
    const events = [event("A", "B", "2001-01-01"), event("A", "C", "2002-01-01")]
    assert.deepStrictEqual(expectConflict(events).candidates, [])
    assert.deepStrictEqual(expectConflict(events.map((one) => ({ ...one, cik: "0000000001" }))).candidates, [])
  })

  it("may have twelve links but not thirteen (D21)", () => {
    const long = (length: number) =>
      Array.from({ length }, (_, at) => event(`L${at}`, `L${at + 1}`, day(10 * at), "0000000001"))
    const other = event("L3", "OTHER", day(5), "0000000002")
    const { candidates } = expectConflict([...long(12), other])
    assert.deepStrictEqual(candidates.map(({ cik, history }) => [cik, history.length]), [
      ["0000000001", 12],
      ["0000000002", 1],
    ])
    assert.deepStrictEqual(expectConflict([...long(13), other]).candidates, [])
  })

  it("are found even for 25,000 issuers, ordered by first date (D21)", () => {
    const events = Array.from(
      { length: 25_000 },
      (_, at) => event(`S${at}`, "HUB", day(at), String(25_000 - at).padStart(10, "0")),
    )
    const { candidates } = expectConflict(events)
    assert.deepStrictEqual(candidates.map(({ history }) => history), events.map((one) => links([one])))
  })
})

describe("an independent implementation agrees (D21)", () => {
  it("on every set of up to three events over three symbols, three dates and three CIKs (D21)", () => {
    const all = arbitrarySymbolPairs(["A", "B", "C"]).flatMap(([from, to]) =>
      [day(0), day(1), day(2)].flatMap((date) =>
        [null, "0000000001", "0000000002"].map((cik) => event(from, to, date, cik, cik && `Issuer ${cik}`))
      )
    )
    const seen = new Map<string, number>()
    let checkedCount = 0
    const wrong: Array<unknown> = []
    const checkAll = (events: Events) => {
      for (const component of findComponents(events)) {
        checkedCount += 1
        const found = findProblems(component)
        if (found.length > 0 && wrong.length < 3) wrong.push({ component, found })
        const resolution = resolveEvents(component)
        const kind = Result.isSuccess(resolution)
          ? "chain"
          : `${resolution.failure.reasons.join(" ")} ${resolution.failure.candidates.length}`
        seen.set(kind, (seen.get(kind) ?? 0) + 1)
      }
    }
    all.forEach((first, i) => {
      checkAll([first])
      all.slice(i + 1).forEach((second, j) => {
        checkAll([first, second])
        all.slice(i + j + 2).forEach((third) => checkAll([first, second, third]))
      })
    })
    assert.deepStrictEqual(wrong, [])
    // There are 54 single events, 1,431 pairs and 24,804 triples. With only three symbols, all of them are connected.
    assert.strictEqual(checkedCount, 54 + 1_431 + 24_804)
    for (const subset of subsets.filter((wanted) => !wanted.includes("max_hops_exceeded") && wanted.length > 0)) {
      assert.isTrue([...seen.keys()].some((kind) => kind.startsWith(`${subset.join(" ")} `)), subset.join(" "))
    }
    for (const kind of ["chain", "multiple_cik_lineages 0", "multiple_cik_lineages 2"]) {
      assert.isAbove(seen.get(kind) ?? 0, 0, kind)
    }
  })

  it.prop("on random sets of events over few symbols, dates and CIKs (D21)", [arbitraryEvents], ([events]) => {
    assert.deepStrictEqual(findComponents(events).flatMap(findProblems), [])
  }, { arbitrary: { runs: getInputCount(4000) } })

  it.prop(
    "on chains of about twelve links with up to three corrupted events (D21)",
    [arbitraryCorruptedChain],
    ([events]) => {
      assert.deepStrictEqual(findComponents(events).flatMap(findProblems), [])
    },
    { arbitrary: { runs: getInputCount(1000) } },
  )
})

describe("each component of the sample data (D20, D21)", () => {
  /** Splits a CSV line into cells. Cells that contain a comma or quotation mark are quoted. */
  const cells = (line: string) =>
    [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) =>
      quoted?.replaceAll('""', '"') ?? plain ?? ""
    )

  /** Reads the events in a file that are eligible (D19) as of 2026-11-20, the last day of the samples. */
  const eligible = (file: string): Events => {
    const [header = "", ...lines] = readFileSync(new URL(`../../../samples/${file}`, import.meta.url), "utf8")
      .split("\n").filter((line) => line !== "")
    const names = cells(header)
    return lines.map((line) => new Map(cells(line).map((cell, at) => [names[at] ?? "", cell]))).flatMap((row) => {
      const value = (name: string) => row.get(name) ?? ""
      return value("status") === "confirmed" && value("effective_date") <= "2026-11-20"
        ? [event(
          value("old_ticker"),
          value("new_ticker"),
          value("effective_date"),
          value("cik") || null,
          value("company_name") || null,
        )]
        : []
    })
  }

  const real = eligible("facts/ticker_changes.csv")
  const all = findComponents([...real, ...eligible("fictional/ticker_changes.csv")])

  it("resolves as in the independent implementation, even with the events in reverse order (D21)", () => {
    assert.isAbove(real.length, 150, "few real events")
    assert.isAbove(all.length, 100, "few components")
    for (const component of all) {
      assert.deepStrictEqual(findProblems(component), [], component[0]?.old_ticker)
      assert.deepStrictEqual(resolveEvents(component.toReversed()), resolveEvents(component), component[0]?.old_ticker)
    }
  })

  const examples: ReadonlyArray<readonly [ticker: string, expected: string]> = [
    ["SQ", "SQ XYZ"],
    ["OSTK", "OSTK BYON BBBY NXH"],
    ["BBBY", "OSTK BYON BBBY NXH"],
    ["NXH", "OSTK BYON BBBY NXH"],
    ["DZ5", "DZ0 DZ1 DZ2 DZ3 DZ4 DZ5 DZ6 DZ7 DZ8 DZ9 DZ10 DZ11 DZ12"],
    ["BMR1", "BMR1 BMR2 BMR1"],
    ["META", "multiple_cik_lineages, broken_chain: METV META"],
    ["FI", "multiple_cik_lineages, competing_destinations, broken_chain: XPRO FISV"],
    ["SPWR", "multiple_cik_lineages, broken_chain:"],
    ["HND2", "multiple_cik_lineages: HND2 HND3"],
    ["GOOG", "same_date_events:"],
    ["MEGX", "competing_destinations:"],
    ["FNGU", "broken_chain:"],
    ["BD0", "max_hops_exceeded:"],
    ["KNT0", "multiple_cik_lineages, same_date_events, competing_destinations, broken_chain:"],
  ]
  it.each(examples)("that contains %s resolves to %s (D21)", (ticker, expected) => {
    const own = all.find((component) => component.some((one) => [one.old_ticker, one.new_ticker].includes(ticker)))
    const found = Result.match(resolveEvents(own ?? []), {
      onSuccess: ({ history }) => [history[0]?.old_ticker, ...history.map((link) => link.new_ticker)].join(" "),
      onFailure: ({ candidates, reasons }) =>
        [`${reasons.join(", ")}:`, ...candidates.map(({ current_ticker }) => current_ticker)].join(" "),
    })
    assert.strictEqual(found, expected)
  })
})

describe("selectLineageCandidate (D35)", () => {
  const fund = event("META", "METV", "2022-01-31", "0001683471", "The fund")
  const facebook = event("FB", "META", "2022-06-09", "0001326801", "Meta Platforms")

  const select = (events: Events, cik: string, ticker = "META") =>
    Result.match(selectLineageCandidate(resolveLineageOfEvents(events), { cik, ticker }), {
      onSuccess: ({ current_ticker }): unknown => current_ticker,
      onFailure: (failure) =>
        "reasons" in failure ? failure.reasons : { candidates: failure.candidates.map((candidate) => candidate.cik) },
    })

  it("selects the chain of the issuer (D35)", () => {
    assert.strictEqual(select([fund, facebook], "0001326801"), "META")
    assert.strictEqual(select([fund, facebook], "0001683471"), "METV")
  })

  it("refuses a CIK that no candidate has, and names the candidates (D35)", () => {
    assert.deepStrictEqual(select([fund, facebook], "0000000001"), { candidates: ["0001683471", "0001326801"] })
  })

  it("refuses a chain that never contained the symbol, and names the candidates that did (D35)", () => {
    assert.deepStrictEqual(select([fund, facebook], "0001683471", "FB"), { candidates: ["0001326801"] })
    assert.strictEqual(select([fund, facebook], "0001326801", "FB"), "META")
    assert.deepStrictEqual(select([fund, facebook], "0001326801", "METV"), { candidates: ["0001683471"] })
  })

  it("accepts the issuer of an unambiguous chain, even if some events have no CIK (D35)", () => {
    const events = [facebook, event("META", "METX", "2024-01-01")]
    assert.strictEqual(select(events, "0001326801"), "METX")
    assert.deepStrictEqual(select(events, "0000000001"), { candidates: ["0001326801"] })
    assert.deepStrictEqual(select(events.slice(1), "0001326801"), { candidates: [] })
    assert.deepStrictEqual(select([], "0001326801"), { candidates: [] })
  })

  it("returns the conflict if it has no candidates (D35)", () => {
    const again = event("FB", "FACE", "2023-01-01", "0001326801")
    assert.deepStrictEqual(select([facebook, again], "0001326801"), ["competing_destinations", "broken_chain"])
  })
})

describe("toCompanyLineage (D20)", () => {
  const lineage = (...events: Events) =>
    Result.map(resolveLineageOfEvents(events), (chain) => chain && toCompanyLineage(chain))

  it("ends each period on the first day of the next symbol (D20)", () => {
    const events = [event("A", "B", "2001-01-01"), event("B", "C", "2002-02-02")]
    const expected = {
      current_ticker: "C",
      periods: [
        { ticker: "A", until: "2001-01-01" },
        { ticker: "B", from: "2001-01-01", until: "2002-02-02" },
        { ticker: "C", from: "2002-02-02" },
      ],
    } as const
    assert.deepStrictEqual(lineage(...events), Result.succeed(expected))
    assert.strictEqual(formatLineage(expected), "A..2001-01-01, B..2002-02-02, C")
  })

  it("has two periods for a symbol that the company returned to (D21)", () => {
    const expected = {
      current_ticker: "A",
      periods: [
        { ticker: "A", until: "2001-01-01" },
        { ticker: "B", from: "2001-01-01", until: "2002-01-01" },
        { ticker: "A", from: "2002-01-01" },
      ],
    } as const
    assert.deepStrictEqual(
      lineage(event("A", "B", "2001-01-01"), event("B", "A", "2002-01-01")),
      Result.succeed(expected),
    )
    assert.strictEqual(formatLineage(expected), "A..2001-01-01, B..2002-01-01, A")
  })
})
