/** Tests how security titles, as filers type them, are classified by the kind of security (decision 0100). */
import { assert, describe, it } from "@effect/vitest"
import { readNatureOfOwnership } from "../../../src/ingest/edgar/read/NatureOfOwnership.ts"
import {
  classifySharesByTitle,
  makeIssuerNameRemover,
  makeSecurityIdentifier,
} from "../../../src/ingest/edgar/read/SecurityTitles.ts"
import { ownershipRecordings } from "./OwnershipRecordings.ts"

const titles: { readonly [kind: string]: ReadonlyArray<string> } = {
  common: [
    "Common Stock",
    "COMMON STOCK",
    "common stock",
    "Common",
    "Common Stk",
    "COM STK",
    "COM",
    "Com. Stock",
    "Cmn Stock",
    "Common Stock, par value $0.001 per share",
    "Common Stock, $0.0001 par value",
    "Common stock, no par value",
    'Common Stock, par value $0.0001 per share (the "Shares")',
    "Common Stock (restricted stock units)",
    "Common Stock (401(k) Plan)",
    "Common Stock, and associated Preferred Stock Purchase Rights",
    "Common Stock - Restricted",
    "Common Stock Purchased Under Rights Offering",
    "Common Shares",
    "Common Shares, without par value",
    "Common Shares of Beneficial Interest",
    "Common Shares of Beneficial Interest, par value $0.001 per share",
    "Shares of Beneficial Interest",
    "Class A Common Stock",
    "Class B Common Stock, $0.01 par value",
    "Class A common shares",
    "Class V Common Stock",
    "Class A Common",
    "Cl A Common Stock",
    "Cl. B Shares",
    "CL A COM",
    "Class B Convertible Common Stock",
    "Convertible Common Stock",
    "Series A Common Stock",
    "Series C Liberty Formula One Common Stock",
    "Voting Common Stock",
    "Non-Voting Common Stock",
    "Nonvoting Common Shares",
    "Capital Stock",
    "Class A Capital Stock",
    "Class C Capital Stock",
    "Class C Capital Stock, par value $0.001",
    "Tracking Stock",
    "Ordinary Shares",
    "Ordinary Share",
    "ORDINARY SHARES, PAR VALUE $0.0001 PER SHARE",
    "Class A Ordinary Shares",
    "Class C Ordinary Shares",
    "Class A ordinary shares, nominal value €0.01",
    "Ord Shares",
    "Registered Shares",
    "Registered Shares, par value CHF 0.10",
    "Class A Shares",
    "Class B Stock",
    "Subordinate Voting Shares",
    "Subordinate Voting Shares, no par value",
    "Class B Subordinate Voting Shares",
    "Class A Exchangeable Subordinate Voting Shares",
    "Multiple Voting Shares",
    "Class A Limited Voting Shares",
    "Restricted Voting Shares",
    "Restricted Stock",
    "Restricted Stock Award",
    "Restricted Shares",
  ],
  preferred: [
    "Preferred Stock",
    "Series E Preferred Stock",
    "6.5% Series A Cumulative Preferred Stock",
    "Series A Convertible Preferred Stock",
    "Convertible Preference Shares",
    "Class B Preferred Shares",
    "Series B Cumulative Redeemable Pref Shares",
    "Preferred Stock convertible into Common Stock",
  ],
  other: [
    "American Depositary Shares",
    "American Depositary Shares, each representing two Ordinary Shares",
    "ADSs",
    "ADS",
    "Global Depositary Receipts",
    "Depositary Shares, each representing 1/1000th of a share of Preferred Stock",
    "Common Units",
    "Common Units representing limited partner interests",
    "Class A Units",
    "Limited Partnership Units",
    "LTIP Units",
    "Common Limited Partnership Interests",
    "Restricted Stock Units",
    "RSUs",
    "Deferred Share Units",
    "Phantom Stock",
    "Common Stock Equivalents",
    "Common Stock Purchase Warrants",
    "Warrants",
    "Stock Option (Right to Buy)",
    "Stock options (right to buy)",
    "Preferred Stock Purchase Rights",
    "Stock Appreciation Rights",
    "Contingent Value Rights",
    "6.00% Convertible Senior Notes due 2030",
    "Exchangeable Shares",
    "Special Voting Shares",
    "Common Stock Fund",
    "Voting Trust Certificates",
  ],
  undefined: [
    "",
    "See Footnote 1",
    "Deferred Stock",
    "Series B Stock",
    "Performance Shares",
    "Ordinary Shares represented by American Depositary Shares",
    "Common Stock, held in Certificate form",
    "Common Stock/Restricted Stock Units",
    "Common Stock and Restricted Stock Units",
    "Common Stock, including RSUs",
    "Common Stock, Restricted Stock Units",
    "Common Stock issuable upon exercise of warrants",
    "Securities of the Issuer",
    "Common Stock & Preferred Stock",
    "Cumulative Preferred and Common Stock",
    "Common stock, par value $0.01 per share and Series A Preferred",
    "Common Stock issuable upon conversion of Series A Preferred Stock",
    "Common Stock, convertible into Preferred",
    "Preferred Apartment Communities Common Stock",
  ],
}

describe("The title of a security", () => {
  for (const [kind, examples] of Object.entries(titles)) {
    it(`names shares of the kind ${kind} (decision 0100)`, () => {
      assert.deepStrictEqual(
        examples.map((title) => [title, String(classifySharesByTitle(title))]),
        examples.map((title) => [title, kind]),
      )
    })
  }

  it("is recognized in every recorded filing (decision 0100)", () => {
    const recorded = ownershipRecordings.flatMap(({ xml }) =>
      Array.from(
        xml.matchAll(/<securityTitle>\s*<value>([^<]*)<|<securitiesClassTitle>([^<]*)</g),
        ([, security, schedule]) => security ?? schedule ?? "",
      )
    )
    assert.isAbove(recorded.length, 60)
    assert.deepStrictEqual(recorded.filter((title) => classifySharesByTitle(title) === undefined), [])
  })
})

