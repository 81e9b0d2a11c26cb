/** Who holds a company's shares: parts of them in ten-thousandths, from which ownership tables and floats follow. */
import type { Company } from "./Company.ts"
import { funds, people } from "./Names.ts"
import type { Dice } from "./Random.ts"

export interface Holder {
  readonly name: string
  readonly cik: string | null
  readonly type: "executive" | "director" | "ten_percent_owner" | "five_percent_owner" | null
  readonly title: string | null
  readonly part: number
}

const cikOf = (name: string) => String(9_990_900_000 + [...people, ...funds].findIndex((known) => known === name))

const person = (place: number, type: Holder["type"], title: string | null, part: number): Holder => {
  const name = people[place % people.length] ?? people[0]
  return { name, cik: type === null ? null : cikOf(name), type, title, part }
}

const fund = (place: number, type: Holder["type"], part: number): Holder => {
  const name = funds[place % funds.length] ?? funds[0]
  return { name, cik: cikOf(name), type, title: null, part }
}

/** Officers with a lot, perhaps a holder of more than a tenth, a fund or two. */
const small = (of: Dice, place: number): ReadonlyArray<Holder> => [
  person(place, "executive", "Chief Executive Officer", of.whole(200, 1200)),
  person(place + 1, "executive", "Chief Financial Officer", of.whole(20, 250)),
  person(place + 2, "director", "Chair of the Board", of.whole(0, 90)),
  person(place + 3, "director", "Director", 0),
  person(place + 4, null, null, 0),
  ...(of.chance(0.6) ? [fund(place, "ten_percent_owner", of.whole(1000, 2200))] : []),
  fund(place + 1, "five_percent_owner", of.whole(500, 990)),
]

/** Hardly anything with officers, and nobody above a tenth: a reported 0. */
const large = (of: Dice, place: number): ReadonlyArray<Holder> => [
  person(place, "executive", "Chief Executive Officer", of.whole(3, 30)),
  person(place + 1, "director", "Director", of.whole(1, 5)),
  fund(place, "five_percent_owner", of.whole(600, 980)),
  fund(place + 1, "five_percent_owner", of.whole(600, 980)),
  fund(place + 2, "five_percent_owner", of.whole(500, 700)),
]

/** Nobody where the filings hold no table of holders. */
export const holdersOf = (company: Company): ReadonlyArray<Holder> => {
  const of = company.dice("holders")
  const place = company.number % 60
  const { holders } = company.plot
  return holders === "full" ? small(of, place) : holders === "institutions" ? large(of, place) : []
}

export interface Shares {
  /** Ten-thousandths of the shares; null: not known. */
  readonly insiders: number | null
  readonly affiliates: number | null
  readonly institutions: number | null
}

/** What the tables add up to. Of a company without one, at most the institutions are known: they hold nothing. */
export const sharesOf = (company: Company): Shares => {
  const holders = holdersOf(company)
  const sum = (...types: ReadonlyArray<Holder["type"]>) =>
    holders.filter(({ type }) => types.includes(type)).reduce((total, { part }) => total + part, 0)
  if (holders.length === 0) {
    return { insiders: null, affiliates: null, institutions: company.plot.exchange === null ? null : 0 }
  }
  const rest = company.dice("institutions").whole(0, company.plot.holders === "institutions" ? 4000 : 900)
  return {
    insiders: sum("executive", "director"),
    affiliates: sum("ten_percent_owner"),
    institutions: sum("ten_percent_owner", "five_percent_owner") + rest,
  }
}
