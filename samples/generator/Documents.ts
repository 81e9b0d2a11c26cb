/**
 * Generates a company's SEC filings and press releases, called documents. Each has a key, such as `split:effective`, by
 * which the rows of other tables find it to link to it.
 */
import {
  type EpochDay,
  findNextTradingDay,
  formatDate,
  getSessionDay,
  lastMarketDay,
  lastSessionNumber,
  parseDate,
  toSecondsOfDay,
} from "./Calendar.ts"
import { type FictionalCompany, listSymbolChanges, makeFilingUrl } from "./Companies.ts"
import type { CompanyDocument, CompanyHistory, DocumentDraft, ListingNotice } from "./CompanyHistory.ts"
import type { CapitalRaise, ShelfRegistration } from "./Deals.ts"
import { formatDollarMillions, formatTicksAsDollars } from "./Decimals.ts"
import { newsTopics } from "./NewsTopics.ts"
import type { PriceHistory } from "./PriceSimulation.ts"

/**
 * Returns the value of the `source` column: a link to the given element in each document, or null if there are no
 * documents.
 */
export const makeSource = (urls: ReadonlyArray<string | null>, element: string) => {
  const links = urls.flatMap((url) => url === null ? [] : [`${url}#${element}`])
  return links.length === 0 ? null : links
}

/** Returns the company's filing or press release with the given key, such as `ipo`, or undefined if it has none. */
export const findDocument = ({ documents }: CompanyHistory, key: string) =>
  documents.find((document) => document.key === key)

/** The form type of press releases. It is not an SEC form, because press releases are not filed. */
const newsForm = "news"

/** Returns whether the document is a press release rather than a filing. */
export const isNews = ({ form }: DocumentDraft) => form === newsForm

/** Returns the document's time in seconds since 1970. A document whose time is unknown sorts last on its day. */
const timestampOf = ({ day, time }: DocumentDraft) => day * 86_400 + (time ?? 86_399)

/**
 * Sorts a company's documents by time, and gives each an id that is built like an SEC accession number: filer, year,
 * sequence number. Filings and press releases are numbered separately. The id of a press release contains an `n`.
 */
export const numberDocuments = (
  company: FictionalCompany,
  drafts: ReadonlyArray<DocumentDraft>,
): ReadonlyArray<CompanyDocument> => {
  const counts = { filings: 0, news: 0 }
  return drafts.toSorted((one, other) => timestampOf(one) - timestampOf(other)).map((draft) => {
    const count = isNews(draft) ? ++counts.news : ++counts.filings
    const year = formatDate(draft.day).slice(2, 4)
    const id = `${company.cik}-${year}-${isNews(draft) ? "n" : ""}${String(count).padStart(isNews(draft) ? 5 : 6, "0")}`
    return {
      ...draft,
      id,
      accession: isNews(draft) ? null : id,
      url: isNews(draft) ? `https://example.com/news/${id}` : makeFilingUrl(company, `${id}.htm`),
    }
  })
}

/** Returns the names of the SEC forms that a company files. Foreign issuers use different forms than US companies. */
const formNamesOf = ({ country }: FictionalCompany) =>
  country === "US"
    ? { annual: "10-K", interim: "10-Q", current: "8-K", shelf: "S-3", full: "S-1" }
    : { annual: "20-F", interim: "6-K", current: "6-K", shelf: "F-3", full: "F-1" }

const interimReportDates = [
  "2024-11-21",
  "2025-05-15",
  "2025-08-14",
  "2025-11-13",
  "2026-05-14",
  "2026-08-13",
  "2026-11-12",
]
const annualReportDates = ["2025-03-28", "2026-03-27"]

/** Returns the date of the IPO, or null if the company was already listed or has no prices. */
export const getIpoDay = ({ scenario }: FictionalCompany): EpochDay | null =>
  scenario.firstSession === null || scenario.firstSession === 0 ? null : getSessionDay(scenario.firstSession)

/**
 * Generates annual and quarterly reports. They are filed up to nine days before the usual dates, starting 20 days after
 * the IPO. Companies without prices only file annual reports, and some companies file none. At random, a report has no
 * title, or the time of its filing is unknown.
 */
