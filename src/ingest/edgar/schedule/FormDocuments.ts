/**
 * Determines which filings have documents to download in addition to their entries in the company's filing list. These
 * are ownership forms and registration statements.
 */
import { buildFilingFolderUrl, buildFilingXmlUrl } from "../fetch/EdgarUrls.ts"
import type { IngestedDataset } from "./IngestedDatasets.ts"
import { isOwnershipForm, isSchedule13 } from "../read/OwnershipRows.ts"
import { isRegistrationStatement } from "../read/RegistrationRows.ts"
import type { FormFiling } from "../store/IngestWork.ts"

/** No filing before this day has a fee exhibit in XBRL. */
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

/** Returns the dataset that needs the filing's document, or undefined if none does. */
export const findFormDataset = (filing: FormFiling): IngestedDataset | undefined => {
  const kind = findFormKind(filing)
  return kind === undefined ? undefined : kind === "fees" ? "registrations" : "ownership"
}

/**
 * Returns the URL of the document to request first. For fees, this is the folder's file listing, because the exhibit's
 * file name varies.
 */
export const buildFormUrl = (cik: string, filing: FormFiling) => {
  const { accession, primaryDocument } = filing
  const kind = findFormKind(filing)
  if (kind === "fees") return `${buildFilingFolderUrl(cik, accession)}index.json`
  return kind === "header"
    ? `${buildFilingFolderUrl(cik, accession)}${accession}.hdr.sgml`
    : buildFilingXmlUrl(cik, accession, primaryDocument)
}
