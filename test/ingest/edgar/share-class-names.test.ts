/** Tests how class names on cover pages are interpreted (decision 0103). Most of the names come from real filings. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { readClassName } from "../../../src/ingest/edgar/read/ShareClassNames.ts"
import { chooseMembers } from "../../../src/ingest/edgar/read/ShareClasses.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const names: { readonly [kind: string]: ReadonlyArray<string> } = {
  common: [
    "CommonStock",
    "CommonShares",
    "COMMONSTOCK",
    "CommonClassA",
    "ClassACommonStock",
    "ClassB1CommonStock",
    "Class1ConvertibleCommon",
    "ConvertibleCommonStock",
    "NonvotingCommonStock",
    "ClassCNonVotingCommonStock",
    "ClassASpecialCommonStock",
    "SeriesCCommonStock",
    "SeriesAConvertibleCommonStock",
    "OrdinaryShares",
    "ClassYOrdinaryShares",
    "SharesOfCommonStock",
    "CommonSharesOfBeneficialInterest",
    "CommonStock0.01ParValue",
    "OrdinarySharesNominalValueOfEUR0.01Each",
    // Names that begin with the company's name.
    "LibertyFormulaOneGroupCommonClassA",
    "PreferredApartmentCommunitiesCommonStock",
    "OptionCareHealthCommonStock",
    "UnitCorpCommonStock",
    "TotalEnergiesOrdinaryShares",
    "PublicStorageCommonShares",
    "BankOfAmericaCommonStock",
    "JohnsonAndJohnsonCommonStock",
    // Names that mention rights attached to each share, shares that are not outstanding, and shares in units.
    "CommonStockAndPreferredStockPurchaseRights",
    "CommonStockIncludingPreferredStockPurchaseRights",
    "CommonStockWithAssociatedRights",
    "OrdinarySharesExcludingTreasuryShares",
    "CommonSharesNetOfTreasuryShares",
    "CommonStockExcludingSharesHeldInTreasury",
    "ClassAOrdinarySharesIncludedAsPartOfTheUnits",
  ],
  class: [
    "ClassB",
    "ClassBShares",
    "ClassAA",
    "A",
    "AShares",
    "BShares",
    "CapitalClassC",
    "CapitalStockClassB",
    "ClassHStock",
    "ClassAVotingShares",
    "ClassBNonVotingShares",
    "ClassALimitedVotingShares",
    "ClassBRestrictedVotingShares",
    "SubordinateVotingShares",
    "MultipleVotingShares",
    "ClassAExchangeableSubordinateVotingShares",
  ],
  series: ["SeriesAShares", "SeriesBStock"],
  shares: ["Shares", "CapitalStock", "EquityShares", "RegisteredShares", "SharesOfBeneficialInterest", "VotingShares"],
  commonUnit: ["CommonUnits", "SubordinatedUnits", "CommonLimitedPartnerUnits", "CommonUnitsRepresentingInterests"],
  classUnit: ["ClassAUnits", "UnitsClassB"],
  unit: [
    "Units",
    "Subunits",
    "UnitsOfBeneficialInterest",
    "LimitedPartnershipUnits",
    "GeneralPartnerUnits",
    "OperatingPartnershipCommonUnits",
    "LlcCommonUnits",
    "BdUnits",
    "LimitedLiabilityCompanyInterests",
    "UnitsEachConsistingOfOneShareOfClassACommonStockAndOneHalfOfOneRedeemableWarrant",
  ],
  depositaryUnit: ["DepositaryUnits", "DepositaryUnitsRepresentingLimitedPartnerInterests"],
  total: [
    "TotalShares",
    "SharesTotal",
    "AllClasses",
    "AllClassesOfCommonStock",
    "ClassOfStock",
    "ClassesOfShareCapital",
  ],
  other: [
    "PreferredStock",
    "PreferredClassA",
    "PrefShares",
    "SeriesAPfd",
    "SeriesAConvertible",
    "FirstPreferredSharesSeries1",
    "SeriesCMandatoryConvertiblePreferredStock",
    "MandatoryConvertibleShares",
    "AmcPreferredEquityUnits",
    "PublicWarrants",
    "PublicWts",
    "CommonStockPurchaseWarrants",
    "AcmeCommonStockWarrants",
    "WarrantsTranche2",
    "WarrantsToPurchaseClassACommonStock",
    "RedeemableWarrantsEachWholeWarrantExercisableForOneClassAOrdinaryShare",
    "RightsToReceiveOneTenthOfOneOrdinaryShare",
    "CVR",
    "ContingentValueRights",
    "SeniorNotes2.500Due",
    "JuniorSubordinatedDebt",
    "EmployeeStockOption",
    "RestrictedStockUnits",
    "RestrictedStockUnitsRSU",
    "ProfitSharingCertificates",
    "Scrip",
    "AmericanDepositaryShares",
    "AMERICANDEPOSITARYSHARES",
    "Americandepositoryreceipts1",
    "AmericanDepositarySharesEachRepresentingTwoOrdinaryShares",
    "ADS",
    "Adr",
    "ClassAADSs",
    "ClassAAds",
    "CDIs",
    "ChessDepositaryInterests",
    "TreasuryStockCommon",
    "SpecialVotingShares",
    "ClassASpecialVotingShares",
    "SpecialClassAVotingStock",
    "GoldenShares",
    "DeferredShares",
    "ADeferredShares",
    "EuroDeferredShares",
  ],
  unknown: [
    "Beads",
    "UnitedClass",
    "SecurityTwo",
    "SeriesA",
    "A5.25SeriesA",
    "ManagementShares",
    "InvestmentShares",
    "SpecialShares",
    "CapitalSecurities",
    "TrustOriginatedSecurities",
    "NonVotingEquitySecurities",
    "OptionCareHealth",
    "PreferredApartmentCommunities",
    "AcmeClassAShares",
    "ClassBConvertibleShares",
    "CommonSharesAcme",
  ],
  unclear: [
    "CommonStockAcme",
    "RestrictedStock",
    "RestrictedCommonStock",
    "RedeemableClassACommonStock",
    "ClassACommonStockSubjectToRedemption",
    "FounderShares",
    "PublicShares",
    "EarnoutShares",
    "ExchangeableStock",
    "ClassAExchangeableShares",
    "NewYorkRegistryShares",
    "DeferredOrdinaryShares",
    "SpecialVotingCommonStock",
    "CommonStockHeldByNonAffiliates",
    "CommonStockHeldInTreasury",
    "CommonStockUnderlyingWarrants",
    "CommonStockIssuableUponConversionOfPreferredStock",
    "OrdinarySharesRepresentedByAmericanDepositaryShares",
    "OrdinarySharesAmericanDepositaryShares",
    "ClassAOrdinarySharesIssuedForBulkIssuanceOfADSs",
    "OrdinarySharesExcludingFounderShares",
    "CommonStockAndWarrants",
    "CommonStockAndPreferredStock",
    "PreferredStockAndCommonStock",
    "CommonStockPreferredStockPurchaseRights",
    "ClassAAndClassB",
    "PreferredCommonStock",
    "WarrantsCommonStock",
  ],
}

describe("The name of a class", () => {
  for (const [kind, examples] of Object.entries(names)) {
    it(`is of the kind ${kind} (decision 0103)`, () => {
      assert.deepStrictEqual(
        examples.map((name) => [name, readClassName(name).kind]),
        examples.map((name) => [name, kind]),
      )
    })
  }

  it("is that of the same class in other words (decision 0103)", () => {
    const identify = (...of: ReadonlyArray<string>) => new Set(of.map((name) => readClassName(name).identity))
    assert.lengthOf(Array.from(identify("CommonClassA", "ClassACommonStock", "ClassAOrdinaryShares", "ClassA")), 1)
    assert.lengthOf(Array.from(identify("CommonStock", "NonvotingCommonStock", "ClassACommonStock", "SeriesA")), 4)
    assert.lengthOf(Array.from(identify("LibertyLiveSeriesACommonStock", "LibertyFormulaOneSeriesACommonStock")), 2)
  })
})

/**
 * The members on a cover page, and the members whose counts are added up. The latter is undefined if the cover page
 * cannot be interpreted.
 */