describe("The title of a security", () => {
  it("is read without the name of the issuer, whose words may look like a security (decision 0100)", () => {
    const common = [
      ["UNIT CORP", "Unit Corporation Common Stock"],
      ["Unit Corp /DE/", "Common Stock of Unit Corp."],
      ["Warrant Technologies, Inc.", "Warrant Technologies common stock, par value $0.01"],
      ["OPTIONS MEDIA GROUP HOLDINGS, INC.", "Options Media Group Common Stock"],
      ["Rights Management Inc", "RIGHTS MANAGEMENT, INC. COMMON STOCK"],
      ["Preferred Apartment Communities Inc", "Preferred Apartment Communities Common Stock"],
    ] as const
    for (const [issuer, title] of common) {
      assert.strictEqual(classifySharesByTitle(makeIssuerNameRemover(issuer)(title)), "common", title)
    }
    const kept = [
      ["Unit Corp", "Common Units"],
      ["Unit Corp", "Unit"],
      ["Acme Inc", "Series A Preferred Stock of Acme OpCo"],
      ["The Company, Inc.", "Common Stock of the Company"],
      ["", "Common Stock"],
      ["Acme ".repeat(100), "Common Stock"],
    ] as const
    for (const [issuer, title] of kept) assert.strictEqual(makeIssuerNameRemover(issuer)(title), title)
  })
})

/** Lists of titles. Within each list, all titles refer to different securities. */
const differentSecurities: ReadonlyArray<ReadonlyArray<string>> = [
  [
    "Series A Preferred Stock",
    "Series A-1 Preferred Stock",
    "Series A-2 Preferred Stock",
    "Series A-1A Preferred Stock",
  ],
  ["Series A–1 Preferred Stock", "Series A–2 Preferred Stock", "Series A Preferred Stock"],
  ["Series A.1 Preferred Stock", "Series A.2 Preferred Stock", "Series A Preferred Stock"],
  ["Series A 1 Preferred Stock", "Series A 2 Preferred Stock", "Series A Preferred Stock"],
  ["Series A/1 Preferred Stock", "Series A/2 Preferred Stock"],
  ["Series A1 Preferred Stock", "Series A2 Preferred Stock", "Series A Preferred Stock"],
  ["Series A-1A Preferred Stock", "Series A-1B Preferred Stock"],
  ["Series A-A Preferred Stock", "Series A-B Preferred Stock", "Series A Preferred Stock"],
  ["Series B-1-A Preferred Stock", "Series B-1-B Preferred Stock", "Series B-1 Preferred Stock"],
  ["Series A Preferred Stock (2024)", "Series A Preferred Stock (2025)"],
  ["Series A Preferred Stock Tranche 1", "Series A Preferred Stock Tranche 2"],
  ["Series A Junior Preferred Stock", "Series A Senior Preferred Stock", "Series A Preferred Stock"],
  ["Series A' Preferred Stock", "Series A Preferred Stock"],
  ["Series A Prime Preferred Stock", "Series A Preferred Stock"],
  ["A Ordinary Shares", "B Ordinary Shares", "Ordinary Shares"],
  ["Ordinary A Shares", "Ordinary B Shares", "Ordinary Shares"],
  ["Common A Stock", "Common B Stock", "Common Stock"],
  ["S Common Stock", "Common Stock"],
]

/** Lists of titles. Within each list, all titles refer to the same security. */
const equalSecurities: ReadonlyArray<ReadonlyArray<string>> = [
  ["Common Stock", "Common Stock, par value $0.001", "COMMON STOCK", "Common Share(s)", "Shares of Common Stock"],
  ["Class A Common Stock", "Common Stock, Class A", "Cl. A Common Stock", 'Class "A" Common Stock', "Class 'A' Common"],
  ["Series A Preferred Stock", "6.5% Series A Cumulative Preferred Stock", "Series A Convertible Preferred Stock"],
  ["Series A-1 Preferred Stock", "Series A–1 Preferred Stock", "Preferred Stock, Series A-1, $0.01 par value"],
]

describe("The title of a security", () => {
  const identify = makeSecurityIdentifier("Acme Inc.")

  it.each(differentSecurities)("differs from that of another class or series: %s (decision 0100)", (...titles) => {
    assert.lengthOf(Array.from(new Set(titles.map((title) => identify(title).name))), titles.length, titles.join(", "))
  })

  it.each(equalSecurities)("is recognized in other words: %s (decision 0100)", (...titles) => {
    assert.lengthOf(Array.from(new Set(titles.map((title) => identify(title).name))), 1, titles.join(", "))
  })
})

describe("The nature of ownership", () => {
  it("is recognized in another spelling, but a letter of a name counts (decision 0100)", () => {
    const wordsOf = (...texts: ReadonlyArray<string>) => new Set(texts.map((text) => readNatureOfOwnership(text).words))
    assert.lengthOf(Array.from(wordsOf("By Trust", "By trust.", "Trust", "By the Trust", "Trust (1)", "Trust(s)")), 1)
    assert.lengthOf(Array.from(wordsOf("By Trust S", "By Trust", "By Trust T", "By S Trust II")), 4)
    assert.lengthOf(Array.from(wordsOf("By S Corp", "By Corp", "By C Corp")), 3)
    assert.lengthOf(Array.from(wordsOf("By Spouse", "By wife", "Spouse's")), 1)
  })
})
