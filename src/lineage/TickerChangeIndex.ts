/** Ticker changes in packed arrays. Finds the component of a symbol (D20) like the statement of a lineage. */
import { Buffer } from "node:buffer"
import type { TickerChangeEvent } from "./LineageRules.ts"

/** The table allows symbols of up to 16 ASCII characters. */
const symbolBytes = 16

/** Estimated memory of a date as a string, and of its entry in a map, in bytes. */
const dateBytes = 128

const resizeIntegers = (array: Int32Array, length: number) => {
  const resized = new Int32Array(length)
  resized.set(array.subarray(0, length))
  return resized
}

const resizeBuffer = (buffer: Buffer, length: number) => {
  const resized = Buffer.alloc(length)
  buffer.copy(resized)
  return resized
}

/** FNV-1a. The lowest bits of the result are the best mixed. */
const hashSymbol = (symbol: string) => {
  let hash = 0x811c9dc5
  for (let at = 0; at < symbol.length; at++) hash = Math.imul(hash ^ symbol.charCodeAt(at), 0x01000193)
  return hash ^ (hash >>> 15)
}

/** Numbers symbols from 1, in a hash table with linear probing. */
class SymbolTable {
  size = 0
  /** Numbers of symbols; 0 is a free slot. At most half of the slots are used. */
  #slots = new Int32Array(16)
  #hashes = new Int32Array(this.#slots.length / 2 + 1)
  #characters = Buffer.alloc(this.#hashes.length * symbolBytes)

  /** Number of symbols for which the arrays have space, with the unused number 0. */
  get capacity() {
    return this.#hashes.length
  }

  get bytes() {
    return this.#characters.byteLength + this.#hashes.byteLength + this.#slots.byteLength
  }

