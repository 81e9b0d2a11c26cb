/**
 * Decodes the SGML headers of Schedules 13D and 13G filed before December 2024, when the documents were HTML or plain
 * text. A header identifies the issuer and the filers, but contains no amounts. Addresses and telephone numbers are
 * never read.
 */
import { Result } from "effect"
import {
  findHolderDoubts,
  getReadingValues,
  type OwnershipHolders,
  readRequiredElement,
  unknownHolding,
} from "./OwnershipHolders.ts"
import { readCikElement, readNameElement } from "./XmlValues.ts"
import { findChildElements, findOnlyChildElement, readElementText, type XmlElement, xmlLimits } from "./XmlDocument.ts"

interface OpenElement extends XmlElement {
  readonly children: Array<XmlElement>
}

/** Matches a line with a tag, such as `<CIK>0000914156`, `<COMPANY-DATA>`, or `</COMPANY-DATA>`. */
const tagPattern = /^<(\/?)([A-Z][A-Z0-9-]*)>(.*)$/

/**
 * Parses a header (`<accession>.hdr.sgml`) and returns its root element, `SEC-HEADER`. In SGML, only elements with
 * child elements have end tags. The value of any other element is the rest of its line. Fails if the tags are not
 * properly nested or if the end of the header is missing.
 */
export const parseSgmlHeader = (text: string): Result.Result<XmlElement, string> => {
  if (text.length > xmlLimits.characters) return Result.fail(`has more than ${xmlLimits.characters} characters`)
  const lines = text.split(/\r?\n/).flatMap((line) => {
    const [, slash, name = "", value = ""] = tagPattern.exec(line.trim()) ?? []
    return slash === undefined ? [] : [{ isEnd: slash === "/", name, value }]
  })
  /** Names of the elements that have child elements, that is, those with an end tag somewhere in the header. */
  const parents = new Set(["SEC-HEADER", ...lines.flatMap(({ isEnd, name }) => isEnd ? [name] : [])])
  const makeElement = (name: string, text: string): OpenElement => ({
    name,
    namespace: "",
    attributes: {},
    children: [],
    text,
  })
  // A nameless element above the root makes the root a child like any other.
  const top = makeElement("", "")
  /** The elements that have not been closed yet, outermost first. */
  const open = [top]
  for (const { isEnd, name, value } of lines) {
    if (isEnd) {
      if (open.pop()?.name !== name || open.length === 0) return Result.fail("is not a well-formed header")
      continue
    }
    const element = makeElement(name, value.replaceAll("&amp;", "&"))
    open.at(-1)?.children.push(element)
    if (parents.has(name)) open.push(element)
    if (open.length > xmlLimits.depth) return Result.fail(`has more than ${xmlLimits.depth} levels of elements`)
  }
  const header = findOnlyChildElement(top, "SEC-HEADER")
  return open.length === 1 && header !== undefined ? Result.succeed(header) : Result.fail("is not a complete header")
}

const findCompanyData = (company: XmlElement | undefined) =>
  findOnlyChildElement(company, "COMPANY-DATA") ?? findOnlyChildElement(company, "OWNER-DATA")

const readFiler = (element: XmlElement) => {
  const data = findCompanyData(element)
  const readings = {
    owner_name: readRequiredElement(findOnlyChildElement(data, "CONFORMED-NAME"), readNameElement),
    owner_cik: readRequiredElement(findOnlyChildElement(data, "CIK"), readCikElement),
  }
  return { readings, cells: { ...unknownHolding, ...getReadingValues(readings), owner_type: "five_percent_owner" } }
}

/**
 * Decodes a header with the root element `SEC-HEADER`. Returns one row per filer that it lists, with the name and the
 * CIK but without amounts. Fails if the issuer's CIK is not valid.
 */
export const decodeSchedule13Header = (root: XmlElement): Result.Result<OwnershipHolders, string> => {
  const filers = findChildElements(root, "FILED-BY").map(readFiler)
  return Result.all({
    form: Result.succeed(readElementText(findOnlyChildElement(root, "TYPE"))),
    issuerCik: readCikElement(
      findOnlyChildElement(findCompanyData(findOnlyChildElement(root, "SUBJECT-COMPANY")), "CIK"),
    ),
    reportedDate: Result.succeed(null),
    element: Result.succeed("FILED-BY"),
    rows: Result.succeed(filers.map(({ cells }) => cells)),
    isPartial: Result.succeed(false),
    doubts: Result.succeed(findHolderDoubts(filers.map(({ readings }) => readings), {})),
  })
}
