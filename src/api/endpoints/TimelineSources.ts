/**
 * Builds the SQL of the timeline, which is a list of events from several tables. Each table is an event source, and its
 * rows are events of one or two types.
 */
import { type SqlClient, Statement } from "effect/sql"
import type { ListStatementParameter } from "../../query/lists/Conditions.ts"
import type { PageClauses } from "../../query/lists/DeepPages.ts"
import type { ListClauses } from "../../query/lists/ListDefinition.ts"
import { buildDateRangeCondition, buildDateRangeConditionForOtherOrder } from "../../query/lists/SymbolPeriodClauses.ts"
import { makeEligibleChangeCondition } from "../../contract/rules/EffectiveDates.ts"
import { getEndpointAccess } from "../../contract/rules/EndpointAnnotations.ts"
import { intradayRunnerSqlCondition } from "../../contract/endpoints/intraday-runners.ts"
import { ownershipHolderSqlCondition } from "../../contract/endpoints/ownership.ts"
import { fullRowEndpointsByEventType, type TimelineEventType } from "../../contract/endpoints/timeline.ts"

type Fragment = Statement.Fragment

/** The parameters of the timeline statement. */
export interface TimelineStatementParameters {
  readonly types: ReadonlyArray<TimelineEventType>
  /** The requested symbol, and also the company's primary symbol if that is a different one. */
  readonly ticker: ListStatementParameter<string | ReadonlyArray<string>>
  readonly date_from?: ListStatementParameter<string>
  readonly date_to?: ListStatementParameter<string>
  /** The current date in Chicago. Ticker changes with a later date are not yet in effect (D19). */
  readonly today: ListStatementParameter<string>
}

interface SourceClauses {
  /**
   * Builds `order by` and `limit` for one source's rows. The limit covers all rows up to the end of the page, because
   * the page may consist of events from this source only.
   */
  readonly orderUpToPage: PageClauses["orderUpToPage"]
  /**
   * Whether the table `period` contains the gaps between the periods in which the company used a symbol, instead of
   * those periods. Events in gaps are counted, but not listed.
   */
  readonly areGaps: boolean
}

/**
 * A database table whose rows are events. Its statement reads from `period (lineage_ticker, symbol, starts, ends)`,
 * which contains the symbols whose events to select, each with a range of dates.
 */
interface EventSource {
  readonly types: readonly [TimelineEventType, ...ReadonlyArray<TimelineEventType>]
  /**
   * Builds a statement that selects the source's newest events. In its result, `at_format` is the `to_char` format with
   * which `moment` is printed, and `position` numbers the events in the source's order.
   */
  readonly build: (query: TimelineStatementParameters, clauses: SourceClauses) => Fragment
}

/** SQL expressions that convert a row to an event. */
interface EventColumns {
  /** The date or time of the event. */
  readonly moment: Fragment
  readonly format?: Fragment
  readonly type?: Fragment
  readonly title: Fragment
  readonly key: Fragment
  /** A total order of a ticker's rows, newest first. An index on the ticker and the date column supports it. */
  readonly order: Fragment
  /**
   * The rest of the statement after its `select` list: the `from` clause and the conditions. It reads the rows for
   * `period.symbol`.
   */
  readonly rows: (query: TimelineStatementParameters, clauses: SourceClauses) => Fragment
}

