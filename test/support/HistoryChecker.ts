/**
 * Checks what clients observed of the history while processes and servers were killed (decisions 0113 to 0115, 0117).
 * Each version of a row contains a unique token, so each observation can be traced to one transaction. All timestamps
 * are in UTC with microseconds, such as `2026-03-01T15:00:00.123456Z`, and sort as text.
 */

/** A transaction that a client ran. */
export interface WrittenTransaction {
  readonly id: number
  /** The outcome is `unknown` if the connection or the process was lost before the commit was confirmed. */
  readonly outcome: "committed" | "aborted" | "unknown"
  /** Tokens of the row versions that the transaction added, except those that it replaced or rolled back itself. */
  readonly tokens: ReadonlyArray<string>
  /** The earliest possible `recorded_at` of the transaction. */
  readonly earliest: string
  /** The latest possible `recorded_at`, if the outcome is `committed`. */
  readonly latest: string
}

/** A change returned by the feed. */
export interface ObservedChange {
  /**
   * Identifies a change: two deliveries have the same identity only if all of their fields are equal, including the
   * cursor.
   */
  readonly identity: string
  readonly moment: string
  readonly dataset: string
  readonly kind: string
  readonly key: string
  /** The symbols under which a reader finds the change. */
  readonly symbols: ReadonlyArray<string>
  /** The token of the row version that the change added. */
  readonly token: string | undefined
  /** The token of the row version that the change replaced or removed. */
  readonly before: string | undefined
}

/** Selects the changes that a consumer receives. */
export interface ConsumerFilter {
  readonly dataset?: ReadonlyArray<string>
  readonly kind?: ReadonlyArray<string>
  readonly ticker?: ReadonlyArray<string>
}

/** The changes that a consumer of the feed received, in order of receipt. */
export interface ConsumerRecord {
  readonly name: string
  readonly filter: ConsumerFilter
  /** Each segment starts at a stored cursor. `from` is the number of changes received before that cursor. */
  readonly segments: ReadonlyArray<{ readonly from: number; readonly identities: ReadonlyArray<string> }>
}

/** A response to a request with `as_of`. */
export interface PastResponse {
  /** The path and query, without `as_of`. */
  readonly target: string
  readonly moment: string
  readonly status: number
  readonly etag: string | undefined
  readonly digest: string
  /** The tokens in the response body. */
  readonly tokens: ReadonlyArray<string>
  /** The dataset, if the response contains all of its rows. Otherwise undefined. */
  readonly dataset: string | undefined
}

/** Everything that the clients observed during a run. */
export interface ObservedHistory {
  readonly transactions: ReadonlyArray<WrittenTransaction>
  /** All changes in the feed. */
  readonly changes: ReadonlyArray<ObservedChange>
  readonly consumers: ReadonlyArray<ConsumerRecord>
  /** The responses received during the run, and the responses to the same requests afterwards. */
  readonly responses: ReadonlyArray<PastResponse>
  /** The token of each row at the end of the run, by dataset and key. */
  readonly tables: ReadonlyMap<string, ReadonlyMap<string, string>>
}

const tokenPattern = /\bt(\d+)\.\d+\b/g

/** Returns the token of a version that a transaction writes. */
export const formatRowToken = (transaction: number, row: number) => `t${transaction}.${row}`

/** Finds all row tokens in a text. */
export const findRowTokens = (text: string): ReadonlyArray<string> => text.match(tokenPattern) ?? []

const parseTransactionNumber = (token: string) => Number(token.slice(1, token.indexOf(".")))

const describeChange = ({ dataset, key, kind, moment }: ObservedChange) => `${dataset} ${kind} ${key} at ${moment}`

/** Returns whether a change matches a consumer's filter. */
export const matchesConsumerFilter = ({ dataset, kind, ticker }: ConsumerFilter, change: ObservedChange) =>
  (dataset?.includes(change.dataset) ?? true) && (kind?.includes(change.kind) ?? true) &&
  (ticker === undefined || change.symbols.some((symbol) => ticker.includes(symbol)))

const findDifference = (wanted: Iterable<string>, found: Iterable<string>) => {
  const [left, right] = [new Set(wanted), new Set(found)]
  return { missing: Array.from(left.difference(right)), unexpected: Array.from(right.difference(left)) }
}

