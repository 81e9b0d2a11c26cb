/**
 * Packs the requests in a batch into rows of `usage_batches` (D29, usage). There is one row per account and five-second
 * window, or several if the account's requests do not fit into one. In the database, the views `usage_batch_requests`
 * and `usage_batch_groups` unpack the rows (docs/decisions/0160-usage-in-batches.md).
 */
import type { UsageColumns } from "./UsageColumns.ts"

/**
 * The requests are divided into windows of five seconds, and all requests in a row belong to the same window. This
 * length must match that in the database function `usage_window`.
 */
const windowMillis = 5_000

/**
 * A row of `usage_batches` has at most this many requests, and about this many characters of ids chosen by clients. At
 * 16 bytes per request, a row usually takes a quarter of a PostgreSQL page, and never more than a page.
 */
const maxPartRequests = 100
const maxOwnIdCharacters = 1_000

/**
 * The columns with packed numbers. Columns named `group_…` have one number per group of requests, the others one per
 * request.
 */
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

/** The packed form of any number of zeros: numbers with a width of 0 bytes. */
const zerosOnly = Uint8Array.of(0)

/**
 * Packs `count` integers from 0 to 2^53. The first byte of the result is the width of each number in bytes; the numbers
 * follow in big-endian order. `read` returns the number at an index, which avoids building an array first.
 */
export const packNumbers = (count: number, read: (index: number) => number): Uint8Array => {
  let max = 0
  for (let index = 0; index < count; index++) max = Math.max(max, read(index))
  if (max === 0) return zerosOnly
  // Seven bytes are enough for 2^53. Widths of five and six bytes would rarely be used.
  const width = max < 0x100 ? 1 : max < 0x1_0000 ? 2 : max < 0x100_0000 ? 3 : max < 0x1_0000_0000 ? 4 : 7
  // Small buffers are allocated from a shared pool, so V8 has fewer objects to move while PostgreSQL stores the rows.
  const packed = Buffer.allocUnsafe(1 + width * count)
  packed[0] = width
  for (let index = 0; index < count; index++) {
    let rest = read(index)
    // Big-endian: the last byte of the number is its lowest.
    for (let offset = width * (index + 1); offset > width * index; offset--) {
      // A byte array stores only the lowest eight bits of the number.
      packed[offset] = rest
      rest = Math.floor(rest / 0x100)
    }
  }
  return packed
}

/**
 * Those requests in a row that have the same kind and API key. The row stores the sums of each group, from which the
 * account is charged without unpacking the requests.
 */
interface Group {
  readonly index: number
  readonly kindId: number
  readonly keyId: number
  requests: number
  bytes: number
  cost: number
}

/**
 * Groups the requests of a row by kind and API key. A kind is what requests have in common, such as the endpoint and
 * the status; the database stores each kind only once. `indexes` are the requests' indexes in `columns`, and `kindIds`
 * are the database ids of `columns.kinds`. Returns the groups in the order of their first requests, and the index of
 * each request's group. For example, three requests with the keys 7, 9 and 7 form two groups, and `groupIndexes` is 0,
 * 1, 0.
 */
const groupRequests = (columns: UsageColumns, indexes: ReadonlyArray<number>, kindIds: ReadonlyArray<number>) => {
  const groups: Array<Group> = []
  const groupIndexes = indexes.map((index) => {
    const [kindId = 0, keyId = 0] = [kindIds[columns.kindIndexes[index] ?? 0], columns.keys[index]]
    let group = groups.find((one) => one.kindId === kindId && one.keyId === keyId)
    if (group === undefined) {
      group = { index: groups.length, kindId, keyId, requests: 0, bytes: 0, cost: 0 }
      groups.push(group)
    }
    group.requests += 1
    group.bytes += columns.bytes[index] ?? 0
    group.cost += columns.costs[index] ?? 0
    return group.index
  })
  return { groups, groupIndexes }
}

/**
 * What identifies a row among the rows of this process. `sequence` is the number of the five-second window, and `part`
 * numbers the rows of the same account and window from 0.
 */