const covers: ReadonlyArray<readonly [string, string, string | undefined]> = [
  ["special voting shares", "CommonShares SpecialVotingShares", "CommonShares"],
  ["exchangeable shares", "CommonStock ExchangeableStock SpecialVotingStock", undefined],
  ["units of its partnership", "CommonStock CommonUnits", "CommonStock"],
  ["units of its operating company", "CommonClassA CommonClassB LlcCommonUnits", "CommonClassA CommonClassB"],
  ["founder shares", "CommonClassA CommonClassB FounderShares", undefined],
  ["registry shares", "OrdinaryShares NewYorkRegistryShares", undefined],
  ["other shares without a class", "CommonStock RegisteredShares", undefined],
  ["a series", "CommonStock SeriesAShares", undefined],
  ["the same shares twice", "CommonStock OrdinaryShares", undefined],
  ["the same class twice", "CommonClassA ClassACommonStock", undefined],
  ["a class of another kind", "CommonStock NonvotingCommonStock ClassB", "CommonStock NonvotingCommonStock ClassB"],
  ["only series", "SeriesAShares SeriesBShares", "SeriesAShares SeriesBShares"],
  ["only shares without a class", "EquityShares AmericanDepositaryShares", "EquityShares"],
  ["common and subordinated units", "CommonUnits SubordinatedUnits", "CommonUnits SubordinatedUnits"],
  ["common units and those of a class", "CommonUnits ClassBUnits", undefined],
  ["common units and those of its general partner", "CommonUnits GeneralPartnerUnits", undefined],
  ["only classes of units", "ClassAUnits ClassBUnits", "ClassAUnits ClassBUnits"],
  ["only depositary units", "DepositaryUnits PreferredUnits", "DepositaryUnits"],
  ["depositary units beside units", "CommonUnits DepositaryUnits", "CommonUnits"],
  ["units that may contain its shares", "ClassA Units", undefined],
  [
    "the name of a preferred kind in its own",
    "PreferredApartmentCommunitiesCommonStock CommonClassM",
    "PreferredApartmentCommunitiesCommonStock CommonClassM",
  ],
]

