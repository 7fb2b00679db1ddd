// Package ledger decides what an event does to an account. It is pure: an outcome is a function of the account and the event,
// without clock, store or broker.
//
// # Rules
//
// The numbers are those of the invariants' and rules' names in tests and docs.
//
//   - Rule 0. balance is posted money, held the sum of open holds, available = balance − held. A rejected event leaves
//     balance, held and version as they are, and its update says them.
//   - Rule 1. An event is the same event again when identity and content agree ([Event.Identity], [Event.Content]): then it is
//     skipped. The same identity with other content is a conflict and is never applied.
//   - Rule 6. Amounts are above zero. A debit needs balance − held − amount >= minimum.
//   - Rule 7. An account has one currency. The first credit opens an unknown account when [Rules] allow it. A frozen account
//     takes credits and refuses debits, a closed one refuses everything. Open sets status and minimum, of a frozen or open
//     account too; an absent minimum is 0. Freezing a frozen account is applied and changes nothing. Only an account with
//     balance 0 and held 0 closes, and it never opens again. Account events have no version.
//   - Rule 8. Each event has one outcome; [Table] says where it goes.
//
// # Invariants
//
//   - L1: over the applied postings of an account, balance(n) = balance(n−1) + signed amount(n), versions contiguous from 1.
//   - L3b: held >= 0, and no debit leaves balance − held below minimum. (An account may be below a minimum above zero: it
//     was opened so, and takes credits only.)
//
// Both are asserted where an account changes; a broken one panics, because the state or this code is wrong, not the event.
package ledger