const periodicReports = (company: FictionalCompany): ReadonlyArray<DocumentDraft> => {
  const random = company.randomFor("periodic")
  const forms = formNamesOf(company)
  const earliestDay = (getIpoDay(company) ?? 0) + 20
  const reports = [
    ...annualReportDates.map((date) => [date, forms.annual]),
    ...interimReportDates.map((date) => [date, forms.interim]),
  ]
  return reports.flatMap(([date = "", form = ""], index): ReadonlyArray<DocumentDraft> => {
    const day = findNextTradingDay(parseDate(date) - random.integer(0, 9))
    const time = random.chance(0.85)
      ? toSecondsOfDay(random.integer(6, 16), random.integer(0, 59)) + random.integer(0, 59)
      : null
    // Companies without prices only file annual reports, which come first in `reports`.
    if (
      day < earliestDay || company.scenario.ownershipData === "none" ||
      (company.scenario.firstSession === null && index > 1)
    ) return []
    const title = random.chance(0.9) ? `${form} of ${company.name}` : null
    return [{ key: `periodic:${index}`, day, time, form, title, tags: [] }]
  })
}

/**
 * The ownership filings for each value of `ownershipData`. Each filing has a form, an approximate date, and the kind of
 * holders it lists.
 */
const ownershipForms = {
  full: [["SC 13G", "2025-02-12", "funds"], ["DEF 14A", "2025-04-25", "all"], ["DEF 14A", "2026-04-24", "all"], [
    "4",
    "2026-09-15",
    "none",
  ]],
  institutions: [["DEF 14A", "2025-04-11", "all"], ["DEF 14A", "2026-04-10", "all"], [
    "SC 13G/A",
    "2026-02-13",
    "funds",
  ]],
  placeholders: [["3", "2025-06-20", "none"], ["SC 13D", "2026-03-06", "none"]],
  none: [],
} as const

/**
 * Generates the filings that list a company's holders, as far as they are filed after the IPO. Their keys are
 * `owners:all:…` if they list all holders, `owners:funds:…` if they list only funds, and `owners:none:…` if they list
 * none; a number follows.
 */
const ownershipFilings = (company: FictionalCompany): ReadonlyArray<DocumentDraft> => {
  const random = company.randomFor("ownership filings")
  return ownershipForms[company.scenario.ownershipData].flatMap(
    ([form, date, holders], index): ReadonlyArray<DocumentDraft> => {
      const day = findNextTradingDay(parseDate(date) + random.integer(-5, 5))
      if (day <= (getIpoDay(company) ?? 0)) return []
      const title = `${form}: holders of ${company.name}`
      return [{
        key: `owners:${holders}:${index}`,
        day,
        time: toSecondsOfDay(16, random.integer(5, 59)),
        form,
        title,
        tags: ["ownership"],
      }]
    },
  )
}

/**
 * Generates the documents for the IPO: the registration statement, 48 days before it, and on the day itself the
 * prospectus and a press release. Returns none for a company that was already listed or has no prices.
 */
const ipoDocuments = (company: FictionalCompany): ReadonlyArray<DocumentDraft> => {
  const day = getIpoDay(company)
  if (day === null) return []
  const form = formNamesOf(company).full
  const title = `${company.name} goes public`
  return [
    { key: "ipo:filed", day: findNextTradingDay(day - 48), time: toSecondsOfDay(15, 2), form, title, tags: ["ipo"] },
    { key: "ipo", day, time: toSecondsOfDay(6, 1), form: "424B4", title, tags: ["ipo"] },
    {
      key: "ipo:news",
      day,
      time: toSecondsOfDay(8),
      form: newsForm,
      title,
      summary: "The first trade is today.",
      tags: ["ipo"],
    },
  ]
}

/** Returns the day on which shares from a private placement are registered for resale. The day may be in the future. */
const resaleRegistrationDay = ({ day }: CapitalRaise) => findNextTradingDay(day + 24)

/**
 * Generates registration statements: for the shelf, for the resale of privately placed shares and, at random, for an
 * offering that is still pending on the last day of the market.
 */
