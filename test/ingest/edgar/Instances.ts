/** Builds artificial XBRL instances in the format in which the SEC extracts them from a filing's main document. */

export interface MadeCount {
  /** The qualified name of the share class. It is absent if the count covers all shares. */
  readonly member?: string
  readonly shares: number | string
  /** The date of the count, as `YYYY-MM-DD`. */
  readonly date?: string
  /** The context's other members, by axis. */
  readonly axes?: { readonly [axis: string]: string }
  readonly cik?: string
}

export interface MadeListing {
  readonly member: string
  readonly title?: string
  readonly symbol?: string
  readonly axes?: { readonly [axis: string]: string }
}

export interface MadeInstance {
  readonly cik: string
  readonly counts: ReadonlyArray<MadeCount>
  readonly listings?: ReadonlyArray<MadeListing>
  /** Additional XML after the cover page facts. */
  readonly more?: string
}

const classAxis = "us-gaap:StatementClassOfStockAxis"

const makeContext = (
  id: string,
  cik: string,
  period: string,
  { axes = {}, member }: Pick<MadeCount, "axes" | "member">,
) => {
  const members = Object.entries({ ...(member !== undefined && { [classAxis]: member }), ...axes }).map(
    ([axis, name]) => `<xbrldi:explicitMember dimension="${axis}">${name}</xbrldi:explicitMember>`,
  )
  return `  <context id="${id}">
    <entity>
      <identifier scheme="http://www.sec.gov/CIK">${cik}</identifier>
      ${members.length === 0 ? "" : `<segment>${members.join("")}</segment>`}
    </entity>
    <period>${period}</period>
  </context>
`
}

const period = "<startDate>2026-01-01</startDate><endDate>2026-03-31</endDate>"

export const makeInstance = ({ cik, counts, listings = [], more = "" }: MadeInstance) => {
  const contexts = [
    makeContext("c-1", cik, period, {}),
    ...listings.map((listing, index) => makeContext(`l-${index}`, cik, period, listing)),
    ...counts.map((count, index) =>
      makeContext(
        `n-${index}`,
        count.cik ?? cik,
        `<instant>${count.date ?? "2026-04-22"}</instant>`,
        count,
      )
    ),
  ]
  const listed = listings.flatMap(({ symbol, title }, index) => [
    ...(title === undefined ? [] : [`<dei:Security12bTitle contextRef="l-${index}">${title}</dei:Security12bTitle>`]),
    ...(symbol === undefined ? [] : [`<dei:TradingSymbol contextRef="l-${index}">${symbol}</dei:TradingSymbol>`]),
  ])
  const stated = counts.map(({ shares }, index) =>
    `<dei:EntityCommonStockSharesOutstanding contextRef="n-${index}" decimals="-6" id="f-${index}" unitRef="shares">` +
    `${shares}</dei:EntityCommonStockSharesOutstanding>`
  )
  return `<?xml version="1.0" encoding="utf-8"?>
<xbrl xmlns="http://www.xbrl.org/2003/instance" xmlns:dei="http://xbrl.sec.gov/dei/2025"
  xmlns:link="http://www.xbrl.org/2003/linkbase" xmlns:us-gaap="http://fasb.org/us-gaap/2025"
  xmlns:xbrldi="http://xbrl.org/2006/xbrldi" xmlns:xlink="http://www.w3.org/1999/xlink" xml:lang="en-US">
  <link:schemaRef xlink:href="acme-20260331.xsd" xlink:type="simple"/>
${contexts.join("")}  <unit id="shares"><measure>shares</measure></unit>
  <dei:DocumentType contextRef="c-1" id="f-0">10-Q</dei:DocumentType>
  ${[...listed, ...stated].join("\n  ")}
  ${more}
</xbrl>
`
}

/** Alphabet's share classes with invented counts. Class B is not listed on an exchange. */
export const alphabetClasses: ReadonlyArray<MadeCount> = [
  { member: "us-gaap:CommonClassAMember", shares: 5_830_000_000 },
  { member: "us-gaap:CommonClassBMember", shares: 841_000_000 },
  { member: "goog:CapitalClassCMember", shares: 5_440_000_000 },
]

export const alphabetListings: ReadonlyArray<MadeListing> = [
  { member: "us-gaap:CommonClassAMember", title: "Class A Common Stock, $0.001 par value", symbol: "GOOGL" },
  { member: "goog:CapitalClassCMember", title: "Class C Capital Stock, $0.001 par value", symbol: "GOOG" },
  { member: "goog:SeniorNotes2.500DueMember", title: "2.500% Senior Notes due 2029" },
]
