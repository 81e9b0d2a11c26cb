-- Notices that a company fails a Nasdaq listing requirement, with their status (resources: nasdaq-compliance).
-- Times without a zone are New York wall-clock times (§2.1.4, D15: timestamps).
create table nasdaq_compliance (
  id                  text primary key,
  ticker              text not null check (ticker ~ '^[A-Z0-9.^-]{1,16}$'),
  company             text,
  market              text not null,
  date                date not null,
  added_date          date,
  deficiency          text not null,
  deficiency_type     text not null check (deficiency_type in (
    'bid_price', 'market_value_listed_securities', 'market_value_public_shares', 'stockholders_equity',
    'public_holders', 'late_filing', 'audit_committee', 'annual_meeting', 'other'
  )),
  rule                text,
  notice_type         text not null check (notice_type in (
    'deficiency', 'plan_required', 'staff_determination', 'public_reprimand', 'compliance_regained'
  )),
  compliance_deadline date,
  hearing_date        date,
  regained_date       date,
  risk                text check (risk in ('high', 'medium', 'low')),
  status              text not null check (status in ('active', 'extended', 'appealed', 'resolved', 'delisted')),
  notes               text,
  notes_updated       timestamp(3),
  document_url        text,
  last_updated        timestamp(3) not null
);

-- Newest first. Text columns have few distinct values, so their indexes include the sort order; a day has few rows.
create index on nasdaq_compliance (date desc, id);
create index on nasdaq_compliance (ticker, date desc, id);
create index on nasdaq_compliance (deficiency_type, date desc, id);
create index on nasdaq_compliance (notice_type, date desc, id);
create index on nasdaq_compliance (risk, date desc, id);
create index on nasdaq_compliance (status, date desc, id);
create index on nasdaq_compliance (added_date);
create index on nasdaq_compliance (compliance_deadline);
