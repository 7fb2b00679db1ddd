// Package topology runs the ledger on the engine: it reads credit-events, lets package ledger decide, and writes
// ledger-updates, ledger-skipped and dead letters. It uses the engine's exported API alone, as any user's job does.
//
// # Events
//
// An event is a JSON object of strings, under a key that equals account_id:
//
//	{"event_id":"EVT-001","type":"credit","account_id":"ACC-7","amount":"50000.00","currency":"INR","occurred_at":"2026-11-30T10:00:00Z"}
//
// type is credit (also when absent), debit or account. An account event has, instead of an amount, the member to: open (with
// a currency and, if it is not 0, a minimum), frozen or closed. CloudEvents are read in binary mode: the identity is then
// ce_source and ce_id, and the body may leave event_id out.
//
// # What is malformed
//
// Reading is strict, and what is refused becomes a dead letter whose reason is one word of [ledger.Table]. A record that is
// wrong in several ways gets the first reason in this order:
//
//  1. headers: the structured mode of CloudEvents;
//  2. the value as such: null, empty, not JSON or not an object, a name that occurs twice;
//  3. a type that is unknown or not supported yet;
//  4. the members in the order of the text: an unknown name, null, not a string;
//  5. members that the type does not have, those that are missing, then to, and what it allows and needs;
//  6. contents: event_id, account_id, currency, amount or minimum, occurred_at;
//  7. identity: the headers of CloudEvents, a missing event_id, and a key other than account_id.
package topology
