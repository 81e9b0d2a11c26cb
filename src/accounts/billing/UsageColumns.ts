/** Holds requests until they are written (D29, usage). */
import { readRequestNumber } from "../../contract/rules/RequestIds.ts"
import { isSameKind, type RequestKind, type UsageRecord } from "./UsageRecord.ts"

/** Maximum number of requests in one write. */
export const maxBatchRows = 2_000

/** Space for the packed ids that clients chose in a batch. */
const ownIdBytes = 64 * maxBatchRows

const canonicalUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/**
 * Returns an id in the format of the column `own_ids`. A UUID is packed into `=`, which no id contains, and the 22
 * characters of its Base64. Any other id is not changed.
 */
export const packOwnId = (id: string) =>
  canonicalUuid.test(id) ? `=${Buffer.from(id.replaceAll("-", ""), "hex").toString("base64").slice(0, 22)}` : id

/**
 * The requests in a batch, as one array of numbers per property. The arrays are allocated once and reused: `clear`
 * empties them for the next batch. One object per request would be expensive, because it would live long enough to be
 * moved to V8's old generation, which is only collected as a whole. A request's `place` is its index in the arrays.
 */
export class UsageColumns {
  length = 0
  /** Milliseconds since 1970. */
  readonly times = new Float64Array(maxBatchRows)
  readonly accounts = new Float64Array(maxBatchRows)
  readonly keys = new Float64Array(maxBatchRows)
  /** The place of each request's kind in `kinds`. */
  readonly kindPlaces = new Float64Array(maxBatchRows)
  readonly records = new Float64Array(maxBatchRows)
  readonly bytes = new Float64Array(maxBatchRows)
  /** Microdollars. */
  readonly costs = new Float64Array(maxBatchRows)
  /** Milliseconds. */
  readonly durations = new Float64Array(maxBatchRows)
  /** The number in each id that this process created (`RequestIds.ts`); 0 for ids that clients chose. */
  readonly idNumbers = new Float64Array(maxBatchRows)
  /**
   * The packed ids that clients chose, one after the other, and the end of each. A request whose id this process
   * created has none, so its end equals the end of the previous request.
   */
  readonly #ownIds = Buffer.allocUnsafeSlow(ownIdBytes)
  readonly #ownIdEnds = new Uint32Array(maxBatchRows)
  /** The kinds of the requests, each once. */
  readonly kinds: Array<RequestKind> = []
  /** The reservations of exports, by place. Writing these requests ends them. */
  readonly reservations = new Map<number, string>()

  #findKindPlace(row: RequestKind) {
    const found = this.kinds.findIndex((kind) => isSameKind(kind, row))
    if (found !== -1) return found
    const { cached, deprecated, endpoint, price_per_gb_microdollars, status_code, via } = row
    return this.kinds.push({ cached, deprecated, endpoint, price_per_gb_microdollars, status_code, via }) - 1
  }

  #getOwnIdStart(place: number) {
    return place === 0 ? 0 : this.#ownIdEnds[place - 1] ?? 0
  }

  /** Adds a request. Returns false if the batch is full. */
  add(row: UsageRecord) {
    const place = this.length
    const number = readRequestNumber(row.request_id, row.requested_at)
    const ownId = number === undefined ? packOwnId(row.request_id) : ""
    const ownIdStart = this.#getOwnIdStart(place)
    if (place === maxBatchRows || ownIdStart + ownId.length > ownIdBytes) return false
    this.times[place] = row.requested_at
    this.accounts[place] = row.account_id
    this.keys[place] = row.key_id
    this.kindPlaces[place] = this.#findKindPlace(row)
    this.records[place] = row.records_returned
    this.bytes[place] = row.bytes
    this.costs[place] = row.cost_microdollars
    this.durations[place] = row.duration_ms
    this.idNumbers[place] = number ?? 0
    if (ownId !== "") this.#ownIds.write(ownId, ownIdStart, "latin1")
    this.#ownIdEnds[place] = ownIdStart + ownId.length
    if (row.reservation_id !== null) this.reservations.set(place, row.reservation_id)
    this.length += 1
    return true
  }

  /** Removes all requests. */
  clear() {
    this.length = 0
    this.kinds.length = 0
    this.reservations.clear()
  }

  /** Returns the places of all requests, or of one account's requests. */
  findPlaces(account_id?: number) {
    const places: Array<number> = []
    for (let place = 0; place < this.length; place++) {
      if (account_id === undefined || this.accounts[place] === account_id) places.push(place)
    }
    return places
  }

  /** Returns the length of the packed id that the client chose; 0 for other ids. */
  measureOwnId(place: number) {
    return (this.#ownIdEnds[place] ?? 0) - this.#getOwnIdStart(place)
  }

  /**
   * Joins the packed ids with spaces, in which an id that this process created is empty. Returns empty text if all of
   * them are.
   */
  joinOwnIds(places: ReadonlyArray<number>) {
    if (places.every((place) => this.measureOwnId(place) === 0)) return ""
    const bytes = places.reduce((sum, place) => sum + 1 + this.measureOwnId(place), -1)
    const joined = Buffer.alloc(bytes, " ")
    let end = 0
    for (const place of places) {
      end += this.#ownIds.copy(joined, end, this.#getOwnIdStart(place), this.#ownIdEnds[place]) + 1
    }
    return joined.toString("latin1")
  }
}