type RowId = Pick<EncodedUsage, "account_id" | "sequence" | "part">

/**
 * Packs requests of one account and window into one row of `usage_batches`. `indexes` are the requests' indexes in
 * `columns`. Every packed column lists the requests, or the groups, in the same order, so that the number at one index
 * of each column describes the same request. `groups` connects the two kinds of columns: it has the index of each
 * request's group. Request times are stored in `ages`, as the milliseconds between a request and the row's newest one.
 */
const encodeRow = (
  columns: UsageColumns,
  indexes: ReadonlyArray<number>,
  rowId: RowId,
  kindIds: ReadonlyArray<number>,
): EncodedUsage => {
  const { groups, groupIndexes } = groupRequests(columns, indexes, kindIds)
  const times = indexes.map((index) => columns.times[index] ?? 0)
  const [oldest, newest] = [Math.min(...times), Math.max(...times)]
  const packGroups = (name: Exclude<keyof Group, "index">) =>
    packNumbers(groups.length, (group) => groups[group]?.[name] ?? 0)
  const packRequests = (column: Float64Array) =>
    packNumbers(indexes.length, (request) => column[indexes[request] ?? 0] ?? 0)
  return {
    ...rowId,
    moment: newest,
    requests: indexes.length,
    span_ms: newest - oldest,
    group_kinds: packGroups("kindId"),
    group_keys: packGroups("keyId"),
    group_requests: packGroups("requests"),
    group_bytes: packGroups("bytes"),
    group_costs: packGroups("cost"),
    groups: packNumbers(groupIndexes.length, (request) => groupIndexes[request] ?? 0),
    ages: packNumbers(indexes.length, (request) => newest - (times[request] ?? 0)),
    records: packRequests(columns.records),
    bytes: packRequests(columns.bytes),
    costs: packRequests(columns.costs),
    durations: packRequests(columns.durations),
    id_numbers: packRequests(columns.idNumbers),
    own_ids: columns.joinClientIds(indexes),
  }
}

/**
 * Splits the indexes of an account's requests in one window of five seconds into parts that each fit into a row. A part
 * ends when it has `maxPartRequests` requests, or when its ids chosen by clients have more than `maxOwnIdCharacters`
 * characters.
 */
const splitIntoParts = (columns: UsageColumns, indexes: ReadonlyArray<number>) => {
  const parts: Array<Array<number>> = []
  let idCharacters = 0
  for (const index of indexes) {
    let part = parts.at(-1)
    if (part === undefined || part.length === maxPartRequests || idCharacters > maxOwnIdCharacters) {
      part = []
      parts.push(part)
      idCharacters = 0
    }
    part.push(index)
    idCharacters += columns.getClientIdLength(index)
  }
  return parts
}

/** Returns the indexes of the requests in each window, by the window's number since 1970. */
const groupByWindow = (columns: UsageColumns) =>
  Map.groupBy(columns.findIndexes(), (index) => Math.floor((columns.times[index] ?? 0) / windowMillis))

/**
 * Packs the requests of a batch, one row at a time. `kindIds` are the database ids of `columns.kinds`. Windows are
 * numbered from `after + 1`. The result is deterministic, so a write can be retried.
 */
export function* encodeUsage(columns: UsageColumns, after: number, kindIds: ReadonlyArray<number>) {
  let sequence = after
  for (const windowIndexes of groupByWindow(columns).values()) {
    sequence += 1
    for (const [account_id, accountIndexes] of Map.groupBy(windowIndexes, (index) => columns.accounts[index] ?? 0)) {
      for (const [part, indexes] of splitIntoParts(columns, accountIndexes).entries()) {
        yield encodeRow(columns, indexes, { account_id, sequence, part }, kindIds)
      }
    }
  }
}

/** Returns how many sequence numbers `encodeUsage` assigns: one for each window that has requests. */
export const countUsageWindows = (columns: UsageColumns) => groupByWindow(columns).size
