/** The fictional companies, with their static data, their scenarios and their symbols over time. */
import { type EpochDay, formatDate, getSessionDay } from "./Calendar.ts"
import { businessWords, inferSectorAndIndustry, inventWord, usCities } from "./Names.ts"
import { makeRandomSource, type RandomSource } from "./Random.ts"
import { type CompanyScenario, companyScenarios } from "./Scenarios.ts"

/**
 * A fictional company: the data that does not change over time, and the scenario that determines what happens to it.
 */
export interface FictionalCompany {
  /** The random seed of the whole fictional market, from which all companies are generated. */
  readonly seed: number
  /** The index of the company among all generated companies, starting at 0. */
  readonly number: number
  /**
   * Returns a separate sequence of random numbers for each purpose, such as `news`. So if the generator of one table
   * needs more random numbers than before, the other tables do not change.
   */
  readonly randomFor: (purpose: string) => RandomSource
  readonly name: string
  readonly profile: CompanyProfile
  readonly scenario: CompanyScenario
  readonly cik: string
  readonly country: string
  readonly state: string | null
  readonly city: string | null
  readonly sector: string | null
  readonly industry: string | null
}

/**
 * Returns a CIK (the SEC's company number) that is not assigned to any company. Half of these CIKs have leading zeros,
 * which clients often drop.
 */
const makeCik = (number: number) => String((number % 2 === 0 ? 9_990_001_000 : 999_001_000) + number).padStart(10, "0")

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/** Returns a symbol such as `AAB012`. It cannot equal the symbol of a named company, because those are shorter. */
const makeSymbol = (number: number) => {
  const letter = (index: number) => alphabet.charAt(Math.floor(number / 1000 / 26 ** index) % 26)
  return `${letter(2)}${letter(1)}${letter(0)}${String(number % 1000).padStart(3, "0")}`
}

/**
 * Returns the name, scenario and symbols of the company with the given index. The first 51 companies are those of the
 * small market. In larger markets, each further company repeats the scenario of one of them, but has a random name and
 * four generated symbols, of which it uses as many as its scenario requires.
 */
const profileOf = (number: number, random: RandomSource): CompanyProfile => {
  const base = namedCompanies[number % namedCompanies.length] ?? { scenario: "largeCap", name: "", symbols: ["NON3"] }
  if (number < namedCompanies.length) return base
  return {
    scenario: base.scenario,
    name: `${inventWord(number)} ${random.pick(businessWords)}`,
    symbols: [makeSymbol(4 * number), ...[1, 2, 3].map((more) => makeSymbol(4 * number + more))],
  }
}

/**
 * Generates the company with the given index (`number`), starting at 0, of the market with the given random seed. The
 * same two numbers always result in the same company. `scenario` is everything that is planned to happen to it, and
 * `randomFor` returns a separate random sequence for each purpose, so that a change to one part of the generator does
 * not change the others.
 */
export const makeCompany = (seed: number, number: number): FictionalCompany => {
  const random = makeRandomSource(seed, number, "company")
  const profile = profileOf(number, random)
  const scenario = companyScenarios[profile.scenario](random)
  const country = random.pick(scenario.countries)
  const [state, city] = random.pick(usCities)
  const [sector, industry] = inferSectorAndIndustry(profile.name)
  // Only listed US companies have a state and a city, so that these columns also contain nulls.
  const hasCity = country === "US" && scenario.firstSession !== null
  return {
    seed,
    number,
    randomFor: (purpose) => makeRandomSource(seed, number, purpose),
    name: `${profile.name} (fictional)`,
    profile,
    scenario,
    cik: makeCik(number),
    country,
    state: hasCity ? state : null,
    city: hasCity ? city : null,
    sector,
    industry,
  }
}

/** Returns a company's symbol changes, oldest first: the day of each, the former symbol and the next one. */
export const listSymbolChanges = ({ scenario, profile }: FictionalCompany) =>
  scenario.renames.map((session, index) => ({
    day: getSessionDay(session),
    former: profile.symbols[index] ?? "",
    next: profile.symbols[index + 1] ?? "",
  }))

/** Returns the symbol that the company uses on a given day. */
export const getSymbolOn = (company: FictionalCompany, day: EpochDay) =>
  listSymbolChanges(company).findLast((rename) => rename.day <= day)?.next ?? company.profile.symbols[0]

/** Returns the URL of a filing, such as `https://example.com/filings/9990001000/…`. */
export const makeFilingUrl = ({ cik }: FictionalCompany, ...path: ReadonlyArray<string>) =>
  ["https://example.com/filings", cik, ...path].join("/")

/** Returns the usual value of the column `last_updated` for a day: 18:05, as in `2026-06-01 18:05:00`. */
export const formatEveningTime = (day: EpochDay) => `${formatDate(day)} 18:05:00`

type ScenarioName = keyof typeof companyScenarios

