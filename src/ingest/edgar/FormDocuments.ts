/** The filings of which more is read than the entry in the company's list, and the documents that are requested. */
import { buildFilingFolderUrl, buildFilingXmlUrl, type EdgarBaseUrls, edgarBaseUrls } from "./EdgarUrls.ts"
import { isOwnershipForm, isSchedule13 } from "./OwnershipRows.ts"
import type { EdgarFiling } from "./Submissions.ts"

type Form = Pick<EdgarFiling, "accession" | "form" | "primaryDocument">

/**
 * Returns what is read of the filing: the XML of a Form 3, 4 or 5 or of a Schedule 13, or the header of a schedule that
 * is HTML or text. Undefined for other filings.
 */
export const findFormKind = ({ form, primaryDocument }: Omit<Form, "accession">) => {
  if (!isOwnershipForm(form) && !isSchedule13(form)) return undefined
  if (primaryDocument.endsWith(".xml")) return "xml"
  return form.startsWith("SC 13") ? "header" : undefined
}

/** Returns the URL of the document that is requested first. */
export const buildFormUrl = (cik: string, filing: Form, bases: EdgarBaseUrls = edgarBaseUrls) =>
  findFormKind(filing) === "header"
    ? `${buildFilingFolderUrl(cik, filing.accession, bases)}${filing.accession}.hdr.sgml`
    : buildFilingXmlUrl(cik, filing.accession, filing.primaryDocument, bases)
