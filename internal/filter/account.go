package filter

import (
	"math"
	"time"
)

// fullAccounts is the number of accounts that triggers a sweep of unused ones.
const fullAccounts = 1024

// saved is how many seconds of credit an account can hold. It is short, because a burst of one
// payer keeps the processor from the others.
const saved = 0.1

// accounts are the payers' remaining credits. An evaluation begins when there is credit left, and
// is charged when its cost is known: concurrent evaluations can overdraw an account. It is not safe
// for concurrent use: the pool's lock guards it.
type accounts struct {
	rates      Rates
	principals map[string]*account
	namespaces map[string]*account
}

// account is a bucket that holds the credit of a tenth of a second. left can be below zero, by the
// cost of the evaluations that began together.
type account struct {
	left float64
	at   time.Time
}

func newAccounts(rates Rates) *accounts {
	return &accounts{rates: rates, principals: map[string]*account{}, namespaces: map[string]*account{}}
}

// owes returns how long the payer has to wait for its next evaluation; 0: it need not wait. Both
// accounts must have credit, so it is the longer wait.
func (s *accounts) owes(p Payer, now time.Time) time.Duration {
	wait := owes(s.namespaces[p.Namespace], s.rates.Namespace, now)
	if p.Principal != "" {
		wait = max(wait, owes(s.principals[p.Principal], s.rates.Principal, now))
	}
	return wait
}

// charge charges the cost of an evaluation.
func (s *accounts) charge(p Payer, cost int, now time.Time) {
	charge(s.namespaces, p.Namespace, s.rates.Namespace, cost, now)
	if p.Principal != "" {
		charge(s.principals, p.Principal, s.rates.Principal, cost, now)
	}
}

func owes(a *account, rate int, now time.Time) time.Duration {
	if a == nil { // as without a rate
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

// leftAt returns the credit at a time.
func (a *account) leftAt(rate int, now time.Time) float64 {
	return min(most(rate), a.left+max(0, now.Sub(a.at).Seconds())*float64(rate))
}

// most returns the capacity of an account.
func most(rate int) float64 { return saved * float64(rate) }

// sweep forgets full accounts: they equal new ones.
func sweep(all map[string]*account, rate int, now time.Time) {
	for name, a := range all {
		if a.leftAt(rate, now) >= most(rate) {
			delete(all, name)
		}
	}
}
