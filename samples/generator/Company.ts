/** Who a company is: what does not change while its plot runs, and the symbol it carries on a day. */
import { dateOf, type Day, dayAt } from "./Calendar.ts"
import { cast, type Role } from "./Cast.ts"
import { businessOf, cities, stem, trades } from "./Names.ts"
import type { Plot } from "./Plot.ts"
import { plots } from "./Plots.ts"
import { type Dice, dice } from "./Random.ts"

export interface Company {
  readonly seed: number
  readonly number: number
  /** Seeds dice of its own for every purpose, so that one table's chance does not move another's. */
  readonly dice: (purpose: string) => Dice
  readonly name: string
  readonly role: Role
  readonly plot: Plot
  readonly cik: string
  readonly country: string
  readonly state: string | null
  readonly city: string | null
  readonly sector: string | null
  readonly industry: string | null
}

/** A CIK that no company has. Every second one has leading zeros, like most real CIKs; many programs lose them. */
const cikOf = (number: number) => String((number % 2 === 0 ? 9_990_001_000 : 999_001_000) + number).padStart(10, "0")

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/** Three letters and three digits: 17.6 million symbols, none as short as those of the cast. */
const symbolOf = (number: number) => {
  const letter = (place: number) => letters.charAt(Math.floor(number / 1000 / 26 ** place) % 26)
  return `${letter(2)}${letter(1)}${letter(0)}${String(number % 1000).padStart(3, "0")}`
}

/** Beyond the small market the same plots are played by others, four symbols to each company. */
const roleOf = (number: number, of: Dice): Role => {
  const played = cast[number % cast.length] ?? { plot: "steady", name: "", symbols: ["NON3"] }
  if (number < cast.length) return played
  return {
    plot: played.plot,
    name: `${stem(number)} ${of.pick(trades)}`,
    symbols: [symbolOf(4 * number), ...[1, 2, 3].map((more) => symbolOf(4 * number + more))],
  }
}

export const companyOf = (seed: number, number: number): Company => {
  const of = dice(seed, number, "company")
  const role = roleOf(number, of)
  const plot = plots[role.plot](of)
  const country = of.pick(plot.countries)
  const [state, city] = of.pick(cities)
  const [sector, industry] = businessOf(role.name)
  const isHome = country === "US" && plot.first !== null
  return {
    seed,
    number,
    dice: (purpose) => dice(seed, number, purpose),
    name: `${role.name} (fictional)`,
    role,
    plot,
    cik: cikOf(number),
    country,
    state: isHome ? state : null,
    city: isHome ? city : null,
    sector,
    industry,
  }
}

/** The days on which the company took its second, third, … symbol. */
export const renamesOf = ({ plot, role }: Company) =>
  plot.renames.map((session, place) => ({
    day: dayAt(session),
    former: role.symbols[place] ?? "",
    next: role.symbols[place + 1] ?? "",
  }))

/** The symbol under which the company's facts of this day are known. */
export const symbolOn = (company: Company, day: Day) =>
  renamesOf(company).findLast((rename) => rename.day <= day)?.next ?? company.role.symbols[0]

/** `https://example.com/filings/9990001000/…` */
export const address = ({ cik }: Company, ...path: ReadonlyArray<string>) =>
  ["https://example.com/filings", cik, ...path].join("/")

/** `2026-06-01` at six in the evening, when most tables are brought up to date. */
export const evening = (day: Day) => `${dateOf(day)} 18:05:00`
