/** The release that the contract begins with: the changes of §9.5, and what came with them. */
import type { Release } from "./Entry.ts"

export const first: Release = {
  release: "0.1.0",
  date: "2026-11-01",
  entries: [
    {
      id: "fixed-offset",
      type: "changed",
      breaking: true,
      title: "Every datetime carries the offset -05:00",
      text:
        "Datetimes are RFC 3339 with the fixed offset -05:00, all year; it never becomes -04:00. Dates carry none. " +
        "news, news-basic and last_updated of the session statistics and intraday runners keep their digits (the old Z " +
        "of news was wrong). What was UTC prints 5 hours earlier, the same instant. Session times, filed_at_time, " +
        "notes_updated and all other last_updated print 1 hour earlier where they fall into daylight time: 09:30 in " +
        "New York is 08:30:00-05:00.",
      migration:
        "Parse datetimes with their offset, and convert to America/New_York where you show wall-clock times. " +
        "Take out what you did to make up for the old suffix Z.",
      paths: ["/v1/*"],
    },
    {
      id: "report-id-removed",
      type: "removed",
      breaking: true,
      title: "report_id is gone from research-reports-tldr",
      text: "Rows of /v1/research-reports-tldr have no report_id. No other key takes its place.",
      migration: "Do not read report_id; tell reports apart by the fields that you show.",
      paths: ["/v1/research-reports-tldr"],
      names: ["report_id"],
    },
    {
      id: "historical-market-cap",
      type: "changed",
      breaking: true,
      title: "market_cap of historical-float-pro is computed anew",
      text:
        "market_cap is the unadjusted close on reported_date times outstanding_shares, rounded to two decimals. Where " +
        "that is no trading day, the latest close before it counts. It is null where the close, outstanding_shares or " +
        "reported_date is missing; nothing stored before takes its place, and later splits change nothing.",
      migration: "Expect other values, and null; do not mix them with market caps that you kept.",
      paths: ["/v1/historical-float-pro"],
      names: ["market_cap"],
    },
    {
      id: "reported-zero",
      type: "changed",
      breaking: true,
      title: "A reported 0 is 0 in float-outstanding",
      text:
        "insider_percent, affiliate_percent and institutions_percent print a reported 0 as 0; null means that it is " +
        "not known. The data-quality message comes with fewer answers, since 0 no longer counts as missing.",
      migration: "Tell 0 from null: 0 is a figure, null is none.",
      paths: ["/v1/float-outstanding"],
      names: ["insider_percent", "affiliate_percent", "institutions_percent", "message"],
    },
    {
      id: "invalid-tickers-dropped",
      type: "changed",
      breaking: true,
      title: "An invalid ticker in a list no longer fails the request",
      text: "Invalid symbols of a comma-separated list are dropped, and the request answers 200 for the others; " +
        "X-Dropped-Tickers names them. Where no symbol is valid it is 422, on endpoints where ticker is optional, too. " +
        "White space inside a symbol is removed. At most 100 symbols count, after invalid ones are dropped.",
      migration: "Where a mistyped symbol has to be noticed, read X-Dropped-Tickers.",
      paths: ["/v1/*"],
      names: ["ticker", "X-Dropped-Tickers"],
    },
    {
      id: "ticker-changes",
      type: "added",
      title: "Ticker changes: the whole chain of a symbol",
      text:
        "/v1/ticker-changes answers the change history of a symbol, current or former, and the ticker it has now. A " +
        "record that is not one chain is refused with 409 ambiguous_ticker_lineage, which says why and offers the chains.",
      paths: ["/v1/ticker-changes"],
      names: ["ambiguous_ticker_lineage"],
      significant: true,
    },
    {
      id: "intraday-runners",
      type: "added",
      title: "Intraday runners",
      text:
        "/v1/intraday-runners lists sessions of unusual volume (daily_volume_ratio above 9) with gap, range, spike, " +
        "halt, premarket and after-hours figures, newest first.",
      paths: ["/v1/intraday-runners"],
      significant: true,
    },
    {
      id: "floor-price",
      type: "added",
      title: "floor_price on warrants and convertibles",
      text:
        "The least exercise or conversion price under price protection, with up to three decimals; null where none is " +
        "recorded.",
      paths: ["/v1/dilution-data", "/v1/dilution-data-advanced"],
      names: ["floor_price"],
    },
    {
      id: "screener-fields",
      type: "added",
      title: "Seven fields on the screener",
      text: "insider_percent, affiliate_percent and institutions_percent (fractions: 0.125 is 12.5 %), " +
        "ownership_source_url, high_365, low_365 and website. They cannot be filtered by.",
      paths: ["/v1/screener"],
      names: [
        "insider_percent",
        "affiliate_percent",
        "institutions_percent",
        "ownership_source_url",
        "high_365",
        "low_365",
        "website",
      ],
    },
    {
      id: "restricted-shares",
      type: "added",
      title: "restricted_shares on historical-float-pro",
      text: "Restricted shares as reported at that time, ADR-adjusted: what is taken off float to get tradable_float.",
      paths: ["/v1/historical-float-pro"],
      names: ["restricted_shares"],
    },
    {
      id: "lifecycle-signals",
      type: "added",
      title: "Deprecations that programs can read",
      text:
        "A deprecated endpoint says so on every response, by the headers Deprecation, Sunset and Link. /endpoints has " +
        "deprecated, sunset and successor; OpenAPI has deprecated and x-sunset. Every response tells its version.",
      paths: ["/*"],
      names: ["Deprecation", "Sunset", "Link", "X-API-Version", "deprecated", "sunset", "x-sunset"],
    },
    {
      id: "revalidation",
      type: "added",
      title: "ETag and 304 on data",
      text:
        "Every 200 of data has a strong ETag. Sent back as If-None-Match it gets a 304, free of charge, while the " +
        "answer would be the same.",
      paths: ["/v1/*"],
      names: ["ETag", "If-None-Match"],
    },
    {
      id: "limits-and-cost",
      type: "added",
      title: "Rate limits and cost in headers",
      text: "X-RateLimit-Limit, -Remaining and -Reset stand on every answer to a key; over the limit it is 429 " +
        "rate_limit_exceeded with Retry-After. X-Cost-Microdollars says what an answer cost, and /estimate what it would.",
      paths: ["/v1/*", "/estimate"],
      names: ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Cost-Microdollars", "Retry-After"],
    },
    {
      id: "future-dates",
      type: "changed",
      title: "Dates of expiration may lie in the future",
      text:
        "expiration_date of registrations and lock_up_expiration of the pump-and-dump tracker can be filtered by days " +
        "to come. Ranges must still be in order, and the other dates in the past.",
      paths: ["/v1/registrations", "/v1/pump-and-dump-tracker"],
      names: [
        "expiration_date_from",
        "expiration_date_to",
        "lock_up_expiration_from",
        "lock_up_expiration_to",
      ],
    },
    {
      id: "errors-of-their-own",
      type: "changed",
      title: "Failures carry their own status and code",
      text:
        "A table that is being reloaded, or a query that takes 30 seconds, is 503 data_refreshing; no connection in " +
        "time is 503 database_pool_timeout. Both carry Retry-After: 5 and are safe to retry. database_error, " +
        "service_unavailable and the 504 request_timeout are no longer answered.",
      paths: ["/v1/*"],
      names: ["data_refreshing", "database_pool_timeout"],
    },
    {
      id: "ownership-placeholders",
      type: "fixed",
      title: "Ownership skips filings without holders",
      text:
        "The newest filing that holds a table of holders is answered, so reported_date may be earlier; where there is " +
        "none, results is empty. /estimate counts filing groups, and samples only what would be returned.",
      paths: ["/v1/ownership", "/estimate"],
      names: ["reported_date"],
    },
    {
      id: "historical-tickers-duplicates",
      type: "fixed",
      title: "No ticker and date twice in historical-tickers",
      text:
        "Pairs of ticker and date that are alike are one, so count can be lower. A ticker with several dates is kept.",
      paths: ["/v1/historical-tickers"],
      names: ["count", "historical_tickers"],
    },
    {
      id: "key-use",
      type: "changed",
      title: "last_used_at is written once a minute",
      text: "last_used_at of a key can be up to 60 seconds behind its use.",
      paths: ["/v1/account/api-keys"],
      names: ["last_used_at"],
    },
    {
      id: "ticker-required-on-splits",
      type: "changed",
      title: "split-status needs a valid ticker",
      text: "At least one valid ticker has to be sent.",
      migration: "Name the tickers you ask for.",
      paths: ["/v1/split-status"],
      names: ["ticker"],
    },
  ],
}
