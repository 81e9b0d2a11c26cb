/**
 * D29 (usage): packs requests into rows of `usage_batches`, one per account and five seconds. The functions
 * `unpack_usage` and `usage_groups` of the database unpack them (docs/decisions/0160-usage-in-batches.md).
 */
import { readRequestNumber } from "../../rules/RequestIds.ts"
import type { UsageRecord } from "./UsageRecord.ts"

/** All requests of a row belong to the same window. `usage_window` of the database has the same length. */
const windowMillis = 5_000

/** Limits the size of a row to a quarter of a page of PostgreSQL, with about 16 bytes per request. */
const maxPartRequests = 100
const maxOwnIdCharacters = 1_000

/** The columns of a row that are packed numbers. */
interface PackedColumns {
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

/** A row of `usage_batches`, without its writer. */
export interface PackedUsage extends PackedColumns {
  readonly account_id: number
  /** Milliseconds since 1970. */
  readonly moment: number
  readonly sequence: number
  readonly part: number
  readonly requests: number
  readonly span_ms: number
  readonly own_ids: string
}

const emptyColumn = Uint8Array.of(0)

/** Packs numbers from 0 to 2^53: one byte with their width, then each number, most significant byte first. */
export const packNumbers = (numbers: ReadonlyArray<number>): Uint8Array => {
  let max = 0
  for (const number of numbers) if (number > max) max = number
  if (max === 0) return emptyColumn
  const width = max < 0x100 ? 1 : max < 0x1_0000 ? 2 : max < 0x100_0000 ? 3 : max < 0x1_0000_0000 ? 4 : 7
  const packed = new Uint8Array(1 + width * numbers.length)
  packed[0] = width
  let end = 1
  for (const number of numbers) {
    end += width
    let rest = number
    for (let place = end - 1; rest > 0; place--) {
      packed[place] = rest % 0x100
      rest = Math.floor(rest / 0x100)
    }
  }
  return packed
}

/** What many requests have in common: a row of `usage_request_kinds`. */
export interface RequestKind extends Pick<UsageRecord, "endpoint" | "status_code" | "cached" | "deprecated" | "via"> {
  /** Null if an earlier release recorded the request. */
  readonly price_per_gb_microdollars: number | null
}

/** Names a kind. */
export const nameKind = (kind: RequestKind) =>
  `${kind.endpoint} ${kind.status_code} ${kind.price_per_gb_microdollars} ${kind.via} ${kind.cached} ${kind.deprecated}`

interface Group {
  readonly place: number
  readonly kind: number
  readonly key: number
  requests: number
  bytes: number
  cost: number
}

type FindKind = (record: UsageRecord) => number

const packPart = (
  records: ReadonlyArray<UsageRecord>,
  place: Pick<PackedUsage, "sequence" | "part">,
  findKind: FindKind,
): PackedUsage => {
  const groups = new Map<string, Group>()
  const groupPlaces: Array<number> = []
  const idNumbers: Array<number> = []
  const ownIds: Array<string> = []
  let [oldest, newest] = [Infinity, -Infinity]
  for (const record of records) {
    const { bytes, cost_microdollars, key_id, request_id, requested_at } = record
    const kind = findKind(record)
    const name = `${kind} ${key_id}`
    let group = groups.get(name)
    if (group === undefined) {
      group = { place: groups.size, kind, key: key_id, requests: 0, bytes: 0, cost: 0 }
      groups.set(name, group)
    }
    group.requests += 1
    group.bytes += bytes
    group.cost += cost_microdollars
    groupPlaces.push(group.place)
    if (requested_at < oldest) oldest = requested_at
    if (requested_at > newest) newest = requested_at
    const number = readRequestNumber(request_id, requested_at)
    idNumbers.push(number ?? 0)
    ownIds.push(number === undefined ? request_id : "")
  }
  const sums = Array.from(groups.values())
  return {
    account_id: records[0]?.account_id ?? 0,
    moment: newest,
    ...place,
    requests: records.length,
    span_ms: newest - oldest,
    group_kinds: packNumbers(sums.map(({ kind }) => kind)),
    group_keys: packNumbers(sums.map(({ key }) => key)),
    group_requests: packNumbers(sums.map(({ requests }) => requests)),
    group_bytes: packNumbers(sums.map(({ bytes }) => bytes)),
    group_costs: packNumbers(sums.map(({ cost }) => cost)),
    groups: packNumbers(groupPlaces),
    ages: packNumbers(records.map(({ requested_at }) => newest - requested_at)),
    records: packNumbers(records.map(({ records_returned }) => records_returned)),
    bytes: packNumbers(records.map(({ bytes }) => bytes)),
    costs: packNumbers(records.map(({ cost_microdollars }) => cost_microdollars)),
    durations: packNumbers(records.map(({ duration_ms }) => duration_ms)),
    id_numbers: packNumbers(idNumbers),
    own_ids: ownIds.some((id) => id !== "") ? ownIds.join(" ") : "",
  }
}

/** Splits the requests of an account and window into parts that fit into a row. */
const splitIntoParts = (records: ReadonlyArray<UsageRecord>) => {
  const parts: Array<Array<UsageRecord>> = []
  let [part, characters]: [Array<UsageRecord>, number] = [[], 0]
  for (const record of records) {
    if (part.length === maxPartRequests || (part.length > 0 && characters > maxOwnIdCharacters)) {
      parts.push(part)
      ;[part, characters] = [[], 0]
    }
    part.push(record)
    if (readRequestNumber(record.request_id, record.requested_at) === undefined) characters += record.request_id.length
  }
  parts.push(part)
  return parts
}

/** Packs requests. Each window gets the next number after `sequence`. Packing the same requests again is the same. */
export const packUsage = (records: ReadonlyArray<UsageRecord>, sequence: number, findKind: FindKind) => {
  const windows = Map.groupBy(records, ({ requested_at }) => Math.floor(requested_at / windowMillis))
  return Array.from(windows.values()).flatMap((ofWindow, index) =>
    Array.from(Map.groupBy(ofWindow, ({ account_id }) => account_id).values()).flatMap((ofAccount) =>
      splitIntoParts(ofAccount).map((records, part) =>
        packPart(records, { sequence: sequence + 1 + index, part }, findKind)
      )
    )
  )
}

/** Returns how many numbers `packUsage` uses. */
export const countWindows = (records: ReadonlyArray<UsageRecord>) =>
  new Set(records.map(({ requested_at }) => Math.floor(requested_at / windowMillis))).size
