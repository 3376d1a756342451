package filter

import (
	"math"
	"time"
)

// fullAccounts is how many accounts there are before those are looked for that nobody needs.
const fullAccounts = 1024

// saved is for how many seconds an account saves up what may be spent. It is short, because what one payer spends at
// once keeps a processor from the others.
const saved = 0.1

// accounts are what the payers have left. An evaluation begins when there is something left, and is charged when its
// cost is known: an account can be overdrawn by what was evaluated at once.
type accounts struct {
	rates      Rates
	principals map[string]*account
	namespaces map[string]*account
}

// account is a bucket that holds what may be spent in a tenth of a second.
type account struct {
	left float64
	at   time.Time
}

func newAccounts(rates Rates) *accounts {
	return &accounts{rates: rates, principals: map[string]*account{}, namespaces: map[string]*account{}}
}

// owes returns after how long the payer may have something evaluated; 0: now.
func (s *accounts) owes(p Payer, now time.Time) time.Duration {
	wait := owes(s.namespaces[p.Namespace], s.rates.Namespace, now)
	if p.Principal != "" {
		wait = max(wait, owes(s.principals[p.Principal], s.rates.Principal, now))
	}
	return wait
}

// charge enters what an evaluation cost.
func (s *accounts) charge(p Payer, cost int, now time.Time) {
	charge(s.namespaces, p.Namespace, s.rates.Namespace, cost, now)
	if p.Principal != "" {
		charge(s.principals, p.Principal, s.rates.Principal, cost, now)
	}
}

func owes(a *account, rate int, now time.Time) time.Duration {
	if a == nil { // as where there is no rate
		return 0
	}
	left := a.leftAt(rate, now)
	if left > 0 {
		return 0
	}
	return time.Duration(math.Ceil((1 - left) / float64(rate) * float64(time.Second)))
}

func charge(all map[string]*account, name string, rate, cost int, now time.Time) {
	if rate == 0 || cost == 0 {
		return
	}
	a := all[name]
	if a == nil {
		if len(all) >= fullAccounts {
			sweep(all, rate, now)
		}
		a = &account{left: most(rate), at: now}
		all[name] = a
	}
	a.left, a.at = a.leftAt(rate, now)-float64(cost), now
}

// leftAt returns what is left at a time.
func (a *account) leftAt(rate int, now time.Time) float64 {
	return min(most(rate), a.left+max(0, now.Sub(a.at).Seconds())*float64(rate))
}

// most returns what a full account holds.
func most(rate int) float64 { return saved * float64(rate) }

// sweep forgets accounts that are full: new ones are no different.
func sweep(all map[string]*account, rate int, now time.Time) {
	for name, a := range all {
		if a.leftAt(rate, now) >= most(rate) {
			delete(all, name)
		}
	}
}
