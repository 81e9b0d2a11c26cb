/**
 * The invented names in the sample data. Some contain characters that have to be escaped in SQL patterns and CSV files,
 * such as `%` and quotes.
 */

/** Underwriters and placement agents for capital raises. */
export const bankNames = [
  "O'Neil_50% & Partners",
  'Brandt, "Quill" & Sons',
  "Hollow_Creek Securities",
  "Zwölf Brücken Bank",
  "Maple & Thorn Capital",
  "Back\\Slash Advisory",
  "100% Harbor Markets",
] as const

/** IPO underwriters. `liquidationHistory` rates how often the companies they took public have collapsed. */
export const underwriters = [
  { name: "Pinnacle_Wisp Securities", isKnown: true, liquidationHistory: "high" },
  { name: "Eight O'Clock Capital", isKnown: true, liquidationHistory: "high" },
  { name: "Red Lantern 88% Markets", isKnown: true, liquidationHistory: "medium" },
  { name: "Fairweather & Daughters", isKnown: false, liquidationHistory: "low" },
  { name: "Novice Bridge LLC", isKnown: false, liquidationHistory: null },
] as const

/** Names of officers, directors and authors. */
export const personNames = [
  "Ada Quillfeather",
  "Bo Marrowby",
  "Cleo Vantongeren",
  "Dag O'Hollis",
  "Esi Wintermoor",
  "Finn Abelgard",
  "Gro Tindlewick",
  "Hedda Sprocket",
  "Ivo Lanternmann",
  "Juno Peppercorn-Vail",
  "Kai Oxenbridge",
  "Liv Thistledown",
] as const

/** Funds that hold shares or buy convertibles and warrants. */
export const fundNames = [
  "Granite Owl Fund LP",
  "Tidewater_7 Partners",
  "Longspoon Pension Trust",
  "Half-Moon 50% Income Fund",
  "Kestrel & Kestrel Advisers",
  "Blue Ladder Index Trust",
] as const

/** Names of press release publishers. */
export const publisherNames = ["Fictional Newswire", "Made-up Market Daily", "Imaginary Press"] as const

const industries = {
  Therapeutics: ["Healthcare", "Biotechnology"],
  Biosciences: ["Healthcare", "Biotechnology"],
  Diagnostics: ["Healthcare", "Diagnostics & Research"],
  Devices: ["Healthcare", "Medical Devices"],
  Health: ["Healthcare", "Medical Care Facilities"],
  Robotics: ["Industrials", "Specialty Industrial Machinery"],
  Logistics: ["Industrials", "Integrated Freight & Logistics"],
  Shipping: ["Industrials", "Marine Shipping"],
  Rail: ["Industrials", "Railroads"],
  Batteries: ["Industrials", "Electrical Equipment & Parts"],
  Software: ["Technology", "Software - Application"],
  Semiconductors: ["Technology", "Semiconductors"],
  Systems: ["Technology", "Information Technology Services"],
  Technology: ["Technology", "Software - Infrastructure"],
  Materials: ["Basic Materials", "Specialty Chemicals"],
  Mining: ["Basic Materials", "Gold"],
  Energy: ["Energy", "Oil & Gas E&P"],
  Power: ["Utilities", "Utilities - Regulated Electric"],
  Foods: ["Consumer Defensive", "Packaged Foods"],
  Education: ["Consumer Defensive", "Education & Training Services"],
  Stores: ["Consumer Cyclical", "Department Stores"],
  Apparel: ["Consumer Cyclical", "Apparel Manufacturing"],
  Media: ["Communication Services", "Entertainment"],
  Insurance: ["Financial Services", "Insurance - Diversified"],
  Acquisition: ["Financial Services", "Shell Companies"],
  Holdings: [null, null],
} as const

/** Infers the sector and the industry from the last word of a company name. */
export const inferSectorAndIndustry = (name: string): readonly [sector: string | null, industry: string | null] =>
  Object.entries(industries).find(([word]) => name.endsWith(word))?.[1] ?? [null, null]

/** Last words of generated company names. */
export const businessWords = [
  "Therapeutics",
  "Biosciences",
  "Robotics",
  "Software",
  "Semiconductors",
  "Mining",
  "Energy",
  "Foods",
  "Media",
  "Devices",
  "Logistics",
  "Materials",
] as const

const syllables = [
  "ba",
  "cor",
  "del",
  "fen",
  "gri",
  "hul",
  "jor",
  "kes",
  "lum",
  "mor",
  "nax",
  "pel",
  "quo",
  "ril",
  "sta",
]

/**
 * Returns an invented word, such as `Naxcorba`. Every number produces a different word, because its syllables are the
 * digits of the number in base 15: at least three, and more for numbers of 15^3 and above.
 */
export const inventWord = (number: number) => {
  const syllable = (index: number) => syllables[Math.floor(number / 15 ** index) % 15] ?? ""
  const word = syllable(0) + syllable(1) + syllable(2) + (number >= 15 ** 3 ? syllable(3) : "") +
    (number >= 15 ** 4 ? syllable(4) : "")
  return word.charAt(0).toUpperCase() + word.slice(1)
}

/** US cities, each preceded by its state. */
export const usCities = [
  ["CA", "San Diego"],
  ["MA", "Boston"],
  ["TX", "Austin"],
  ["NY", "New York"],
  ["FL", "Miami"],
  ["NV", "Reno"],
  ["CO", "Denver"],
  ["DE", "Wilmington"],
] as const