/** Checks that all responses to the same request with the same `as_of` are equal (0114). */
const checkPastResponses = ({ responses }: ObservedHistory) => {
  const first = new Map<string, PastResponse>()
  return responses.flatMap((response) => {
    const request = `${response.target} at ${response.moment}`
    const known = first.get(request) ?? response
    first.set(request, known)
    const summaries = [known, response].map(({ digest, etag, status }) => `${status}, ETag ${etag}, digest ${digest}`)
    return summaries[0] === summaries[1] ? [] : [`0114: ${request} was ${summaries[0]}, and later ${summaries[1]}`]
  })
}

/**
 * Checks that a consumer received all changes that match its filter, in feed order, and that it received duplicates
 * only after a restart (0115). `changes` is the complete feed. Each segment has the identities of the changes that the
 * consumer received between two restarts: it should be the part of the matching changes that begins at `from`, which is
 * the number of changes that the consumer had stored before. Returns one text for each violation, and of each segment
 * only the first.
 */
const checkConsumer = ({ filter, name, segments }: ConsumerRecord, changes: ReadonlyArray<ObservedChange>) => {
  const wanted = changes.filter((change) => matchesConsumerFilter(filter, change))
  const indexes = new Map(wanted.map(({ identity }, index) => [identity, index]))
  const violations: Array<string> = []
  /** The number of matching changes that the consumer had received at the end of the last segment. */
  let reached = 0
  for (const { from, identities } of segments) {
    if (from > reached) violations.push(`0115: ${name} continued at change ${from}, but had received only ${reached}`)
    for (const [offset, identity] of identities.entries()) {
      const [index, expected] = [indexes.get(identity), from + offset]
      if (index === expected) continue
      const change = index === undefined ? undefined : wanted[index]
      violations.push(
        change === undefined || index === undefined
          ? `0115: ${name} received a change that the feed does not have, or has with other values: ${identity}`
          : index > expected
          ? `0115: ${name} missed ${index - expected} changes before ${describeChange(change)}`
          : `0115: ${name} received again or too late: ${describeChange(change)}`,
      )
      break
    }
    reached = from + identities.length
  }
  if (reached < wanted.length) {
    violations.push(`0115: ${name} did not receive the last ${wanted.length - reached} changes`)
  }
  return violations
}

/** Groups consecutive changes with the same `recorded_at`, in feed order. */
const groupByMoment = (changes: ReadonlyArray<ObservedChange>) => {
  const groups: Array<{ readonly moment: string; readonly changes: Array<ObservedChange> }> = []
  for (const change of changes) {
    const last = groups.at(-1)
    if (last?.moment === change.moment) last.changes.push(change)
    else groups.push({ moment: change.moment, changes: [change] })
  }
  return groups
}

/**
 * Checks that the feed contains each committed transaction once and completely, with a single `recorded_at` within the
 * time of its commit, and that it contains no changes from aborted transactions (0113). The changes of a transaction
 * have the same `recorded_at` (`moment`), and no other transaction has it. The token of a change names its transaction.
 */
const checkTransactions = ({ changes, transactions }: ObservedHistory) => {
  const written = new Map(transactions.map((transaction) => [transaction.id, transaction]))
  /** The `recorded_at` of each transaction that was found in the feed, by its ID. */
  const recorded = new Map<number, string>()
  const violations: Array<string> = []
  let last = ""
  for (const { changes: group, moment } of groupByMoment(changes)) {
    if (moment <= last) violations.push(`0113: ${moment} follows ${last} in the feed`)
    last = moment
    const tokens = group.flatMap(({ token }) => token ?? [])
    const ids = Array.from(new Set(tokens.map(parseTransactionNumber)))
    const [id] = ids
    const transaction = id === undefined ? undefined : written.get(id)
    if (transaction === undefined || ids.length > 1) {
      violations.push(`0113: the changes at ${moment} belong to the transactions ${ids.join(", ") || "(none)"}`)
      continue
    }
    const name = `transaction ${transaction.id} (${transaction.outcome})`
    if (transaction.outcome === "aborted") violations.push(`0113: ${name} is in the feed at ${moment}`)
    const earlier = recorded.get(transaction.id)
    if (earlier !== undefined) violations.push(`0113: ${name} is in the feed at ${earlier} and at ${moment}`)
    recorded.set(transaction.id, moment)
    const { missing, unexpected } = findDifference(transaction.tokens, tokens)
    if (missing.length > 0) violations.push(`0113: the feed lacks ${missing.join(", ")} of ${name}`)
    if (unexpected.length > 0) violations.push(`0113: the feed has ${unexpected.join(", ")}, which ${name} rolled back`)
    if (moment < transaction.earliest || (transaction.outcome === "committed" && moment > transaction.latest)) {
      violations.push(`0113: ${name} is recorded at ${moment}, not in ${transaction.earliest} – ${transaction.latest}`)
    }
  }
  for (const { id, outcome } of transactions) {
    if (outcome === "committed" && !recorded.has(id)) {
      violations.push(`0113: transaction ${id} was confirmed but is not in the feed`)
    }
  }
  return violations
}