  /** Returns the symbol with this number. */
  get(number: number) {
    const start = number * symbolBytes
    let end = start
    while (end < start + symbolBytes && this.#characters[end] !== 0) end += 1
    return this.#characters.toString("latin1", start, end)
  }

  /** Returns the number of the symbol, or 0 if it is unknown. */
  find(symbol: string) {
    return this.#slots[this.#findSlot(symbol, hashSymbol(symbol))] ?? 0
  }

  add(symbol: string) {
    const found = this.find(symbol)
    if (found !== 0) return found
    this.size += 1
    if (2 * this.size > this.#slots.length) this.#enlarge()
    const hash = hashSymbol(symbol)
    this.#characters.write(symbol, this.size * symbolBytes, symbolBytes, "latin1")
    this.#hashes[this.size] = hash
    this.#slots[this.#findSlot(symbol, hash)] = this.size
    return this.size
  }

  /** Frees the space for further symbols. */
  trim() {
    this.#resize(this.size + 1)
  }

  /** Returns the slot of the symbol, or the free slot in which it belongs. */
  #findSlot(symbol: string, hash: number) {
    const mask = this.#slots.length - 1
    for (let slot = hash & mask;; slot = (slot + 1) & mask) {
      const number = this.#slots[slot] ?? 0
      if (number === 0 || this.#hashes[number] === hash && this.#equals(number, symbol)) return slot
    }
  }

  #equals(number: number, symbol: string) {
    const start = number * symbolBytes
    for (let at = 0; at < symbol.length; at++) {
      if (this.#characters[start + at] !== symbol.charCodeAt(at)) return false
    }
    return symbol.length === symbolBytes || symbol.length < symbolBytes && this.#characters[start + symbol.length] === 0
  }

  #resize(capacity: number) {
    this.#characters = resizeBuffer(this.#characters, capacity * symbolBytes)
    this.#hashes = resizeIntegers(this.#hashes, capacity)
  }

  #enlarge() {
    const slots = new Int32Array(this.#slots.length * 2)
    const mask = slots.length - 1
    this.#resize(slots.length / 2 + 1)
    for (let number = 1; number < this.size; number++) {
      let slot = (this.#hashes[number] ?? 0) & mask
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = number
    }
    this.#slots = slots
  }
}

/**
 * Changes are numbered from 1. The changes from a symbol, and those to it, are linked lists: the number of the first
 * change by symbol, and that of the next one by change. 0 ends a list.
 */
export class TickerChangeIndex {
  size = 0
  readonly #symbols = new SymbolTable()
  #firstFrom = new Int32Array(0)
  #firstTo = new Int32Array(0)
  readonly #nextFrom: Int32Array
  readonly #nextTo: Int32Array
  readonly #oldTickers: Int32Array
  readonly #newTickers: Int32Array
  /** Positions in `#dates`. */
  readonly #dateNumbers: Int32Array
  readonly #dates: Array<string> = []
  readonly #numbersOfDates = new Map<string, number>()
  /** CIKs as numbers; -1 is null. */
  readonly #ciks: Float64Array
  /** The end of each company name in `#names`. It begins where the one before ends, and is null if it is empty. */
  readonly #nameEnds: Int32Array
  #names = Buffer.alloc(0)

  /** `count`: the number of changes that will be added. */
  constructor(count: number) {
    const makeIntegers = () => new Int32Array(count + 1)
    this.#nextFrom = makeIntegers()
    this.#nextTo = makeIntegers()
    this.#oldTickers = makeIntegers()
    this.#newTickers = makeIntegers()
    this.#dateNumbers = makeIntegers()
    this.#ciks = new Float64Array(count + 1)
    this.#nameEnds = makeIntegers()
  }

  /** Memory of all arrays, in bytes. */
  get bytes() {
    return this.#symbols.bytes + this.#firstFrom.byteLength + this.#firstTo.byteLength + this.#names.byteLength +
      5 * this.#nextFrom.byteLength + this.#nameEnds.byteLength + this.#ciks.byteLength + dateBytes * this.#dates.length
  }

  add({ cik, company_name, effective_date, new_ticker, old_ticker }: TickerChangeEvent) {
    const change = this.size += 1
    const from = this.#symbols.add(old_ticker)
    const to = this.#symbols.add(new_ticker)
    if (this.#firstFrom.length < this.#symbols.capacity) this.#resizeLists(this.#symbols.capacity)
    this.#oldTickers[change] = from
    this.#newTickers[change] = to
    this.#nextFrom[change] = this.#firstFrom[from] ?? 0
    this.#firstFrom[from] = change
    this.#nextTo[change] = this.#firstTo[to] ?? 0
    this.#firstTo[to] = change
    this.#dateNumbers[change] = this.#addDate(effective_date)
    this.#ciks[change] = cik === null ? -1 : Number(cik)
    this.#nameEnds[change] = this.#addName(company_name ?? "", this.#nameEnds[change - 1] ?? 0)
  }

  /** Frees the space for further changes. */
  trim() {
    this.#symbols.trim()
    this.#resizeLists(this.#symbols.capacity)
    this.#names = resizeBuffer(this.#names, this.#nameEnds[this.size] ?? 0)
    this.#numbersOfDates.clear()
  }

  /** Returns up to `maxEvents` events up to `today` that are connected with the symbol, in no particular order. */
  findComponent(ticker: string, today: string, maxEvents: number): ReadonlyArray<TickerChangeEvent> {
    const first = this.#symbols.find(ticker)
    if (first === 0) return []
    const events: Array<TickerChangeEvent> = []
    const symbols = new Set([first])
    // The loop includes the symbols that are added meanwhile.
    for (const symbol of symbols) {
      for (let change = this.#firstFrom[symbol] ?? 0; change !== 0; change = this.#nextFrom[change] ?? 0) {
        const effective_date = this.#getDate(change)
        if (effective_date > today) continue
        events.push(this.#getEvent(change, effective_date))
        if (events.length === maxEvents) return events
        symbols.add(this.#newTickers[change] ?? 0)
      }
      for (let change = this.#firstTo[symbol] ?? 0; change !== 0; change = this.#nextTo[change] ?? 0) {
        if (this.#getDate(change) <= today) symbols.add(this.#oldTickers[change] ?? 0)
      }
    }
    return events
  }

  #getDate(change: number) {
    return this.#dates[this.#dateNumbers[change] ?? 0] ?? ""
  }

  #getEvent(change: number, effective_date: string): TickerChangeEvent {
    const cik = this.#ciks[change] ?? -1
    const [nameStart, nameEnd] = [this.#nameEnds[change - 1] ?? 0, this.#nameEnds[change] ?? 0]
    return {
      old_ticker: this.#symbols.get(this.#oldTickers[change] ?? 0),
      new_ticker: this.#symbols.get(this.#newTickers[change] ?? 0),
      effective_date,
      cik: cik < 0 ? null : String(cik).padStart(10, "0"),
      company_name: nameStart === nameEnd ? null : this.#names.toString("utf8", nameStart, nameEnd),
    }
  }

  #addDate(date: string) {
    const found = this.#numbersOfDates.get(date)
    if (found !== undefined) return found
    this.#numbersOfDates.set(date, this.#dates.length)
    return this.#dates.push(date) - 1
  }

  #addName(name: string, start: number) {
    const end = start + Buffer.byteLength(name)
    if (end > this.#names.length) this.#names = resizeBuffer(this.#names, 2 * end)
    this.#names.write(name, start)
    return end
  }

  #resizeLists(capacity: number) {
    this.#firstFrom = resizeIntegers(this.#firstFrom, capacity)
    this.#firstTo = resizeIntegers(this.#firstTo, capacity)
  }
}
