/** What a company says, and files, because something happened. */
import { type Day, dayAt, hour, last, today } from "./Calendar.ts"
import { type Company, renamesOf } from "./Company.ts"
import { price, spoken } from "./Decimals.ts"
import type { Deal } from "./Deals.ts"
import type { Draft } from "./Documents.ts"
import { formsOf } from "./Filings.ts"
import type { Notice } from "./Notices.ts"
import type { Prices } from "./Prices.ts"
import { topics } from "./Topics.ts"

const news = "news"

/** On the evening before a gap, or in the morning of it: the news, and soon after it the filing. */
const gaps = (company: Company, { sessions }: Prices): ReadonlyArray<Draft> => {
  const of = company.dice("gaps")
  return sessions.flatMap(({ gap: { evening, session, topic: name } }): ReadonlyArray<Draft> => {
    if (name === null) return []
    const { form, summary, tags, title } = topics[name]
    const day = dayAt(evening ? session - 1 : session)
    const time = evening ? hour(16, of.whole(1, 5)) : hour(7, of.whole(0, 59)) + of.whole(0, 59)
    const said = { day, title: `${company.name} ${title}`, summary, tags }
    return [
      { ...said, key: `gap:${session}:news`, time, form: news },
      ...(form === null ? [] : [{
        ...said,
        key: `gap:${session}`,
        time: time + of.whole(60, 900),
        form: formsOf(company).current,
      }]),
    ]
  })
}

const formOf = (company: Company, { kind, shelf }: Deal) =>
  shelf ? "424B5" : kind === "line" ? formsOf(company).full : formsOf(company).current

const words = {
  offering: "underwritten offering",
  direct: "registered direct offering",
  atm: "at-the-market program",
  line: "equity line",
  note: "convertible notes",
  preferred: "convertible preferred shares",
} as const

const tagOf = {
  offering: "underwritten",
  direct: "registered-direct",
  atm: "atm",
  line: "equity-line",
  note: "convertible-note",
  preferred: "convertible-preferred",
} as const

const raises = (company: Company, deals: ReadonlyArray<Deal>): ReadonlyArray<Draft> =>
  deals.flatMap((deal) => {
    const { day, gross, kind, place, shares } = deal
    const said = {
      day,
      title: `${company.name} prices ${spoken(gross)} ${words[kind]}`,
      summary: `${shares.toLocaleString("en-US")} shares at $${price(deal.price)}.`,
      tags: ["offering", tagOf[kind]],
    }
    return [
      { ...said, key: `raise:${place}`, time: hour(8, 15), form: formOf(company, deal) },
      ...(kind === "atm" || kind === "line"
        ? []
        : [{ ...said, key: `raise:${place}:news`, time: hour(7, 45), form: news }]),
    ]
  })

/** Each step of a split, where it has been taken. */
const splits = (company: Company): ReadonlyArray<Draft> => {
  const { split } = company.plot
  if (split === undefined) return []
  const { current } = formsOf(company)
  const step = (key: string, session: number | undefined, form: string, title: string): ReadonlyArray<Draft> =>
    session === undefined || session > last
      ? []
      : [{ key, day: dayAt(session), time: hour(16, 31), form, title: `${company.name} ${title}`, tags: ["split"] }]
  const share = `one share for ${split.from}`
  const said = split.from > split.to ? `reverse split, ${share}` : `split, ${split.to} shares for one`
  return [
    ...step("split:vote", split.voteFiled, "DEF 14A", `asks its holders for a ${said}`),
    ...(dayAt(split.vote) < today ? step("split:approved", split.vote, current, `may make a ${said}`) : []),
    ...step("split:withdrawn", split.withdrawn, current, `will not make a ${said}`),
    ...(split.effective === undefined ? [] : [
      ...step("split:announced", split.effective - 6, current, `announces a ${said}`),
      ...step("split:news", split.effective - 6, news, `announces a ${said}`),
      ...step("split:effective", split.effective, current, `has made a ${said}`),
    ]),
  ]
}

const letters = (company: Company, notices: ReadonlyArray<Notice>): ReadonlyArray<Draft> =>
  notices.flatMap(({ day, determined, kind, regained }, place) => {
    const { current } = formsOf(company)
    const letter = (key: string, on: Day | null, title: string): ReadonlyArray<Draft> =>
      on === null
        ? []
        : [{ key, day: on, time: hour(16, 12), form: current, title: `${company.name} ${title}`, tags: ["nasdaq"] }]
    return [
      ...letter(`notice:${place}`, day, `is told of a deficiency (${kind})`),
      ...letter(`notice:${place}:determined`, determined, "is to be delisted, and appeals"),
      ...letter(`notice:${place}:regained`, regained, `is compliant again (${kind})`),
    ]
  })

const renames = (company: Company): ReadonlyArray<Draft> =>
  renamesOf(company).flatMap(({ day, former, next }, place) => {
    const said = { day, title: `${company.name} trades as ${next}, no longer as ${former}`, tags: ["symbol-change"] }
    return [
      { ...said, key: `rename:${place}:news`, time: hour(6, 30), form: news },
      { ...said, key: `rename:${place}`, time: hour(6, 35), form: formsOf(company).current },
    ]
  })

export const announcementsOf = (
  company: Company,
  prices: Prices,
  deals: ReadonlyArray<Deal>,
  notices: ReadonlyArray<Notice>,
): ReadonlyArray<Draft> => [
  ...gaps(company, prices),
  ...raises(company, deals),
  ...splits(company),
  ...letters(company, notices),
  ...renames(company),
]
