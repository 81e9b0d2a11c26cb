/** D29 (usage): where requests wait until they are written. */
import { readRequestNumber } from "../../contract/rules/RequestIds.ts"
import { isSameKind, type RequestKind, type UsageRecord } from "./UsageRecord.ts"

/** The most requests that are written at once. */
export const maxBatchRows = 2_000

const ownIdBytes = 64 * maxBatchRows

const canonicalUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Returns an id as `own_ids` has it: a UUID as `=`, which no id contains, and 22 characters; any other unchanged. */
export const packOwnId = (id: string) =>
  canonicalUuid.test(id) ? `=${Buffer.from(id.replaceAll("-", ""), "hex").toString("base64").slice(0, 22)}` : id

/**
 * The requests of a batch, as one array of numbers per property. Objects would survive several collections of the young
 * generation and then stay in the old one until a full collection. The place of a request is its index in the arrays.
 * They are allocated once; `clear` makes them available for the next batch.
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
  /** The number in each id; 0 for ids of clients. */
  readonly idNumbers = new Float64Array(maxBatchRows)
  /** The ids of clients, one after the other, and the end of each; others have length 0. */
  readonly #ownIds = Buffer.allocUnsafeSlow(ownIdBytes)
  readonly #ownIdEnds = new Uint32Array(maxBatchRows)
  /** The kinds of these requests, each once. */
  readonly kinds: Array<RequestKind> = []
  /** The reservations of exports, which the write of these requests ends, by place. */
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

  /** Adds a request. Returns false if it does not fit. */
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

  /** Returns the places of all requests, or of those of an account. */
  findPlaces(account_id?: number) {
    const places: Array<number> = []
    for (let place = 0; place < this.length; place++) {
      if (account_id === undefined || this.accounts[place] === account_id) places.push(place)
    }
    return places
  }

  /** Returns the length of the packed id of a client; 0 for other ids. */
  measureOwnId(place: number) {
    return (this.#ownIdEnds[place] ?? 0) - this.#getOwnIdStart(place)
  }

  /** Joins the packed ids with spaces; ids of this service are empty. Returns an empty text if all of them are. */
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
