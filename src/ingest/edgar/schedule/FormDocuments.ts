/**
 * Determines which filings have documents that the ingest downloads in addition to the company's filing list, and their
 * URLs. These filings are ownership forms and registration statements.
 */
import { buildFilingFolderUrl, buildFilingXmlUrl } from "../fetch/EdgarUrls.ts"
import type { IngestedDataset } from "./IngestedDatasets.ts"
import { isOwnershipForm, isSchedule13 } from "../read/OwnershipRows.ts"
import { isRegistrationStatement } from "../read/RegistrationRows.ts"
import type { FormFiling } from "../store/IngestWork.ts"

/** Filing date of the first fee exhibits in XBRL. No registration statement filed before this day has one. */
export const firstFeeDay = "2024-01-01"

/**
 * Returns which document of a filing is read, or undefined if none is:
 * - `xml`: the XML document of a Form 3, 4, or 5, or of a Schedule 13D or 13G
 * - `header`: the SGML header of an older Schedule 13D or 13G, whose document is HTML or plain text
 * - `fees`: the fee exhibit of a registration statement
 */
export const findFormKind = ({ fileNumber, filingDate, form, primaryDocument }: FormFiling) => {
  if (isRegistrationStatement(form)) return filingDate >= firstFeeDay && fileNumber !== null ? "fees" : undefined
  if (!isOwnershipForm(form) && !isSchedule13(form)) return undefined
  if (primaryDocument.endsWith(".xml")) return "xml"
  return form.startsWith("SC 13") ? "header" : undefined
}

/** Returns the dataset that is built from the filing's document, or undefined if there is none. */
export const findFormDataset = (filing: FormFiling): IngestedDataset | undefined => {
  const kind = findFormKind(filing)
  if (kind === undefined) return undefined
  return kind === "fees" ? "registrations" : "ownership"
}

/**
 * Returns the URL of the document of a filing that is requested first. For a registration statement, this is the file
 * listing of the filing's folder, because the name of the fee exhibit varies.
 */
export const buildFormUrl = (cik: string, filing: FormFiling) => {
  const { accession, primaryDocument } = filing
  const kind = findFormKind(filing)
  if (kind === "fees") return `${buildFilingFolderUrl(cik, accession)}index.json`
  return kind === "header"
    ? `${buildFilingFolderUrl(cik, accession)}${accession}.hdr.sgml`
    : buildFilingXmlUrl(cik, accession, primaryDocument)
}
