/**
 * Tests that the checker used by `test/faults/history.test.ts` reports every kind of violation (decisions 0113, 0114,
 * 0115).
 */
import { assert, describe, it } from "@effect/vitest"
import {
  findHistoryViolations,
  type ObservedChange,
  type ObservedHistory,
  type PastResponse,
} from "../../support/HistoryChecker.ts"

/** Returns the timestamp `second` seconds after the start of the history. */
const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000000Z`

/**
 * A change in the test's history. `token` identifies the row's values: for example, `t2.1` is the first version written
 * by transaction 2.
 */
interface Written {
  readonly second: number
  readonly key: string
  readonly token?: string
  readonly before?: string
}

const makeChange = ({ before, key, second, token }: Written): ObservedChange => ({
  identity: `${second} ${key} ${token}`,
  moment: at(second),
  dataset: "news",
  kind: token === undefined ? "removed" : before === undefined ? "added" : "corrected",
  key,
  symbols: [key === "a" ? "AAA" : "BBB"],
  token,
  before,
})

const [first, second, third] = [
  [makeChange({ second: 10, key: "a", token: "t1.1" }), makeChange({ second: 10, key: "b", token: "t1.2" })],
  [makeChange({ second: 20, key: "a", token: "t2.1", before: "t1.1" })],
  [
    makeChange({ second: 30, key: "a", before: "t2.1" }),
    makeChange({ second: 30, key: "c", token: "t4.1" }),
  ],
] as const

const changes = [...first, ...second, ...third]
const identities = changes.map(({ identity }) => identity)
const identitiesOfAaa = changes.filter(({ symbols }) => symbols.includes("AAA")).map(({ identity }) => identity)

const response = (second: number, ...tokens: ReadonlyArray<string>): PastResponse => ({
  target: "/v1/news",
  moment: at(second),
  status: 200,
  etag: `"${tokens.join()}"`,
  digest: tokens.join(),
  tokens,
  dataset: "news",
})

const transaction = (id: number, second: number, tokens: ReadonlyArray<string>) => ({
  id,
  outcome: "committed" as const,
  tokens,
  earliest: at(second - 1),
  latest: at(second + 1),
})

/**
 * Two committed transactions, one aborted, and two without a commit confirmation, of which only the first committed.
 */
const valid: ObservedHistory = {
  transactions: [
    transaction(1, 10, ["t1.1", "t1.2"]),
    transaction(2, 20, ["t2.1"]),
    { ...transaction(3, 25, ["t3.1"]), outcome: "aborted" },
    { ...transaction(4, 25, ["t4.1"]), outcome: "unknown" },
    { ...transaction(5, 35, ["t5.1"]), outcome: "unknown" },
  ],
  changes,
  consumers: [
    {
      name: "restarted",
      filter: {},
      segments: [
        { from: 0, identities: identities.slice(0, 3) },
        { from: 2, identities: identities.slice(2) },
      ],
    },
    {
      name: "filtered",
      filter: { dataset: ["news"], ticker: ["AAA"] },
      segments: [{ from: 0, identities: identitiesOfAaa }],
    },
  ],
  responses: [response(9), response(10, "t1.1", "t1.2"), response(25, "t2.1", "t1.2"), response(25, "t2.1", "t1.2")],
  tables: new Map([["news", new Map([["b", "t1.2"], ["c", "t4.1"]])]]),
}

/** Returns a history with a single consumer that received these changes. */
const received = (
  ...segments: ReadonlyArray<{ readonly from: number; readonly identities: ReadonlyArray<string> }>
) => ({
  consumers: [{ name: "consumer", filter: {}, segments }],
})

const withChanges = (changes: ReadonlyArray<ObservedChange>) => ({
  changes,
  consumers: [],
  responses: [],
})

/** Alterations that each violate a guarantee of the valid history, with the report expected from the checker. */
const alterations: Readonly<Record<string, readonly [Partial<ObservedHistory>, RegExp]>> = {
  "a changed ETag": [
    { responses: [...valid.responses, { ...response(25, "t2.1", "t1.2"), etag: `"other"` }] },
    /^0114: \/v1\/news at .* was 200, ETag .* and later 200, ETag "other"/,
  ],
  "a changed body with the same ETag": [
    { responses: [...valid.responses, { ...response(25, "t2.1", "t1.2"), digest: "other" }] },
    /^0114: .* and later .* digest other$/,
  ],
  "a response with a later version": [{ responses: [response(15, "t2.1", "t1.2")] }, /^0114: .* lacks t1\.1/],
  "a response without a row": [{ responses: [response(15, "t1.1")] }, /^0114: .* lacks t1\.2/],
  "a response with the row of an aborted transaction": [
    { responses: [{ ...response(25, "t2.1", "t1.2", "t3.1"), dataset: undefined }] },
    /^0114: .* has t3\.1, never in the feed/,
  ],
  "a change that a consumer missed": [
    received({ from: 0, identities: identities.toSpliced(2, 1) }),
    /^0115: consumer missed 1 changes before news removed a/,
  ],
  "changes that a consumer received in another order": [
    received({ from: 0, identities: [identities[1] ?? "", identities[0] ?? "", ...identities.slice(2)] }),
    /^0115: consumer missed 1 changes before news added b/,
  ],
  "a change that a consumer received again without a restart": [
    received({ from: 0, identities: identities.toSpliced(2, 0, identities[1] ?? "") }),
    /^0115: consumer received again or too late: news added b/,
  ],
  "a change that a consumer received with other values": [
    received({ from: 0, identities: identities.with(2, "20 a t9.1") }),
    /^0115: consumer received a change that the feed does not have/,
  ],
  "a consumer that skipped changes at a restart": [
    received({ from: 0, identities: identities.slice(0, 2) }, { from: 3, identities: identities.slice(3) }),
    /^0115: consumer continued at change 3, but had received only 2/,
  ],
  "a consumer that did not get the last change": [
    received({ from: 0, identities: identities.slice(0, -1) }),
    /^0115: consumer did not receive the last 1 changes/,
  ],
  "an aborted transaction in the feed": [
    withChanges([...first, makeChange({ second: 25, key: "d", token: "t3.1" })]),
    /^0113: transaction 3 \(aborted\) is in the feed/,
  ],
  "a confirmed transaction that is not in the feed": [
    withChanges(first),
    /^0113: transaction 2 was confirmed but is not in the feed/,
  ],
  "a part of a transaction that is not in the feed": [
    withChanges([...first.slice(0, 1), ...second]),
    /^0113: the feed lacks t1\.2 of transaction 1/,
  ],
  "a version that its own transaction had replaced": [
    withChanges([...first, makeChange({ second: 10, key: "d", token: "t1.3" }), ...second]),
    /^0113: the feed has t1\.3, which transaction 1 \(committed\) rolled back/,
  ],
  "two transactions at one time": [
    withChanges([...first, makeChange({ second: 10, key: "d", token: "t2.1" })]),
    /^0113: the changes at .* belong to the transactions 1, 2/,
  ],
  "a transaction at two times": [
    withChanges([...first, makeChange({ second: 11, key: "d", token: "t1.3" })]),
    /^0113: transaction 1 \(committed\) is in the feed at .* and at/,
  ],
  "changes that belong to no transaction": [
    withChanges([...first, makeChange({ second: 15, key: "a", before: "t1.1" })]),
    /^0113: the changes at .* belong to the transactions \(none\)/,
  ],
  "times in the wrong order": [
    withChanges([...second.map((change) => ({ ...change, before: undefined })), ...first]),
    /^0113: .* follows .* in the feed/,
  ],
  "a time after the confirmation of the commit": [
    withChanges([...first, makeChange({ second: 40, key: "a", token: "t2.1", before: "t1.1" })]),
    /^0113: transaction 2 \(committed\) is recorded at .*, not in/,
  ],
  "a time before the commit": [
    withChanges([...first, makeChange({ second: 15, key: "a", token: "t2.1", before: "t1.1" })]),
    /^0113: transaction 2 \(committed\) is recorded at .*, not in/,
  ],
  "a change that does not fit the previous one": [
    withChanges([...first, makeChange({ second: 20, key: "a", token: "t2.1", before: "t1.9" }), ...third]),
    /^0115: news corrected a at .* replaces t1\.9, but the row was t1\.1/,
  ],
  "a row that the feed does not have": [
    { tables: new Map([["news", new Map([["b", "t1.2"], ["c", "t4.1"], ["d", "t5.1"]])]]) },
    /^0115: the table news has t5\.1, contrary to the feed/,
  ],
  "a row that is not in the table": [
    { tables: new Map([["news", new Map([["b", "t1.2"]])]]) },
    /^0115: the table news lacks t4\.1/,
  ],
}

describe("The history checker", () => {
  it("accepts a history that keeps every promise (decision 0113, decision 0114, decision 0115)", () => {
    assert.deepStrictEqual(findHistoryViolations(valid), [])
  })

  it.each(Object.entries(alterations))(
    "reports %s (decision 0113, decision 0114, decision 0115)",
    (_, [altered, expected]) => {
      const violations = findHistoryViolations({ ...valid, ...altered })
      assert.isTrue(violations.some((violation) => expected.test(violation)), violations.join("\n"))
    },
  )
})
