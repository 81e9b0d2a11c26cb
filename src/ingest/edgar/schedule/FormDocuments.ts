/**
 * Decides for which filings documents are downloaded, besides their entries in the company's list: ownership forms and
 * registration statements.
 */
import { buildFilingFolderUrl, buildFilingXmlUrl } from "../fetch/EdgarUrls.ts"
import type { IngestedDataset } from "./IngestedDatasets.ts"
import { isOwnershipForm, isSchedule13 } from "../read/OwnershipRows.ts"
import { isRegistrationStatement } from "../read/RegistrationRows.ts"
import type { FormFiling } from "../store/IngestWork.ts"

/** No filing dated before this day has a fee exhibit with XBRL. */
export const firstFeeDay = "2024-01-01"

/**
 * Returns which document of a filing is read: `xml`, the XML document of a Form 3, 4 or 5 or of a Schedule 13;
 * `header`, the header of an older Schedule 13, which is HTML or text; `fees`, the fee exhibit of a registration
 * statement. Undefined for other filings.
 */
export const findFormKind = ({ fileNumber, filingDate, form, primaryDocument }: FormFiling) => {
  if (isRegistrationStatement(form)) return filingDate >= firstFeeDay && fileNumber !== null ? "fees" : undefined
  if (!isOwnershipForm(form) && !isSchedule13(form)) return undefined
  if (primaryDocument.endsWith(".xml")) return "xml"
  return form.startsWith("SC 13") ? "header" : undefined
}

/** Returns the dataset for which the filing's document is read; undefined if none is read. */
export const findFormDataset = (filing: FormFiling): IngestedDataset | undefined => {
  const kind = findFormKind(filing)
  return kind === undefined ? undefined : kind === "fees" ? "registrations" : "ownership"
}

/**
 * Returns the URL of the document that is requested first. For fees, this is the list of the files in the filing's
 * folder, because the name of the exhibit varies.
 */
export const buildFormUrl = (cik: string, filing: FormFiling) => {
  const { accession, primaryDocument } = filing
  const kind = findFormKind(filing)
  if (kind === "fees") return `${buildFilingFolderUrl(cik, accession)}index.json`
  return kind === "header"
    ? `${buildFilingFolderUrl(cik, accession)}${accession}.hdr.sgml`
    : buildFilingXmlUrl(cik, accession, primaryDocument)
}
