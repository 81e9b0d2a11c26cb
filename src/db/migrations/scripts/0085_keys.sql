-- Networks from which a key may be used, and the address of its last use (docs/operations/accounts.md).

-- `networks` is null if the key may be used from everywhere. The constraint is never validated, because no older row has
-- networks.
alter table api_keys
  add column networks cidr[],
  add column last_used_address inet,
  add constraint api_keys_networks_check
    check (cardinality(networks) between 1 and 100 and array_position(networks, null) is null) not valid;

create or replace trigger audit after insert or delete
  or update of account_id, key_hint, expires_at, revoked_at, disabled_at, name, endpoints, networks on api_keys
  for each row execute function audit_row('key', 'key_id', 'key_hash', 'last_used_at', 'last_used_address');