const registrationFilings = (
  company: FictionalCompany,
  deals: ReadonlyArray<CapitalRaise>,
  shelf: ShelfRegistration | null,
): ReadonlyArray<DocumentDraft> => {
  const forms = formNamesOf(company)
  const tags = ["registration"]
  const resales = deals.filter((deal) =>
    (deal.kind === "note" || deal.kind === "preferred") && resaleRegistrationDay(deal) <= lastMarketDay
  )
  return [
    ...(shelf === null ? [] : [{
      key: "shelf",
      day: shelf.filedDay,
      time: toSecondsOfDay(17, 12),
      form: forms.shelf,
      title: "Shelf registration",
      tags,
    }]),
    ...resales.map((deal) => ({
      key: `resale:${deal.index}`,
      day: resaleRegistrationDay(deal),
      time: null,
      form: forms.full,
      title: "Resale by holders",
      tags,
    })),
    ...(company.randomFor("pending").chance(0.2) && company.scenario.firstSession !== null
      ? [{
        key: "pending",
        day: lastMarketDay - 24,
        time: toSecondsOfDay(9, 5),
        form: forms.full,
        title: "Proposed offering",
        tags,
      }]
      : []),
  ]
}

/**
 * Generates the filings that companies must make without a particular event: periodic reports, lists of holders, IPO
 * documents and registration statements.
 */
export const makeMandatoryFilings = (
  company: FictionalCompany,
  deals: ReadonlyArray<CapitalRaise>,
  shelf: ShelfRegistration | null,
): ReadonlyArray<DocumentDraft> => [
  ...periodicReports(company),
  ...ownershipFilings(company),
  ...ipoDocuments(company),
  ...registrationFilings(company, deals, shelf),
]

/**
 * Generates a press release for each price gap that is caused by news and, depending on the topic, an SEC filing. They
 * are published shortly after each other, either on the evening before the gap or on the morning of the gap.
 */
const gapAnnouncements = (company: FictionalCompany, { gapDays }: PriceHistory): ReadonlyArray<DocumentDraft> => {
  const random = company.randomFor("gaps")
  return gapDays.flatMap(({ gap: { startsEveningBefore, session, topic: name } }): ReadonlyArray<DocumentDraft> => {
    if (name === null) return []
    const { form, summary, tags, title } = newsTopics[name]
    const day = getSessionDay(startsEveningBefore ? session - 1 : session)
    const time = startsEveningBefore
      ? toSecondsOfDay(16, random.integer(1, 5))
      : toSecondsOfDay(7, random.integer(0, 59)) + random.integer(0, 59)
    const content = { day, title: `${company.name} ${title}`, summary, tags }
    return [
      { ...content, key: `gap:${session}:news`, time, form: newsForm },
      ...(form === null ? [] : [{
        ...content,
        key: `gap:${session}`,
        time: time + random.integer(60, 900),
        form: formNamesOf(company).current,
      }]),
    ]
  })
}

const dealForm = (company: FictionalCompany, { isFromShelf, kind }: CapitalRaise) =>
  isFromShelf ? "424B5" : kind === "line" ? formNamesOf(company).full : formNamesOf(company).current

const dealNames = {
  offering: "underwritten offering",
  direct: "registered direct offering",
  atm: "at-the-market program",
  line: "equity line",
  note: "convertible notes",
  preferred: "convertible preferred shares",
} as const

const dealTags = {
  offering: "underwritten",
  direct: "registered-direct",
  atm: "atm",
  line: "equity-line",
  note: "convertible-note",
  preferred: "convertible-preferred",
} as const

/**
 * Generates a filing for each capital raise, and a press release for all but the sales at the market (`atm`) and from
 * an equity line (`line`), which happen gradually.
 */
const dealAnnouncements = (
  company: FictionalCompany,
  deals: ReadonlyArray<CapitalRaise>,
): ReadonlyArray<DocumentDraft> =>
  deals.flatMap((deal) => {
    const { day, grossCents, kind, index, shares } = deal
    const content = {
      day,
      title: `${company.name} prices ${formatDollarMillions(grossCents)} ${dealNames[kind]}`,
      summary: `${shares.toLocaleString("en-US")} shares at $${formatTicksAsDollars(deal.priceTicks)}.`,
      tags: ["offering", dealTags[kind]],
    }
    return [
      { ...content, key: `raise:${index}`, time: toSecondsOfDay(8, 15), form: dealForm(company, deal) },
      ...(kind === "atm" || kind === "line"
        ? []
        : [{ ...content, key: `raise:${index}:news`, time: toSecondsOfDay(7, 45), form: newsForm }]),
    ]
  })