/**
 * Checks that replaying the changes in order reproduces each complete response and, in the end, the tables (0114,
 * 0115). `copies` are the tables as replayed so far: by dataset, the token of each row by its key. Before the changes
 * at each `recorded_at`, they are compared with the responses for earlier times. `pending` are the complete responses
 * in order of time, and `next` is the index of the first that was not compared yet.
 */
const checkReplay = ({ responses, changes, tables }: ObservedHistory) => {
  const violations: Array<string> = []
  const copies = new Map(Array.from(tables.keys(), (dataset) => [dataset, new Map<string, string>()]))
  const compare = (what: string, dataset: string, tokens: Iterable<string>) => {
    const { missing, unexpected } = findDifference(copies.get(dataset)?.values() ?? [], tokens)
    if (missing.length > 0) violations.push(`${what} lacks ${missing.join(", ")}, according to the feed`)
    if (unexpected.length > 0) violations.push(`${what} has ${unexpected.join(", ")}, contrary to the feed`)
  }
  const pending = responses.filter(({ dataset }) => dataset !== undefined)
    .toSorted((left, right) => left.moment < right.moment ? -1 : Number(left.moment > right.moment))
  let next = 0
  /** Compares the remaining responses for times before `moment`, or all of them if it is undefined. */
  const compareBefore = (moment: string | undefined) => {
    for (let response = pending[next]; response !== undefined; response = pending[next]) {
      if (moment !== undefined && response.moment >= moment) return
      compare(`0114: ${response.target} at ${response.moment}`, response.dataset ?? "", response.tokens)
      next += 1
    }
  }
  for (const { changes: group, moment } of groupByMoment(changes)) {
    compareBefore(moment)
    for (const change of group) {
      const copy = copies.get(change.dataset) ?? new Map<string, string>()
      copies.set(change.dataset, copy)
      const current = copy.get(change.key)
      if (current !== change.before) {
        violations.push(`0115: ${describeChange(change)} replaces ${change.before}, but the row was ${current}`)
      }
      if (change.token === undefined) copy.delete(change.key)
      else copy.set(change.key, change.token)
    }
  }
  compareBefore(undefined)
  for (const [dataset, rows] of tables) {
    compare(`0115: the table ${dataset}`, dataset, rows.values())
    for (const [key, token] of copies.get(dataset) ?? []) {
      if (rows.get(key) !== token) violations.push(`0115: ${dataset} ${key} is ${rows.get(key)}, in the feed ${token}`)
    }
  }
  return violations
}

/**
 * Checks that the feed contains every token that readers saw, because only committed transactions may be visible
 * (0114).
 */
const checkOrigins = ({ responses, changes }: ObservedHistory) => {
  const recorded = new Set(changes.flatMap(({ token }) => token ?? []))
  return responses.flatMap(({ moment, target, tokens }) => {
    const unknown = tokens.filter((token) => !recorded.has(token))
    return unknown.length === 0 ? [] : [`0114: ${target} at ${moment} has ${unknown.join(", ")}, never in the feed`]
  })
}

/**
 * Returns one sentence per violated guarantee, each starting with the number of the decision that defines the
 * guarantee.
 */
export const findHistoryViolations = (history: ObservedHistory): ReadonlyArray<string> => [
  ...checkPastResponses(history),
  ...history.consumers.flatMap((consumer) => checkConsumer(consumer, history.changes)),
  ...checkTransactions(history),
  ...checkReplay(history),
  ...checkOrigins(history),
]
