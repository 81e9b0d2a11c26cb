/**
 * Builds the SQL of the timeline, which is a list of events from several tables. Each table is an event source, and its
 * rows are events of one or two types.
 */
import { type SqlClient, Statement } from "effect/sql"
import type { ListStatementParameter } from "../../query/lists/FilterConditions.ts"
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
 * A database table whose rows are events. The timeline statement defines the table `period (lineage_ticker, symbol,
 * starts, ends)` before it uses the sources. Each of its rows is a symbol whose events to select, with a range of
 * dates:
 * `starts` is inclusive, and `ends` is exclusive.
 */
interface EventSource {
  readonly types: readonly [TimelineEventType, ...ReadonlyArray<TimelineEventType>]
  /**
   * Builds a statement that selects the source's newest events for the rows of `period`. The columns of its result, in
   * this order, are:
   *
   * - `lineage_ticker`, `symbol` and `starts`: those of the row in `period`
   * - `event_time`: the date or time of the event, as a timestamp
   * - `time_format`: the `to_char` format with which `event_time` is printed
   * - `type`, `full_title` and `key`: the fields of the event, with a title of any length
   * - `position`: the event's number in the source's order, starting with 1 for the newest
   */
  readonly build: (query: TimelineStatementParameters, clauses: SourceClauses) => Fragment
}

/** SQL expressions that convert a row to an event. */
interface EventColumns {
  /** The date or time of the event. */
  readonly time: Fragment
  /** The `to_char` format with which the time is printed. By default, it is printed as a date. */
  readonly timeFormat?: Fragment
  /** The event's type. By default, the source's first type. */
  readonly type?: Fragment
  readonly title: Fragment
  /** The query string with which the event's full row can be requested from its endpoint. */
  readonly key: Fragment
  /** A total order of a ticker's rows, newest first. An index on the ticker and the date column supports it. */
  readonly order: Fragment
  /**
   * The rest of the statement after its `select` list: the `from` clause and the conditions. It reads the rows for
   * `period.symbol`.
   */
  readonly rows: (query: TimelineStatementParameters, clauses: SourceClauses) => Fragment
}

/**
 * Creates a source: it converts the rows of a table to events of the timeline. The timeline's statement has defined the
 * table `period`, which has a row for each symbol and range of dates whose events are requested. The source selects the
 * events for each of these rows separately, with the page's order and limit, and numbers them (`position`). `types` are
 * the types of events that the source has.
 */
const makeSource = (
  sql: SqlClient.SqlClient,
  types: EventSource["types"],
  { key, order, rows, time, timeFormat = sql`'YYYY-MM-DD'`, title, type = sql.literal(`'${types[0]}'`) }: EventColumns,
): EventSource => ({
  types,
  build: (query, clauses) =>
    sql`
      select lineage_ticker, symbol, starts, event.* from period cross join lateral (
        select ${time}::timestamp as event_time, ${timeFormat} as time_format, ${type} as type, ${title} as full_title,
          ${key} as key, row_number() over (order by ${order}) as position
        ${rows(query, clauses)} ${clauses.orderUpToPage(order)}
      ) as event
    `,
})

/**
 * Returns functions that build SQL conditions for the events of a source. `date` is always the SQL of a date column or
 * time column of the source's table.
 */
const makeDateConditions = (sql: SqlClient.SqlClient) => {
  // The dates are in subqueries. Otherwise PostgreSQL would plan the statement again for each request's values.
  /** The condition for `date_from`, or no condition if the request does not have that parameter. */
  const isNotBefore = (date: Fragment, { date_from }: TimelineStatementParameters) =>
    date_from === undefined ? [] : [sql`${date} >= (select ${date_from}::text::date)`]
  /** The condition for `date_to`, or no condition if the request does not have that parameter. */
  const isNotAfter = (date: Fragment, { date_to }: TimelineStatementParameters) =>
    date_to === undefined ? [] : [sql`${date} < (select ${date_to}::text::date + 1)`]
  /** The range of dates of the row in `period`, in which the source's column `date` must be. */
  const toPeriodRange = (date: Fragment) => ({ date, start: sql`period.starts`, end: sql`period.ends` })
  /** The condition that a row of the source belongs to the row in `period`. */
  const isInPeriod = (date: Fragment) => buildDateRangeCondition(sql, toPeriodRange(date))
  /**
   * The condition that the event's date is in the requested range, and that the event belongs to the row in `period`.
   * `periodCondition` is the latter condition if it concerns another column than the event's date.
   */
  const isInRequestedRange = (
    date: Fragment,
    query: TimelineStatementParameters,
    periodCondition = isInPeriod(date),
  ) => sql.and([periodCondition, ...isNotBefore(date, query), ...isNotAfter(date, query)])
  /** The `from` clause and the conditions for a source whose table has one row per event. */
  const fromTable =
    (table: string, date: Fragment, ...conditions: ReadonlyArray<Fragment>) => (query: TimelineStatementParameters) =>
      sql`from ${sql.literal(table)} where ${
        sql.and([sql`ticker = period.symbol`, isInRequestedRange(date, query), ...conditions])
      }`
  return { fromTable, isInPeriod, isInRequestedRange, isNotAfter, isNotBefore, toPeriodRange }
}

