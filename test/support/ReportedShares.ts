/** Rows of `historical_float_pro` for change feed tests, each with a symbol, a day and a number of shares. */

/** The key columns, for use in `on conflict`. */
export const reportedSharesKey = "ticker, filed_at, form_type, document_url, reported_date"

/** Values for the remaining required columns. */
const constants = { is_adr: "false", last_updated: "2026-01-01 00:00:00" }

/** Builds a row of `historical_float_pro`. */
export const makeReportedShares = (ticker: string, filed_at: string, outstanding_shares: string) => ({
  ticker,
  filed_at,
  outstanding_shares,
  ...constants,
})

/**
 * Returns the beginning of an insert statement. The caller appends a query or `values` with the three expressions for
 * each row.
 */
export const formatReportedSharesInsert = (rows: string) =>
  `insert into historical_float_pro (ticker, filed_at, outstanding_shares, is_adr, last_updated)
    select ticker, filed_at::date, outstanding_shares, false, '2026-01-01' from (${rows})
      as given (ticker, filed_at, outstanding_shares)`
