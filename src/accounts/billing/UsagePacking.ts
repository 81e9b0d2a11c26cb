/**
 * D29 (usage): packs requests into rows of `usage_batches`, one per account and five seconds. The views
 * `usage_batch_requests` and `usage_batch_groups` of the database unpack them
 * (docs/decisions/0160-usage-in-batches.md).
 */
import { readRequestNumber } from "../../contract/rules/RequestIds.ts"
import type { UsageRecord } from "./UsageRecord.ts"

/** All requests of a row belong to the same window. `usage_window` of the database has the same length. */
const windowMillis = 5_000

/** Limits of a row: usually a quarter of a page of PostgreSQL, 16 bytes per request, and never more than a page. */
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

/** What many requests have in common: a row of `usage_request_kinds`. */
export type RequestKind = Pick<
  UsageRecord,
  "endpoint" | "status_code" | "cached" | "deprecated" | "via" | "price_per_gb_microdollars"
>

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
      // Stores the last eight bits.
      packed[place] = rest
      rest = Math.floor(rest / 0x100)
    }
  }
  return packed
}

export const isSameKind = (one: RequestKind, other: RequestKind) =>
  one.endpoint === other.endpoint && one.status_code === other.status_code && one.cached === other.cached &&
  one.price_per_gb_microdollars === other.price_per_gb_microdollars && one.via === other.via &&
  one.deprecated === other.deprecated

interface Group {
  readonly place: number
  readonly kind: number
  readonly key: number
  requests: number
  bytes: number
  cost: number
}

type FindKind = (kind: RequestKind) => number

const canonicalUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Makes a UUID shorter, as `own_ids` has it. The result begins with a character that no id contains. */
export const packOwnId = (id: string) =>
  canonicalUuid.test(id) ? `=${Buffer.from(id.replaceAll("-", ""), "hex").toString("base64").slice(0, 22)}` : id

/** Requests that fit into a row. */
interface Part {
  readonly records: Array<UsageRecord>
  /** The number in each id; 0 for ids of clients. */
  readonly idNumbers: Array<number>
  /** The ids of clients; empty for others. */
  readonly ownIds: Array<string>
}

const packPart = (
  { idNumbers, ownIds, records }: Part,
  key: Pick<PackedUsage, "account_id" | "sequence" | "part">,
  findKind: FindKind,
): PackedUsage => {
  const groups: Array<Group> = []
  const groupPlaces: Array<number> = []
  let [oldest, newest] = [Infinity, -Infinity]
  for (const record of records) {
    const { bytes, cost_microdollars, key_id, requested_at } = record
    const kind = findKind(record)
    let group = groups.find((one) => one.kind === kind && one.key === key_id)
    if (group === undefined) {
      group = { place: groups.length, kind, key: key_id, requests: 0, bytes: 0, cost: 0 }
      groups.push(group)
    }
    group.requests += 1
    group.bytes += bytes
    group.cost += cost_microdollars
    groupPlaces.push(group.place)
    if (requested_at < oldest) oldest = requested_at
    if (requested_at > newest) newest = requested_at
  }
  return {
    ...key,
    moment: newest,
    requests: records.length,
    span_ms: newest - oldest,
    group_kinds: packNumbers(groups.map(({ kind }) => kind)),
    group_keys: packNumbers(groups.map(({ key }) => key)),
    group_requests: packNumbers(groups.map(({ requests }) => requests)),
    group_bytes: packNumbers(groups.map(({ bytes }) => bytes)),
    group_costs: packNumbers(groups.map(({ cost }) => cost)),
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

/** Splits the requests of an account and window into parts. */
const splitIntoParts = (records: ReadonlyArray<UsageRecord>) => {
  let part: Part = { records: [], idNumbers: [], ownIds: [] }
  let characters = 0
  const parts = [part]
  for (const record of records) {
    if (part.records.length === maxPartRequests || characters > maxOwnIdCharacters) {
      part = { records: [], idNumbers: [], ownIds: [] }
      characters = 0
      parts.push(part)
    }
    const number = readRequestNumber(record.request_id, record.requested_at)
    const ownId = number === undefined ? packOwnId(record.request_id) : ""
    part.records.push(record)
    part.idNumbers.push(number ?? 0)
    part.ownIds.push(ownId)
    characters += ownId.length
  }
  return parts
}

/** Packs requests. Each window gets the next number after `sequence`. The same requests always give the same rows. */
export const packUsage = (records: ReadonlyArray<UsageRecord>, sequence: number, findKind: FindKind) => {
  const windows = Map.groupBy(records, ({ requested_at }) => Math.floor(requested_at / windowMillis))
  return Array.from(windows.values()).flatMap((ofWindow, index) =>
    Array.from(Map.groupBy(ofWindow, ({ account_id }) => account_id)).flatMap(([account_id, ofAccount]) =>
      splitIntoParts(ofAccount).map((part, number) =>
        packPart(part, { account_id, sequence: sequence + 1 + index, part: number }, findKind)
      )
    )
  )
}

/** Returns how many numbers `packUsage` uses. */
export const countWindows = (records: ReadonlyArray<UsageRecord>) =>
  new Set(records.map(({ requested_at }) => Math.floor(requested_at / windowMillis))).size