const makeTimelineSources = (sql: SqlClient.SqlClient): ReadonlyArray<EventSource> => {
  const name = sql.literal

  // The dates are in subqueries. Otherwise PostgreSQL would plan the statement again for each request's values.
  const isNotBefore = (moment: Fragment, { date_from }: TimelineStatementParameters) =>
    date_from === undefined ? [] : [sql`${moment} >= (select ${date_from}::text::date)`]
  const isNotAfter = (moment: Fragment, { date_to }: TimelineStatementParameters) =>
    date_to === undefined ? [] : [sql`${moment} < (select ${date_to}::text::date + 1)`]
  /**
   * Returns the date range of the row in `period`. `date` is the column whose date decides to which period a row
   * belongs.
   */
  const toPeriod = (date: Fragment) => ({ date, start: sql`period.starts`, end: sql`period.ends` })
  const isInPeriod = (date: Fragment) => buildDateRangeCondition(sql, toPeriod(date))

  /**
   * SQL condition: `moment`, the date of the event, is in the requested date range, and its row belongs to the period.
   */
  const during = (query: TimelineStatementParameters, moment: Fragment, isOfPeriod = isInPeriod(moment)) =>
    sql.and([isOfPeriod, ...isNotBefore(moment, query), ...isNotAfter(moment, query)])

  /**
   * Returns the `from` clause and conditions for a source with one row per event. `moment` is the column with the
   * event's date.
   */
  const fromTable =
    (table: string, moment: Fragment, ...conditions: ReadonlyArray<Fragment>) => (query: TimelineStatementParameters) =>
      sql`from ${name(table)} where ${sql.and([sql`ticker = period.symbol`, during(query, moment), ...conditions])}`

  /** Percent-encodes text for the query string in an event's `key`. */
  const encode = (column: Fragment) =>
    sql`case when ${column} ~ '^[A-Za-z0-9._~-]*$' then ${column}
      else regexp_replace(encode(convert_to(${column}, 'UTF8'), 'hex'), '(..)', '%\\1', 'g') end`

  // An event's `key` is the query string with which the event's full row can be requested from its endpoint.
  const parameter = (parameter: string, value: Fragment) => sql`${name(`'${parameter}='`)} || ${value}`
  const day = (column: Fragment) => sql`to_char(${column}, 'YYYY-MM-DD')`
  const onDay = (column: Fragment) => parameter("date", day(column))
  const inRange = (column: string) => {
    const value = day(name(column))
    return sql`${parameter(`${column}_from`, value)}, ${parameter(`${column}_to`, value)}`
  }
  const makeKeyOf = (ticker: Fragment, ...parameters: ReadonlyArray<Fragment>) =>
    sql`concat_ws('&', ${sql.csv([parameter("ticker", encode(ticker)), ...parameters])})`
  const makeKey = (...parameters: ReadonlyArray<Fragment>) => makeKeyOf(sql`period.symbol`, ...parameters)
  /** Increases the page size from 10 to 100 rows, so that the `key` for a day selects all rows for that day. */
  const allOfDay = sql`'limit=100'`

  /** Prepends the form type to text that does not already begin with it. */
  const withFormType = (text: Fragment) =>
    sql`case when starts_with(${text}, form_type) then ${text}
      else concat_ws(': ', form_type, nullif(${text}, '')) end`

  /** Formats a value as words with SQL. For example, `split_announced` becomes `Split announced`. */
  const sentence = (column: Fragment) => sql`upper(left(${column}, 1)) || replace(substr(${column}, 2), '_', ' ')`
  const shorten = (number: Fragment) => sql`trim_scale(${number})`

  /** Creates a source that selects each period's events separately, with the page's order and limit. */
  const makeSource = (
    types: EventSource["types"],
    { format = sql`'YYYY-MM-DD'`, key, moment, order, rows, title, type = sql.literal(`'${types[0]}'`) }: EventColumns,
  ): EventSource => ({
    types,
    build: (query, clauses) =>
      sql`
      select lineage_ticker, symbol, starts, event.* from period cross join lateral (
        select ${moment}::timestamp as moment, ${format} as at_format, ${type} as type, ${title} as full_title,
          ${key} as key, row_number() over (order by ${order}) as position
        ${rows(query, clauses)} ${clauses.orderUpToPage(order)}
      ) as event
    `,
  })

  const [filed_at, date, created_at] = [sql`filed_at`, sql`date`, sql`created_at`]

  /** News and filings are stored in the same table, so a single scan finds both. */
  const news = makeSource(["filing", "news"], {
    moment: created_at,
    format: sql`case when date_trunc('second', created_at) = created_at then 'YYYY-MM-DD"T"HH24:MI:SS"-05:00"'
      else 'YYYY-MM-DD"T"HH24:MI:SS.MS"-05:00"' end`,
    type: sql`case form_type when 'news' then 'news' else 'filing' end`,
    title: sql`case form_type when 'news' then coalesce(nullif(title, ''), 'News') else ${
      withFormType(sql`title`)
    } end`,
    key: makeKey(
      onDay(filed_at),
      sql`case form_type when 'news' then 'hide_filings=true' else 'hide_news=true' end`,
      allOfDay,
    ),
    order: sql`created_at desc, id`,
    rows: (query, { areGaps }) => {
      const isOfPeriod = buildDateRangeConditionForOtherOrder(sql, toPeriod(filed_at), areGaps)
      const [filings, news] = [query.types.includes("filing"), query.types.includes("news")]
      // These conditions must be written exactly as in /v1/news. Otherwise PostgreSQL would not use the partial index
      // on filings.
      const conditions = filings && news ? [] : [filings ? sql`form_type <> 'news'` : sql`form_type = 'news'`]
      return sql`from news where ${
        sql.and([sql`ticker = period.symbol`, during(query, created_at, isOfPeriod), ...conditions])
      }`
    },
  })

  const registrations = makeSource(["registration"], {
    moment: filed_at,
    title: withFormType(sql`headline`),
    key: makeKey(inRange("filed_at"), parameter("type", sql`type`), allOfDay),
    order: sql`filed_at desc, id`,
    rows: fromTable("registrations", filed_at),
  })

  const dilution = makeSource(["dilution"], {
    moment: filed_at,
    title: sql`details`,
    key: makeKey(inRange("filed_at"), parameter("security_type", sql`security_type`), allOfDay),
    order: sql`filed_at desc, id`,
    rows: fromTable("dilution_data", filed_at),
  })

  const splits = makeSource(["split"], {
    moment: filed_at,
    title: sql`concat_ws(', ', ${sentence(sql`action_type`)}, coalesce(
      ${shorten(sql`split_to`)} || '-for-' || ${shorten(sql`split_from`)},
      '1-for-' || ${shorten(sql`split_ratio_min`)} || ' to 1-for-' || ${shorten(sql`split_ratio_max`)}
    ))`,
    key: makeKey(inRange("filed_at"), parameter("action_type", sql`action_type`), allOfDay),
    order: sql`filed_at desc, id`,
    rows: fromTable("split_status", filed_at),
  })

  const complianceNotices = makeSource(["compliance_notice"], {
    moment: date,
    title: sql`${sentence(sql`notice_type`)} || ': ' || deficiency`,
    key: makeKey(onDay(date), parameter("notice_type", sql`notice_type`), allOfDay),
    order: sql`date desc, id`,
    rows: fromTable("nasdaq_compliance", date),
  })

  const gaps = makeSource(["gap"], {
    moment: date,
    title: sql`'Gap of ' || ${shorten(sql`round(gap_percentage, 2)`)} || ' %: opened at $'
      || ${shorten(sql`market_open`)} || ', closed at $' || ${shorten(sql`market_close`)}`,
    key: makeKey(onDay(date)),
    order: sql`date desc`,
    rows: fromTable("gap_stats", date),
  })

  /** Every runner has a ratio above 9, so a ratio that would be rounded to 9 is shown as `more than 9`. */
  const formatVolumeRatio = sql`case when round(daily_volume_ratio, 1) > 9
    then ${shorten(sql`round(daily_volume_ratio, 1)`)}::text else 'more than 9' end`

  const runners = makeSource(["runner"], {
    moment: date,
    title: sql`'Change to the high of ' || ${shorten(sql`round(percentage_gain, 2)`)} || ' %, volume '
      || ${formatVolumeRatio} || ' times the usual'`,
    key: makeKey(onDay(date)),
    order: sql`date desc`,
    rows: fromTable("intraday_runners", date, sql.literal(intradayRunnerSqlCondition)),
  })

  const floatOrder = sql`reported_date desc nulls last, filed_at desc, form_type, document_url`
  /**
   * Reads all of the company's float reports up to `date_to`, even those before `date_from`, because each report is
   * compared with the previous one.
   */
  const floatChanges: EventSource = {
    types: ["float_change"],
    build: (query, { areGaps, orderUpToPage }) => {
      const reported_date = sql`reported_date`
      // Reports in different gaps between the company's periods are not compared, because they may belong to different
      // companies.
      const comparable = areGaps ? sql`partition by symbol, starts` : sql.literal("")
      return sql`
        select lineage_ticker, symbol, date '-infinity' as starts, reported_date::timestamp as moment,
          'YYYY-MM-DD' as at_format, 'float_change' as type,
          'Float changed from ' || previous || ' to ' || "float" as full_title,
          ${makeKeyOf(sql`symbol`, inRange("reported_date"), allOfDay)} as key, position
        from (
          select report.*, lineage_ticker, symbol, lead("float") over newest_first as previous,
            row_number() over newest_first as position
          from period cross join lateral (
            select reported_date, filed_at, form_type, document_url, "float" from historical_float_pro
            where ticker = period.symbol and "float" is not null and reported_date is not null
              and ${sql.and([isInPeriod(filed_at), ...isNotAfter(reported_date, query)])}
          ) as report
          window newest_first as (${comparable} order by ${floatOrder})
        ) as report
        where ${sql.and([sql`"float" <> previous`, ...isNotBefore(reported_date, query)])}
        ${orderUpToPage(floatOrder)}
      `
    },
  }

  const ownershipFilings = makeSource(["ownership_filing"], {
    moment: filed_at,
    title: sql`min(form_type) || ': ' || count(*) || case count(*) when 1 then ' owner' else ' owners' end`,
    key: makeKey(parameter("accession_number", encode(sql`accession_number`))),
    order: sql`filed_at desc, accession_number`,
    rows: (query) =>
      sql`
      ${
        fromTable("ownership", filed_at, sql.literal(ownershipHolderSqlCondition))(query)
      } group by filed_at, accession_number
    `,
  })

  const tickerChanges = makeSource(["ticker_change"], {
    moment: sql`effective_date`,
    title: sql`old_ticker || ' became ' || new_ticker`,
    // /v1/ticker-changes accepts symbols of at most six characters (D6). If the requested symbol is longer, `key`
    // contains the shorter one of the change's two symbols.
    key: makeKeyOf(
      sql`case when length(period.symbol) <= 6 then period.symbol
        else (select ticker from unnest(array[old_ticker, new_ticker]) as ticker order by length(ticker) limit 1) end`,
      // If the symbol is ambiguous, `cik` selects the lineage that contains the event (D35).
      parameter("cik", sql`cik`),
    ),
    order: sql`effective_date desc, old_ticker, new_ticker, cik`,
    rows: (query) => {
      const columns = sql`old_ticker, new_ticker, effective_date, cik`
      const isEligible = makeEligibleChangeCondition(sql, sql`${query.today}::text::date`)
      // If a change is recorded both with and without a CIK, only the record with the CIK becomes an event (D20).
      const isOnlyRecord = sql`(cik is not null or not exists (
        select from ticker_changes as known
        where known.old_ticker = recorded.old_ticker and known.new_ticker = recorded.new_ticker
          and known.effective_date = recorded.effective_date and cik is not null and ${isEligible}
      ))`
      const condition = sql`${isEligible} and ${during(query, sql`effective_date`)} and ${isOnlyRecord}`
      // `union all` instead of `old_ticker = … or new_ticker = …`, so that each branch can use the index on its column.
      return sql`from (
        select ${columns} from ticker_changes as recorded where old_ticker = period.symbol and ${condition}
        union all
        select ${columns} from ticker_changes as recorded where new_ticker = period.symbol and ${condition}
      ) as change`
    },
  })

  return [
    news,
    registrations,
    dilution,
    splits,
    complianceNotices,
    gaps,
    runners,
    floatChanges,
    ownershipFilings,
    tickerChanges,
  ]
}