/**
 * Returns functions that build the SQL of an event's `key`: the query string with which the event's full row can be
 * requested from its endpoint, such as `ticker=GAP7&filed_at_from=2026-06-01&filed_at_to=2026-06-01&limit=100`.
 */
const makeKeyBuilders = (sql: SqlClient.SqlClient) => {
  /** Percent-encodes a text column. */
  const encode = (column: Fragment) =>
    sql`case when ${column} ~ '^[A-Za-z0-9._~-]*$' then ${column}
      else regexp_replace(encode(convert_to(${column}, 'UTF8'), 'hex'), '(..)', '%\\1', 'g') end`
  /** Builds `name=value`. The value must already be encoded. */
  const parameter = (name: string, value: Fragment) => sql`${sql.literal(`'${name}='`)} || ${value}`
  const formatDay = (column: Fragment) => sql`to_char(${column}, 'YYYY-MM-DD')`
  /** The parameter `date` of endpoints that have it. */
  const onDay = (column: Fragment) => parameter("date", formatDay(column))
  /** The parameters `…_from` and `…_to` for the day in a column, for endpoints with such a pair of parameters. */
  const fromAndToDay = (column: string) => {
    const value = formatDay(sql.literal(column))
    return sql`${parameter(`${column}_from`, value)}, ${parameter(`${column}_to`, value)}`
  }
  /** Increases the page size from 10 to 100 rows, so that the `key` for a day selects all rows for that day. */
  const allOfDay = sql`'limit=100'`
  /** Joins parameters to a query string that begins with the parameter `ticker`. */
  const makeKeyForTicker = (ticker: Fragment, ...parameters: ReadonlyArray<Fragment>) =>
    sql`concat_ws('&', ${sql.csv([parameter("ticker", encode(ticker)), ...parameters])})`
  const makeKey = (...parameters: ReadonlyArray<Fragment>) => makeKeyForTicker(sql`period.symbol`, ...parameters)
  return { allOfDay, encode, fromAndToDay, makeKey, makeKeyForTicker, onDay, parameter }
}

/** Returns functions that build the SQL of an event's title from columns. */
const makeTitleFormatters = (sql: SqlClient.SqlClient) => ({
  /** Prepends the form type to text that does not already begin with it. */
  withFormType: (text: Fragment) =>
    sql`case when starts_with(${text}, form_type) then ${text}
      else concat_ws(': ', form_type, nullif(${text}, '')) end`,
  /** Formats a code as words. For example, `split_announced` becomes `Split announced`. */
  toSentence: (column: Fragment) => sql`upper(left(${column}, 1)) || replace(substr(${column}, 2), '_', ' ')`,
  /** Removes trailing zeros after the decimal point. */
  shorten: (number: Fragment) => sql`trim_scale(${number})`,
})

