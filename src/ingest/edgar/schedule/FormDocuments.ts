/** The filings of which more is read than the entry in the company's list, and the documents that are requested. */
import { buildFilingFolderUrl, buildFilingXmlUrl } from "../fetch/EdgarUrls.ts"
import type { IngestedDataset } from "./IngestedDatasets.ts"
import { isOwnershipForm, isSchedule13 } from "../read/OwnershipRows.ts"
import { isRegistrationStatement } from "../read/RegistrationRows.ts"
import type { FormFiling } from "../store/IngestWork.ts"

/** No filing before this day has a fee exhibit with XBRL. */
export const firstFeeDay = "2024-01-01"

/**
 * Returns what is read of the filing: the XML of a Form 3, 4 or 5 or of a Schedule 13, the header of a schedule that is
 * HTML or text, or the fee exhibit of a registration statement. Undefined for other filings.
 */
export const findFormKind = ({ fileNumber, filingDate, form, primaryDocument }: FormFiling) => {
  if (isRegistrationStatement(form)) return filingDate >= firstFeeDay && fileNumber !== null ? "fees" : undefined
  if (!isOwnershipForm(form) && !isSchedule13(form)) return undefined
  if (primaryDocument.endsWith(".xml")) return "xml"
  return form.startsWith("SC 13") ? "header" : undefined
}

/** Returns the dataset whose rows the documents of the filing change. */
export const findFormDataset = (filing: FormFiling): IngestedDataset | undefined => {
  const kind = findFormKind(filing)
  return kind === undefined ? undefined : kind === "fees" ? "registrations" : "ownership"
}

/** Returns the URL of the document that is requested first. For a fee exhibit, this is the list of the folder. */
export const buildFormUrl = (cik: string, filing: FormFiling) => {
  const { accession, primaryDocument } = filing
  const kind = findFormKind(filing)
  if (kind === "fees") return `${buildFilingFolderUrl(cik, accession)}index.json`
  return kind === "header"
    ? `${buildFilingFolderUrl(cik, accession)}${accession}.hdr.sgml`
    : buildFilingXmlUrl(cik, accession, primaryDocument)
}
