// Package money holds exact amounts of money: opaque, decimal, with the digits of their currency.
//
// An amount is read from a text by one grammar and printed with fixed digits; there is no way in from a floating point
// number and none out. Every amount and every sum lies within DECIMAL(19,2), whatever the currency: a column of that type
// holds any balance that this package lets exist.
//
// Adding amounts of different currencies is the caller's mistake and is not seen here: an amount knows its digits only.
package money
