/**
 * Stores ticker changes in numeric arrays to save memory. Finds a symbol's component (D20) in the same way as the
 * statement in `LineageEvents.ts`.
 */
import type { TickerChangeEvent } from "./LineageRules.ts"

/** Estimated memory used by a string and its map entry, in bytes, excluding the characters. */
const textBytes = 72

/** A string pool. Each string is stored once and numbered from 1. */
class Texts {
  /** Total number of characters in all strings. */
  length = 0
  readonly #texts: Array<string> = [""]
  readonly #numbers = new Map<string, number>()

  get size() {
    return this.#numbers.size
  }

  get bytes() {
    return this.#texts.length * textBytes + this.length * 2
  }

  get(number: number) {
    return this.#texts[number] ?? ""
  }

  /** Returns the number of a string, or 0 if the pool does not contain it. */
  find(text: string) {
    return this.#numbers.get(text) ?? 0
  }

  add(text: string) {
    const found = this.find(text)
    if (found !== 0) return found
    const number = this.#texts.push(text) - 1
    this.#numbers.set(text, number)
    this.length += text.length
    return number
  }
}

/**
 * A graph of ticker changes. Changes are numbered from 1. Each symbol has two linked lists: the changes from it and the
 * changes to it. For each kind of list, one array contains the first change of each symbol (`#firstFrom`, `#firstTo`),
 * and another the next change after each change (`#nextFrom`, `#nextTo`). 0 marks the end of a list.
 */
export class TickerChangeIndex {
  size = 0
  readonly #symbols = new Texts()
  readonly #dates = new Texts()
  readonly #names = new Texts()
  readonly #firstFrom: Int32Array
  readonly #firstTo: Int32Array
  readonly #nextFrom: Int32Array
  readonly #nextTo: Int32Array
  readonly #oldTickers: Int32Array
  readonly #newTickers: Int32Array
  readonly #dateNumbers: Int32Array
  /** The number of each change's company name, or 0 if it has none. */
  readonly #nameNumbers: Int32Array
  /** Each change's CIK as a number, or -1 for null. */
  readonly #ciks: Float64Array

  /** `count` is the number of changes that will be added. */
  constructor(count: number) {
    const makeIntegers = (length = count + 1) => new Int32Array(length)
    this.#firstFrom = makeIntegers(2 * count + 1)
    this.#firstTo = makeIntegers(2 * count + 1)
    this.#nextFrom = makeIntegers()
    this.#nextTo = makeIntegers()
    this.#oldTickers = makeIntegers()
    this.#newTickers = makeIntegers()
    this.#dateNumbers = makeIntegers()
    this.#nameNumbers = makeIntegers()
    this.#ciks = new Float64Array(count + 1)
  }

  static of(changes: ReadonlyArray<TickerChangeEvent>) {
    const index = new TickerChangeIndex(changes.length)
    for (const change of changes) index.add(change)
    return index
  }

  /** The memory used by all arrays and strings, in bytes. */
  get bytes() {
    return 2 * this.#firstFrom.byteLength + 6 * this.#nextFrom.byteLength + this.#ciks.byteLength +
      this.#symbols.bytes + this.#dates.bytes + this.#names.bytes
  }

  add({ cik, company_name, effective_date, new_ticker, old_ticker }: TickerChangeEvent) {
    const change = this.size += 1
    const from = this.#symbols.add(old_ticker)
    const to = this.#symbols.add(new_ticker)
    this.#oldTickers[change] = from
    this.#newTickers[change] = to
    this.#nextFrom[change] = this.#firstFrom[from] ?? 0
    this.#firstFrom[from] = change
    this.#nextTo[change] = this.#firstTo[to] ?? 0
    this.#firstTo[to] = change
    this.#dateNumbers[change] = this.#dates.add(effective_date)
    this.#nameNumbers[change] = company_name === null ? 0 : this.#names.add(company_name)
    this.#ciks[change] = cik === null ? -1 : Number(cik)
  }

  /**
   * Returns up to `maxEvents` events dated `today` or earlier in the symbol's connected component, in no particular
   * order. Visits each symbol of the component once. An event is returned only from its old symbol, so no event is
   * returned twice.
   */
  findComponent(ticker: string, today: string, maxEvents: number): ReadonlyArray<TickerChangeEvent> {
    const first = this.#symbols.find(ticker)
    if (first === 0) return []
    const events: Array<TickerChangeEvent> = []
    const symbols = new Set([first])
    // This loop also visits symbols that are added to the set during the iteration.
    for (const symbol of symbols) {
      for (let change = this.#firstFrom[symbol] ?? 0; change !== 0; change = this.#nextFrom[change] ?? 0) {
        const event = this.#getEvent(change)
        if (event.effective_date > today) continue
        events.push(event)
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
    return this.#dates.get(this.#dateNumbers[change] ?? 0)
  }

  #getEvent(change: number): TickerChangeEvent {
    const cik = this.#ciks[change] ?? -1
    const name = this.#nameNumbers[change] ?? 0
    return {
      old_ticker: this.#symbols.get(this.#oldTickers[change] ?? 0),
      new_ticker: this.#symbols.get(this.#newTickers[change] ?? 0),
      effective_date: this.#getDate(change),
      cik: cik < 0 ? null : String(cik).padStart(10, "0"),
      company_name: name === 0 ? null : this.#names.get(name),
    }
  }
}