const choose = (members: ReadonlyArray<string>) => {
  const chosen = chooseMembers(members.map((member) => `acme:${member}Member`), () => [])
  return typeof chosen === "string"
    ? undefined
    : chosen.added.map((member) => member.replace(/^acme:|Member$/g, "")).join(" ")
}

describe("A cover", () => {
  it.each(covers)("with %s has the count of its common shares, or none: %s (decision 0103)", (_, members, added) => {
    assert.strictEqual(choose(members.split(" ")), added)
    assert.deepStrictEqual(
      choose(members.split(" ").toReversed())?.split(" ").toSorted(),
      added?.split(" ").toSorted(),
    )
  })
})

// ----------------------------------------------------------------------------------------------------------------
// Random names
// ----------------------------------------------------------------------------------------------------------------

const oneOf = <const A extends ReadonlyArray<string>>(words: A) => Schema.Literals(words)
const several = <S extends Schema.Top>(word: S, most: number) => Schema.Array(word).check(Schema.isMaxLength(most))

/** Words that do not affect the kind of a class. */
const Empty = oneOf([
  "Voting",
  "Nonvoting",
  "Registered",
  "Participating",
  "Issued",
  "Outstanding",
  "NoParValue",
  "Capital",
])
const Company = oneOf(["Acme", "Liberty", "Apartment", "Health", "Media", "Street", "Group"])
/** Words that indicate a different kind of security, or only part of a class. */
const Other = oneOf([
  "Preferred",
  "Pref",
  "Warrants",
  "Wts",
  "Rights",
  "Notes",
  "Options",
  "Depositary",
  "ADS",
  "Units",
  "Treasury",
  "Golden",
  "Deferred",
  "Founder",
  "Restricted",
  "Redeemable",
  "Exchangeable",
  "Underlying",
  "HeldBy",
  "SubjectTo",
  "RepresentedBy",
  "SpecialVoting",
])
const Core = oneOf([
  "Common",
  "Ordinary",
  "ClassA",
  "ClassBCommon",
  "SeriesAPreferred",
  "SeriesA",
  "Special",
  "Treasury",
])

/** A random class name as a list of words. The words may be joined. */
const RandomName = Schema.Struct({
  company: several(Company, 2),
  core: Core,
  empty: several(Empty, 3),
  noun: oneOf(["Stock", "Shares", "Units", "Warrants"]),
})

/** Rotates the words to the left by the given number of positions. */
const rotate = <A>(words: ReadonlyArray<A>, places: number) => {
  const at = words.length === 0 ? 0 : places % words.length
  return [...words.slice(at), ...words.slice(0, at)]
}

const Place = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100 }))

describe("Random names", () => {
  it.prop("say the same if the order of their words, or of words without a meaning, changes (decision 0103)", [
    RandomName,
    Place,
  ], ([{ company, core, empty, noun }, places]) => {
    const modifiers = [core, ...empty]
    const expected = readClassName([...company, ...modifiers, noun].join("")).kind
    assert.strictEqual(readClassName([...company, ...rotate(modifiers, places), noun].join("")).kind, expected)
    assert.strictEqual(readClassName([...company.toReversed(), ...modifiers, noun].join("")).kind, expected)
    assert.strictEqual(readClassName([...company, ...modifiers, "NoParValue", noun].join("")).kind, expected)
  }, { arbitrary: { runs: getInputCount(2_000) } })

  it.prop("never add more shares with a word that says another kind (decision 0103)", [RandomName, Other, Place], (
    [{ company, core, empty, noun }, other, places],
  ) => {
    const words = [...company, core, ...empty, noun]
    const at = places % (words.length + 1)
    const isAdded = (changed: ReadonlyArray<string>) =>
      choose(["CommonClassM", changed.join("")])?.split(" ").includes(changed.join("")) === true
    assert.isTrue(isAdded(words) || !isAdded([...words.slice(0, at), other, ...words.slice(at)]), words.join(""))
  }, { arbitrary: { runs: getInputCount(5_000) } })

  it.prop("of companies are no common shares (decision 0103)", [several(Company, 3), oneOf(["", "Stock", "Shares"])], (
    [company, noun],
  ) => {
    const name = [...company, noun].join("")
    if (company.length > 0) assert.isUndefined(choose([name]), name)
  }, { arbitrary: { runs: getInputCount(500) } })
})
