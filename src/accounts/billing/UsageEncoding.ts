/**
 * Packs the requests in a batch into rows of `usage_batches` (D29, usage). There is one row per account and five-second
 * window, or several if the account's requests do not fit into one. In the database, the views `usage_batch_requests`
 * and `usage_batch_groups` unpack the rows (docs/decisions/0160-usage-in-batches.md).
 */
import type { UsageColumns } from "./UsageColumns.ts"

/**
 * All requests in a row belong to the same window. This must match the window length in the database function
 * `usage_window`.
 */
const windowMillis = 5_000

/**
 * Limits for one row. At 16 bytes per request, a row usually takes a quarter of a PostgreSQL page, and never more than
 * a page.
 */
const maxPartRequests = 100
const maxOwnIdCharacters = 1_000

/** The columns with packed numbers. Columns named `group_…` have one number per group, the others one per request. */
interface EncodedColumns {
  readonly group_kinds: Uint8Array
  readonly group_keys: Uint8Array
  readonly group_requests: Uint8Array
  readonly group_bytes: Uint8Array
  readonly group_costs: Uint8Array
  readonly groups: Uint8Array
  readonly ages: Uint8Array
  readonly records: Uint8Array
  readonly bytes: Uint8Array
  readonly costs: Uint8Array
  readonly durations: Uint8Array
  readonly id_numbers: Uint8Array
}

/** A row of `usage_batches`, without the writer number. */
export interface EncodedUsage extends EncodedColumns {
  readonly account_id: number
  /** Time of the newest request in the row (Unix time in milliseconds). */
  readonly moment: number
  readonly sequence: number
  readonly part: number
  readonly requests: number
  readonly span_ms: number
  readonly own_ids: string
}

const emptyColumn = Uint8Array.of(0)

/**
 * Packs integers from 0 to 2^53. The first byte is the width of each number in bytes; the numbers follow in big-endian
 * order. `read` returns the number at an index, which avoids building an array first.
 */
export const encodeNumbers = (count: number, read: (at: number) => number): Uint8Array => {
  let max = 0
  for (let at = 0; at < count; at++) max = Math.max(max, read(at))
  if (max === 0) return emptyColumn
  const width = max < 0x100 ? 1 : max < 0x1_0000 ? 2 : max < 0x100_0000 ? 3 : max < 0x1_0000_0000 ? 4 : 7
  // Small buffers are allocated from a shared pool, so V8 has fewer objects to move while PostgreSQL stores the rows.
  const packed = Buffer.allocUnsafe(1 + width * count)
  packed[0] = width
  for (let at = 0; at < count; at++) {
    let rest = read(at)
    for (let index = width * (at + 1); index > width * at; index--) {
      // A byte array stores only the lowest eight bits of the number.
      packed[index] = rest
      rest = Math.floor(rest / 0x100)
    }
  }
  return packed
}

/** A row's requests with the same kind and key. The row stores their sums, which are what the account is charged. */
interface Group {
  readonly index: number
  readonly kind: number
  readonly key: number
  requests: number
  bytes: number
  cost: number
}

/** Groups a row's requests by kind and key. Also returns the index of each request's group. */
const groupRequests = (columns: UsageColumns, indexes: ReadonlyArray<number>, kindIds: ReadonlyArray<number>) => {
  const groups: Array<Group> = []
  const groupIndexes = indexes.map((index) => {
    const [kind = 0, key = 0] = [kindIds[columns.kindIndexes[index] ?? 0], columns.keys[index]]
    let group = groups.find((one) => one.kind === kind && one.key === key)
    if (group === undefined) {
      group = { index: groups.length, kind, key, requests: 0, bytes: 0, cost: 0 }
      groups.push(group)
    }
    group.requests += 1
    group.bytes += columns.bytes[index] ?? 0
    group.cost += columns.costs[index] ?? 0
    return group.index
  })
  return { groups, groupIndexes }
}

type RowKey = Pick<EncodedUsage, "account_id" | "sequence" | "part">

/** Packs the requests at the given indexes into one row. */
const encodePart = (
  columns: UsageColumns,
  indexes: ReadonlyArray<number>,
  key: RowKey,
  kindIds: ReadonlyArray<number>,
): EncodedUsage => {
  const { groups, groupIndexes } = groupRequests(columns, indexes, kindIds)
  const times = indexes.map((index) => columns.times[index] ?? 0)
  const [oldest, newest] = [Math.min(...times), Math.max(...times)]
  const packGroups = (name: Exclude<keyof Group, "index">) =>
    encodeNumbers(groups.length, (at) => groups[at]?.[name] ?? 0)
  const pack = (column: Float64Array) => encodeNumbers(indexes.length, (at) => column[indexes[at] ?? 0] ?? 0)
  return {
    ...key,
    moment: newest,
    requests: indexes.length,
    span_ms: newest - oldest,
    group_kinds: packGroups("kind"),
    group_keys: packGroups("key"),
    group_requests: packGroups("requests"),
    group_bytes: packGroups("bytes"),
    group_costs: packGroups("cost"),
    groups: encodeNumbers(groupIndexes.length, (at) => groupIndexes[at] ?? 0),
    ages: encodeNumbers(indexes.length, (at) => newest - (times[at] ?? 0)),
    records: pack(columns.records),
    bytes: pack(columns.bytes),
    costs: pack(columns.costs),
    durations: pack(columns.durations),
    id_numbers: pack(columns.idNumbers),
    own_ids: columns.joinClientIds(indexes),
  }
}

/** Splits the indexes of an account's requests in one window into parts that each fit into a row. */
const splitIntoParts = (columns: UsageColumns, indexes: ReadonlyArray<number>) => {
  const parts: Array<Array<number>> = []
  // Starting at `Infinity` makes the first request begin a part.
  let [part, characters]: [Array<number>, number] = [[], Infinity]
  for (const index of indexes) {
    if (part.length === maxPartRequests || characters > maxOwnIdCharacters) {
      ;[part, characters] = [[], 0]
      parts.push(part)
    }
    part.push(index)
    characters += columns.getClientIdLength(index)
  }
  return parts
}

const groupByWindow = (columns: UsageColumns) =>
  Map.groupBy(columns.findIndexes(), (index) => Math.floor((columns.times[index] ?? 0) / windowMillis))

/**
 * Packs requests, one row at a time. `kindIds` are the database ids of `columns.kinds`. Windows are numbered from
 * `sequence + 1`. The result is deterministic, so a write can be retried.
 */
export function* encodeUsage(columns: UsageColumns, sequence: number, kindIds: ReadonlyArray<number>) {
  for (const ofWindow of groupByWindow(columns).values()) {
    sequence += 1
    for (const [account_id, ofAccount] of Map.groupBy(ofWindow, (index) => columns.accounts[index] ?? 0)) {
      for (const [part, indexes] of splitIntoParts(columns, ofAccount).entries()) {
        yield encodePart(columns, indexes, { account_id, sequence, part }, kindIds)
      }
    }
  }
}

/** Returns how many sequence numbers `encodeUsage` assigns. */
export const countWindows = (columns: UsageColumns) => groupByWindow(columns).size