/**
 * Generates documents for the steps of a split: the proxy statement before the vote, the approval, and either the
 * withdrawal, or the announcement and the completion. Steps after the last day of the market are omitted.
 */
const splitAnnouncements = (company: FictionalCompany): ReadonlyArray<DocumentDraft> => {
  const { split } = company.scenario
  if (split === undefined) return []
  const { current } = formNamesOf(company)
  /** Returns the document for one step, or no document if the step is not planned or lies in the future. */
  const step = (key: string, session: number | undefined, form: string, title: string): ReadonlyArray<DocumentDraft> =>
    session === undefined || session > lastSessionNumber ? [] : [{
      key,
      day: getSessionDay(session),
      time: toSecondsOfDay(16, 31),
      form,
      title: `${company.name} ${title}`,
      tags: ["split"],
    }]
  const share = `one share for ${split.from}`
  const description = split.from > split.to ? `reverse split, ${share}` : `split, ${split.to} shares for one`
  return [
    ...step("split:vote", split.voteFiled, "DEF 14A", `asks its holders for a ${description}`),
    ...(getSessionDay(split.vote) < lastMarketDay
      ? step("split:approved", split.vote, current, `may make a ${description}`)
      : []),
    ...step("split:withdrawn", split.withdrawn, current, `will not make a ${description}`),
    ...(split.effective === undefined ? [] : [
      ...step("split:announced", split.effective - 6, current, `announces a ${description}`),
      ...step("split:news", split.effective - 6, newsForm, `announces a ${description}`),
      ...step("split:effective", split.effective, current, `has made a ${description}`),
    ]),
  ]
}

/**
 * Generates a filing for each listing notice: for its receipt and, if they happen, for the decision to delist the
 * company, and for the company's return to compliance.
 */
const noticeAnnouncements = (
  company: FictionalCompany,
  notices: ReadonlyArray<ListingNotice>,
): ReadonlyArray<DocumentDraft> =>
  notices.flatMap(({ day, delistingDay, kind, regainedDay }, index) => {
    const { current } = formNamesOf(company)
    const announce = (key: string, announcedDay: EpochDay | null, title: string): ReadonlyArray<DocumentDraft> =>
      announcedDay === null ? [] : [{
        key,
        day: announcedDay,
        time: toSecondsOfDay(16, 12),
        form: current,
        title: `${company.name} ${title}`,
        tags: ["nasdaq"],
      }]
    return [
      ...announce(`notice:${index}`, day, `is told of a deficiency (${kind})`),
      ...announce(`notice:${index}:determined`, delistingDay, "is to be delisted, and appeals"),
      ...announce(`notice:${index}:regained`, regainedDay, `is compliant again (${kind})`),
    ]
  })

const renameAnnouncements = (company: FictionalCompany): ReadonlyArray<DocumentDraft> =>
  listSymbolChanges(company).flatMap(({ day, former, next }, index) => {
    const content = { day, title: `${company.name} trades as ${next}, no longer as ${former}`, tags: ["symbol-change"] }
    return [
      { ...content, key: `rename:${index}:news`, time: toSecondsOfDay(6, 30), form: newsForm },
      { ...content, key: `rename:${index}`, time: toSecondsOfDay(6, 35), form: formNamesOf(company).current },
    ]
  })

/** Generates the press releases and filings about price gaps, capital raises, splits, listing notices and renames. */
export const makeAnnouncements = (
  company: FictionalCompany,
  prices: PriceHistory,
  deals: ReadonlyArray<CapitalRaise>,
  notices: ReadonlyArray<ListingNotice>,
): ReadonlyArray<DocumentDraft> => [
  ...gapAnnouncements(company, prices),
  ...dealAnnouncements(company, deals),
  ...splitAnnouncements(company),
  ...noticeAnnouncements(company, notices),
  ...renameAnnouncements(company),
]
