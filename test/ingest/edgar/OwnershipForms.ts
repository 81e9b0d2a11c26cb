/** Builds Forms 3, 4 and 5 as XML, for testing rules that no recorded filing exercises. */

/** The issuer's CIK in the generated forms. */
export const formIssuerCik = "0000000042"

const element = (name: string, value: string) => `<${name}><value>${value}</value></${name}>`

/** A table row in a form. Elements without a value are omitted. */
export interface Line {
  readonly title?: string
  readonly held?: string
  readonly nature?: string
  readonly footnotes?: ReadonlyArray<string>
  readonly price?: string
  /** The id of a footnote that stands in for the exercise date. */
  readonly exercise?: string
  readonly traded?: string
  /** `A` if the shares were acquired, `D` if they were disposed of. */
  readonly direction?: string
  /** The transaction code, such as `S` for a sale. */
  readonly code?: string
  readonly underlying?: string
  readonly underlyingTitle?: string
  readonly expiration?: string
  readonly date?: string
}

const writeLine = (name: string, line: Line) => {
  const { code, date, direction, exercise, expiration, footnotes = [], held, nature, price } = line
  const { title = "Common Stock", traded, underlying, underlyingTitle } = line
  const notes = footnotes.map((id) => `<footnoteId id="${id}"/>`).join("")
  return `<${name}>${element("securityTitle", title)}` +
    (price === undefined ? "" : element("conversionOrExercisePrice", price)) +
    (exercise === undefined ? "" : `<exerciseDate><footnoteId id="${exercise}"/></exerciseDate>`) +
    (expiration === undefined ? "" : element("expirationDate", expiration)) +
    (date === undefined ? "" : element("transactionDate", date)) +
    (code === undefined ? "" : `<transactionCoding><transactionCode>${code}</transactionCode></transactionCoding>`) +
    (traded === undefined ? "" : `<transactionAmounts>${element("transactionShares", traded)}` +
      `${direction === undefined ? "" : element("transactionAcquiredDisposedCode", direction)}</transactionAmounts>`) +
    (underlying === undefined
      ? ""
      : `<underlyingSecurity>${
        underlyingTitle === undefined ? "" : element("underlyingSecurityTitle", underlyingTitle)
      }${element("underlyingSecurityShares", underlying)}</underlyingSecurity>`) +
    (held === undefined
      ? ""
      : `<postTransactionAmounts>${element("sharesOwnedFollowingTransaction", held)}</postTransactionAmounts>`) +
    `<ownershipNature>${element("directOrIndirectOwnership", nature === undefined ? "D" : "I")}` +
    `<natureOfOwnership><value>${nature ?? ""}</value>${notes}</natureOfOwnership></ownershipNature></${name}>`
}

export const trade = (line: Line) => writeLine("nonDerivativeTransaction", line)
export const holding = (line: Line) => writeLine("nonDerivativeHolding", line)
export const derivativeTrade = (line: Line) => writeLine("derivativeTransaction", line)
export const derivativeHolding = (line: Line) => writeLine("derivativeHolding", line)

export const owner = (relationship: string, id = "7") =>
  `<reportingOwner><reportingOwnerId><rptOwnerCik>${id}</rptOwnerCik><rptOwnerName>Doe Jane</rptOwnerName>` +
  `</reportingOwnerId><reportingOwnerRelationship>${relationship}</reportingOwnerRelationship></reportingOwner>`

export interface Form {
  readonly type?: string
  readonly period?: string
  readonly issuer?: string
  readonly issuerName?: string
  readonly ownsNothing?: boolean
  readonly owners?: string
  readonly shares?: ReadonlyArray<string>
  readonly derivatives?: ReadonlyArray<string>
}

export const writeForm = (form: Form = {}) => {
  const { derivatives = [], issuer = formIssuerCik, issuerName = "Acme Inc", owners = owner("") } = form
  const { ownsNothing = false, period = "2026-02-19", shares = [], type = "4" } = form
  return `<ownershipDocument><documentType>${type}</documentType><periodOfReport>${period}</periodOfReport>` +
    (ownsNothing ? "<noSecuritiesOwned>1</noSecuritiesOwned>" : "") +
    `<issuer><issuerCik>${issuer}</issuerCik><issuerName>${issuerName}</issuerName></issuer>${owners}` +
    `<nonDerivativeTable>${shares.join("")}</nonDerivativeTable>` +
    `<derivativeTable>${derivatives.join("")}</derivativeTable></ownershipDocument>`
}
