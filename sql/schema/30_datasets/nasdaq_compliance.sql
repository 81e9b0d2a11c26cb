-- Notices that a company does not meet a Nasdaq listing requirement, with the status of each notice (resources.md,
-- nasdaq-compliance).
create table nasdaq_compliance (
  id                  filled_text primary key,
  ticker              ticker not null,
  company             text,
  market              filled_text not null,
  date                fact_day not null,
  added_date          fact_day,
  deficiency          filled_text not null,
  deficiency_type     text not null check (deficiency_type in (
    'bid_price', 'market_value_listed_securities', 'market_value_public_shares', 'stockholders_equity',
    'public_holders', 'late_filing', 'audit_committee', 'annual_meeting', 'other'
  )),
  rule                text,
  notice_type         text not null check (notice_type in (
    'deficiency', 'plan_required', 'staff_determination', 'public_reprimand', 'compliance_regained'
  )),
  compliance_deadline fact_day,
  hearing_date        fact_day,
  regained_date       fact_day,
  risk                risk_level,
  status              text not null check (status in ('active', 'extended', 'appealed', 'resolved', 'delisted')),
  notes               text,
  notes_updated       wall_time,
  document_url        text,
  last_updated        wall_time not null
);

-- The sort order of lists: newest first. The text columns have few distinct values, so their indexes also contain the
-- sort columns. Few rows share a date, so indexes on dates do not need them.
create index on nasdaq_compliance (date desc, id);
select index_each('nasdaq_compliance', '{ticker,deficiency_type,notice_type,risk,status}', 'date desc, id');
select index_each('nasdaq_compliance', '{added_date,compliance_deadline}');

select history.track('nasdaq_compliance');