/** The name, scenario and symbols of a company. */
interface CompanyProfile {
  /**
   * The company's symbols in chronological order. A scenario in which the symbol changes n times uses n + 1 of them.
   */
  readonly symbols: readonly [string, ...ReadonlyArray<string>]
  readonly name: string
  readonly scenario: ScenarioName
}

const makeProfile = (scenario: ScenarioName, name: string, ...symbols: CompanyProfile["symbols"]): CompanyProfile => ({
  scenario,
  name,
  symbols,
})

/** The companies of the smallest market that can be generated (scale 1). Larger markets repeat their scenarios. */
export const namedCompanies: ReadonlyArray<CompanyProfile> = [
  makeProfile("fullLifecycle", "Gapwell Therapeutics", "GAP7", "GPW8"),
  makeProfile("serialIssuer", "Deltarix Biosciences", "DLT5"),
  makeProfile("pumpAndDump", "Pumpernik Holdings", "PMP1"),
  makeProfile("largeCap", "Bigsley Foods", "BIG1"),
  makeProfile("delistingAppeal", "Sinkara Media", "SNK1"),
  makeProfile("frequentRenames", "Renamara Software", "RNM1", "RNM2", "RNM3", "RNM4"),
  makeProfile("foreignIssuer", "Nordquell Shipping", "NDQ2"),
  makeProfile("unpriced", "Quietus Mining", "QT01"),
  makeProfile("forwardSplit", "Forwarda Semiconductors", "FWD3"),
  makeProfile("spac", "Spacelot Acquisition", "SPC1"),
  makeProfile("fullLifecycle", "Orbanta Robotics", "ORB3", "ORB4"),
  makeProfile("serialIssuer", "Myconurel Therapeutics", "MYC2"),
  makeProfile("pumpAndDump", "Luxivan Technology", "LUX8"),
  makeProfile("largeCap", "Atlamere Insurance", "ATL6"),
  makeProfile("delisted", "Delistra Apparel", "DEL6"),
  makeProfile("serialIssuer", "Quarkline Semiconductors", "QRK8"),
  makeProfile("pumpAndDump", "Zhanvora Education", "ZHN3"),
  makeProfile("largeCap", "Duomark Stores", "DUO1.B"),
  makeProfile("lateFiler", "Latterly Logistics", "LAT4"),
  makeProfile("pendingSplitVote", "Votanda Energy", "VOT4"),
  makeProfile("fullLifecycle", "Voltigo Batteries", "VLT4", "VLT5"),
  makeProfile("serialIssuer", "Helivox Diagnostics", "HLV3"),
  makeProfile("pumpAndDump", "Kelimu Logistics", "KLM6"),
  makeProfile("largeCap", "Cornholt Rail", "CRN2"),
  makeProfile("bidPriceExtension", "Fallowin Apparel", "FAL2"),
  makeProfile("foreignIssuer", "Keystaff Health", "KEY2-A"),
  makeProfile("withdrawnSplit", "Withdray Mining", "WDR5"),
  makeProfile("unlisted", "Shellbourne Holdings", "SHL2"),
  makeProfile("fullLifecycle", "Nimbara Software", "NIM8", "NIM9"),
  makeProfile("serialIssuer", "Aquaforge Energy", "AQF4"),
  makeProfile("pumpAndDump", "Sanguro Foods", "SGR5"),
  makeProfile("largeCap", "Medantiv Health", "MED7"),
  makeProfile("delisted", "Drapeway Stores", "DRP3"),
  makeProfile("lateFiler", "Procrastine Media", "PRC6"),
  makeProfile("serialIssuer", "Brenwick Mining", "BRN6"),
  makeProfile("pumpAndDump", "Takoru Media", "TKO4"),
  makeProfile("largeCap", "Techalon Systems", "TCH4"),
  makeProfile("bidPriceNotice", "Lowenta Mining", "LOW4"),
  makeProfile("foreignIssuer", "Oestermark Power", "OST3"),
  makeProfile("forwardSplit", "Trebledo Software", "TRB6"),
  makeProfile("spac", "Unisonder Acquisition", "UNI2"),
  makeProfile("fullLifecycle", "Solquist Energy", "SOL9", "SLQ1"),
  makeProfile("serialIssuer", "Novaquill Software", "NVQ7"),
  makeProfile("pumpAndDump", "Harkvale Holdings", "HKV9"),
  makeProfile("largeCap", "Retalia Stores", "RET3"),
  makeProfile("frequentRenames", "Aliasson Systems", "ALI1", "ALI2", "ALI3", "ALI4"),
  makeProfile("pendingSplitVote", "Ballotine Devices", "BLT7"),
  makeProfile("serialIssuer", "Thermavale Devices", "THR2"),
  makeProfile("pumpAndDump", "Bolinbao Technology", "BOL2"),
  makeProfile("largeCap", "Utelor Power", "UTL5"),
  makeProfile("nameOnly", "Vanishora Holdings", "VAN0"),
]