/**
 * Returns a function that builds the timeline statement. The statement combines the newest events from all sources with
 * a requested type, sorts them, and selects the page.
 */
export const makeTimelineStatementBuilder = (sql: SqlClient.SqlClient) => {
  const sources = makeTimelineSources(sql)
  const literal = (text: string) => sql.literal(`'${text}'`)

  /** A subquery without rows, for accounts that may not see any events. PostgreSQL needs to know each column's type. */
  const none = sql`
    select null::text as lineage_ticker, null::text as symbol, null::date as starts, null::timestamp as moment,
      null::text as at_format, null::text as type, null::text as full_title, null::text as key,
      null::bigint as position, null::int as source, null::text as endpoint, null::text as tier
    where false
  `

  /** One unbounded period per requested symbol, for requests that do not follow the symbol's lineage. */
  const unboundedPeriod = ({ ticker }: TimelineStatementParameters) =>
    sql`(
      select ticker as lineage_ticker, ticker as symbol, date '-infinity' as starts, date 'infinity' as ends
      from unnest(${ticker.map((symbols) => [symbols].flat())}::text[]) as requested (ticker)
    ) as period`

  return (query: TimelineStatementParameters, { columns, orderAndLimit, orderUpToPage, period }: ListClauses) => {
    const areGaps = period?.areGaps === true
    // Ticker changes are not counted in gaps between the company's periods. A change takes effect when the period of
    // its old symbol has ended, so it would be counted in a gap although it is also in the list.
    const types = areGaps ? query.types.filter((type) => type !== "ticker_change") : query.types
    const parts = sources.flatMap((source, index) => {
      if (!source.types.some((type) => types.includes(type))) return []
      const { path, required_tier } = getEndpointAccess(fullRowEndpointsByEventType[source.types[0]])
      return [sql`(
        select event.*, ${sql.literal(String(index))} as source, ${literal(path)} as endpoint,
          ${literal(required_tier)} as tier
        from (${source.build(query, { areGaps, orderUpToPage })}) as event
      )`]
    })
    return sql`
      with period as (select lineage_ticker, symbol, starts, ends from ${period?.from ?? unboundedPeriod(query)})
      select ${columns}
      from (${parts.length === 0 ? none : Statement.join(" union all ", false)(parts)}) as event cross join lateral (
        select symbol as ticker, to_char(moment, at_format) as at,
          case when length(full_title) <= 200 then full_title else left(full_title, 199) || '…' end as title
      ) as printed
      ${orderAndLimit(sql`moment desc, source, starts desc, position`)}
    `
  }
}
