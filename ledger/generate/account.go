package generate

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// account is what the generator knows of an account: the independent sum.
type account struct {
	id, currency     string
	digits           int
	status           string // "" before it exists
	balance, minimum big.Int
	version          int64
}

// currencies are those of the accounts, in turn, with their digits after the point.
var currencies = [...]struct {
	code   string
	digits int
}{{"INR", 2}, {"EUR", 2}, {"JPY", 0}, {"USD", 2}, {"KWD", 3}, {"CLF", 4}, {"ISK", 0}, {"XCG", 2}}

// Accounts that refusals need in a certain state.
const (
	frozenAccount = iota
	closedAccount
	fullAccount
	specials
)

var specialIDs = [specials]string{"ACC-frozen", "ACC-closed", "ACC-full"}

func newAccount(id string, i int) account {
	c := currencies[i%len(currencies)]
	return account{id: id, currency: c.code, digits: c.digits}
}

// accountID makes one id in ten longer than its characters.
func accountID(i int) string {
	if i%10 == 9 {
		return fmt.Sprintf("口座-é-%06d", i)
	}
	return fmt.Sprintf("ACC-%06d", i)
}

// post moves the balance by a signed number of minor units.
func (a *account) post(units int64) {
	a.balance.Add(&a.balance, big.NewInt(units))
	a.version++
	if a.status == "" {
		a.status = "open"
	}
}

// available returns what a debit may take, in minor units, cut to 2^62.
func (a *account) available() int64 {
	var n big.Int
	n.Sub(&a.balance, &a.minimum)
	if !n.IsInt64() || n.Int64() > 1<<62 {
		return 1 << 62
	}
	return n.Int64()
}

// text writes minor units as an amount with all digits.
func (a *account) text(units *big.Int) string { return decimal(units.String(), a.digits) }

func decimal(units string, digits int) string {
	sign := ""
	if units[0] == '-' {
		sign, units = "-", units[1:]
	}
	if digits == 0 {
		return sign + units
	}
	if missing := digits + 1 - len(units); missing > 0 {
		units = strings.Repeat("0", missing) + units
	}
	point := len(units) - digits
	return sign + units[:point] + "." + units[point:]
}

// Balance is what an account holds once a correct ledger has handled all records made so far.
type Balance struct {
	Account, Currency string
	Balance           string // with the currency's digits
	Version           int64  // applied postings
	Status            string // open, frozen or closed
}

// Balances returns the balances of all accounts that exist, sorted by account.
func (g *Generator) Balances() []Balance {
	var all []Balance
	for _, list := range [][]account{g.accounts, g.special[:]} {
		for i := range list {
			if a := &list[i]; a.status != "" {
				all = append(all, Balance{a.id, a.currency, a.text(&a.balance), a.version, a.status})
			}
		}
	}
	slices.SortFunc(all, func(a, b Balance) int { return strings.Compare(a.Account, b.Account) })
	return all
}