/** The source of news and filings. They are stored in the same table, so a single scan finds both. */
const makeNewsSource = (sql: SqlClient.SqlClient): EventSource => {
  const { isInRequestedRange, toPeriodRange } = makeDateConditions(sql)
  const { allOfDay, makeKey, onDay } = makeKeyBuilders(sql)
  const { withFormType } = makeTitleFormatters(sql)
  const created_at = sql`created_at`
  const filed_at = sql`filed_at`
  return makeSource(sql, ["filing", "news"], {
    time: created_at,
    // The time is printed with milliseconds only if they are not zero. All times are stored at -05:00.
    timeFormat: sql`case when date_trunc('second', created_at) = created_at then 'YYYY-MM-DD"T"HH24:MI:SS"-05:00"'
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
      // The filing date decides to which period a row belongs, although the rows are sorted by `created_at`.
      const periodCondition = buildDateRangeConditionForOtherOrder(sql, toPeriodRange(filed_at), areGaps)
      const [wantsFilings, wantsNews] = [query.types.includes("filing"), query.types.includes("news")]
      // These conditions must be written exactly as in /v1/news. Otherwise PostgreSQL would not use the partial index
      // on filings.
      const conditions = wantsFilings && wantsNews
        ? []
        : [wantsFilings ? sql`form_type <> 'news'` : sql`form_type = 'news'`]
      return sql`from news where ${
        sql.and([
          sql`ticker = period.symbol`,
          isInRequestedRange(created_at, query, periodCondition),
          ...conditions,
        ])
      }`
    },
  })
}

/** The sources of events that a company files or receives, each with one row per event in its table. */
const makeFilingSources = (sql: SqlClient.SqlClient): ReadonlyArray<EventSource> => {
  const { fromTable } = makeDateConditions(sql)
  const { allOfDay, fromAndToDay, makeKey, onDay, parameter } = makeKeyBuilders(sql)
  const { shorten, toSentence, withFormType } = makeTitleFormatters(sql)
  const [filed_at, date] = [sql`filed_at`, sql`date`]

  const registrations = makeSource(sql, ["registration"], {
    time: filed_at,
    title: withFormType(sql`headline`),
    key: makeKey(fromAndToDay("filed_at"), parameter("type", sql`type`), allOfDay),
    order: sql`filed_at desc, id`,
    rows: fromTable("registrations", filed_at),
  })

  const dilution = makeSource(sql, ["dilution"], {
    time: filed_at,
    title: sql`details`,
    key: makeKey(fromAndToDay("filed_at"), parameter("security_type", sql`security_type`), allOfDay),
    order: sql`filed_at desc, id`,
    rows: fromTable("dilution_data", filed_at),
  })

  const splits = makeSource(sql, ["split"], {
    time: filed_at,
    title: sql`concat_ws(', ', ${toSentence(sql`action_type`)}, coalesce(
      ${shorten(sql`split_to`)} || '-for-' || ${shorten(sql`split_from`)},
      '1-for-' || ${shorten(sql`split_ratio_min`)} || ' to 1-for-' || ${shorten(sql`split_ratio_max`)}
    ))`,
    key: makeKey(fromAndToDay("filed_at"), parameter("action_type", sql`action_type`), allOfDay),
    order: sql`filed_at desc, id`,
    rows: fromTable("split_status", filed_at),
  })

  const complianceNotices = makeSource(sql, ["compliance_notice"], {
    time: date,
    title: sql`${toSentence(sql`notice_type`)} || ': ' || deficiency`,
    key: makeKey(onDay(date), parameter("notice_type", sql`notice_type`), allOfDay),
    order: sql`date desc, id`,
    rows: fromTable("nasdaq_compliance", date),
  })

  return [registrations, dilution, splits, complianceNotices]
}

/** The sources of unusual trading days, with one row per symbol and day in their tables. */
const makeTradingSources = (sql: SqlClient.SqlClient): ReadonlyArray<EventSource> => {
  const { fromTable } = makeDateConditions(sql)
  const { makeKey, onDay } = makeKeyBuilders(sql)
  const { shorten } = makeTitleFormatters(sql)
  const date = sql`date`

  const gaps = makeSource(sql, ["gap"], {
    time: date,
    title: sql`'Gap of ' || ${shorten(sql`round(gap_percentage, 2)`)} || ' %: opened at $'
      || ${shorten(sql`market_open`)} || ', closed at $' || ${shorten(sql`market_close`)}`,
    key: makeKey(onDay(date)),
    order: sql`date desc`,
    rows: fromTable("gap_stats", date),
  })

  /** Every runner has a ratio above 9, so a ratio that would be rounded to 9 is shown as `more than 9`. */
  const formatVolumeRatio = sql`case when round(daily_volume_ratio, 1) > 9
    then ${shorten(sql`round(daily_volume_ratio, 1)`)}::text else 'more than 9' end`

  const runners = makeSource(sql, ["runner"], {
    time: date,
    title: sql`'Change to the high of ' || ${shorten(sql`round(percentage_gain, 2)`)} || ' %, volume '
      || ${formatVolumeRatio} || ' times the usual'`,
    key: makeKey(onDay(date)),
    order: sql`date desc`,
    rows: fromTable("intraday_runners", date, sql.literal(intradayRunnerSqlCondition)),
  })

  return [gaps, runners]
}

/**
 * The source of changes to a company's float. An event is a float report whose float differs from that of the previous
 * report. The source therefore reads all of the company's reports up to `date_to`, even those before `date_from`. An
 * event's `key` requests all reports for its day.
 */
const makeFloatChangeSource = (sql: SqlClient.SqlClient): EventSource => {
  const { isInPeriod, isNotAfter, isNotBefore } = makeDateConditions(sql)
  const { allOfDay, fromAndToDay, makeKeyForTicker } = makeKeyBuilders(sql)
  const order = sql`reported_date desc nulls last, filed_at desc, form_type, document_url`
  const reported_date = sql`reported_date`
  return {
    types: ["float_change"],
    build: (query, { areGaps, orderUpToPage }) => {
      // Reports in different gaps between the company's periods are not compared, because they may belong to different
      // companies. `position` then starts again with each gap, but it is not used, because events in gaps are only
      // counted.
      const comparedReports = areGaps ? sql`partition by symbol, starts` : sql.literal("")
      // `report` contains the reports. `compared` adds the previous report's float: `lead`, because the order is newest
      // first. `starts` is the same for all events, because `position` numbers the reports of all periods together.
      return sql`
        select lineage_ticker, symbol, date '-infinity' as starts, reported_date::timestamp as event_time,
          'YYYY-MM-DD' as time_format, 'float_change' as type,
          'Float changed from ' || previous_float || ' to ' || "float" as full_title,
          ${makeKeyForTicker(sql`symbol`, fromAndToDay("reported_date"), allOfDay)} as key, position
        from (
          select report.*, lineage_ticker, symbol, lead("float") over newest_first as previous_float,
            row_number() over newest_first as position
          from period cross join lateral (
            select reported_date, filed_at, form_type, document_url, "float" from historical_float_pro
            where ticker = period.symbol and "float" is not null and reported_date is not null
              and ${sql.and([isInPeriod(sql`filed_at`), ...isNotAfter(reported_date, query)])}
          ) as report
          window newest_first as (${comparedReports} order by ${order})
        ) as compared
        where ${sql.and([sql`"float" <> previous_float`, ...isNotBefore(reported_date, query)])}
        ${orderUpToPage(order)}
      `
    },
  }
}

/** The source of ownership filings. The table has one row per owner, so an event is a group of rows. */
const makeOwnershipSource = (sql: SqlClient.SqlClient): EventSource => {
  const { fromTable } = makeDateConditions(sql)
  const { encode, makeKey, parameter } = makeKeyBuilders(sql)
  const filed_at = sql`filed_at`
  const fromOwners = fromTable("ownership", filed_at, sql.literal(ownershipHolderSqlCondition))
  return makeSource(sql, ["ownership_filing"], {
    time: filed_at,
    title: sql`min(form_type) || ': ' || count(*) || case count(*) when 1 then ' owner' else ' owners' end`,
    key: makeKey(parameter("accession_number", encode(sql`accession_number`))),
    order: sql`filed_at desc, accession_number`,
    rows: (query) => sql`${fromOwners(query)} group by filed_at, accession_number`,
  })
}

/** The source of ticker changes. A change is an event for both of its symbols. */
const makeTickerChangeSource = (sql: SqlClient.SqlClient): EventSource => {
  const { isInRequestedRange } = makeDateConditions(sql)
  const { makeKeyForTicker, parameter } = makeKeyBuilders(sql)
  const effective_date = sql`effective_date`
  return makeSource(sql, ["ticker_change"], {
    time: effective_date,
    title: sql`old_ticker || ' became ' || new_ticker`,
    // /v1/ticker-changes accepts symbols of at most six characters (D6). If the requested symbol is longer, `key`
    // contains the shorter one of the change's two symbols.
    key: makeKeyForTicker(
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
      const condition = sql`${isEligible} and ${isInRequestedRange(effective_date, query)} and ${isOnlyRecord}`
      // `union all` instead of `old_ticker = … or new_ticker = …`, so that each branch can use the index on its column.
      return sql`from (
        select ${columns} from ticker_changes as recorded where old_ticker = period.symbol and ${condition}
        union all
        select ${columns} from ticker_changes as recorded where new_ticker = period.symbol and ${condition}
      ) as change`
    },
  })
}

/** Returns all sources. Their order is the order of events of different sources with the same time. */
const makeTimelineSources = (sql: SqlClient.SqlClient): ReadonlyArray<EventSource> => [
  makeNewsSource(sql),
  ...makeFilingSources(sql),
  ...makeTradingSources(sql),
  makeFloatChangeSource(sql),
  makeOwnershipSource(sql),
  makeTickerChangeSource(sql),
]

/** A subquery without rows, for accounts that may not see any events. PostgreSQL needs to know each column's type. */
const makeEmptySourceSql = (sql: SqlClient.SqlClient) =>
  sql`
    select null::text as lineage_ticker, null::text as symbol, null::date as starts, null::timestamp as event_time,
      null::text as time_format, null::text as type, null::text as full_title, null::text as key,
      null::bigint as position, null::int as source, null::text as endpoint, null::text as tier
    where false
  `

/**
 * Returns a function that builds the timeline statement. The statement combines the newest events from all sources with
 * a requested type, sorts them, and selects the page. `period` contains the followed periods; without it, there is one
 * unbounded period per requested symbol.
 */
export const makeTimelineStatementBuilder = (sql: SqlClient.SqlClient) => {
  const sources = makeTimelineSources(sql)
  const toText = (text: string) => sql.literal(`'${text}'`)

  const unboundedPeriods = ({ ticker }: TimelineStatementParameters) =>
    sql`(
      select ticker as lineage_ticker, ticker as symbol, date '-infinity' as starts, date 'infinity' as ends
      from unnest(${ticker.map((symbols) => [symbols].flat())}::text[]) as requested (ticker)
    ) as period`

  /**
   * Builds a subquery for each source that has one of the requested types. It adds three columns to the source's
   * events:
   *
   * - `source`: the number of the source, in the order of `makeTimelineSources`
   * - `endpoint`: the path of the endpoint that returns the full rows, which is the same for all types of a source
   * - `tier`: the tier that this endpoint requires
   */
  const buildSourceSubqueries = (query: TimelineStatementParameters, clauses: SourceClauses) => {
    // Ticker changes are not counted in gaps between the company's periods. A change takes effect when the period of
    // its old symbol has ended, so it would be counted in a gap although it is also in the list.
    const types = clauses.areGaps ? query.types.filter((type) => type !== "ticker_change") : query.types
    return sources.flatMap((source, index) => {
      if (!source.types.some((type) => types.includes(type))) return []
      const { path, required_tier } = getEndpointAccess(fullRowEndpointsByEventType[source.types[0]])
      return [sql`(
        select event.*, ${sql.literal(String(index))} as source, ${toText(path)} as endpoint,
          ${toText(required_tier)} as tier
        from (${source.build(query, clauses)}) as event
      )`]
    })
  }

  return (query: TimelineStatementParameters, { columns, orderAndLimit, orderUpToPage, period }: ListClauses) => {
    const subqueries = buildSourceSubqueries(query, { areGaps: period?.areGaps === true, orderUpToPage })
    const events = subqueries.length === 0 ? makeEmptySourceSql(sql) : Statement.join(" union all ", false)(subqueries)
    // A title of more than 200 characters is cut off, and ends with an ellipsis.
    return sql`
      with period as (select lineage_ticker, symbol, starts, ends from ${period?.from ?? unboundedPeriods(query)})
      select ${columns}
      from (${events}) as event cross join lateral (
        select symbol as ticker, to_char(event_time, time_format) as at,
          case when length(full_title) <= 200 then full_title else left(full_title, 199) || '…' end as title
      ) as printed
      ${orderAndLimit(sql`event_time desc, source, starts desc, position`)}
    `
  }
}
