package knowledge

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// job returns a task as a job. The caller holds the lock.
func (s *space) job(t *task) sluice.Job {
	rec := s.records[t.id]
	fingerprint := ""
	if it := s.items[t.entry]; it != nil {
		fingerprint = it.fingerprint
	}
	r := s.view(rec, s.modelOf(t), fingerprint)
	if rec != nil && s.items[t.entry] == nil {
		r = rec.Record
	}
	j := sluice.Job{
		ID: t.id, Namespace: s.config.Namespace, Type: t.kind, Priority: t.kind.Priority(), State: r.State, Model: s.config.Model, Entry: t.entry,
		Attempts: r.Attempts, Error: r.Error, Worker: r.Worker, Generation: r.Generation, NotBefore: when(r.NotBefore), LeaseUntil: when(r.Until),
	}
	if r.State == done {
		j.State = sluice.JobPending
	}
	if t.pair != nil {
		j.Against, j.CrossBoundary, j.DiscountFactor = &t.pair.Against, t.pair.crosses(), t.pair.Discount
		if why := s.missing(t.pair.Against); why != "" {
			j.State, j.Error, j.NotBefore, j.LeaseUntil = sluice.JobFailed, why, nil, nil
		}
	}
	return j
}

// missing returns why a neighbour is gone; "" if it is not. The caller holds the lock.
func (s *space) missing(ref sluice.EntryRef) string {
	switch it := s.items[ref]; {
	case it != nil && it.fingerprint != "":
		return ""
	case ref.Source == sluice.SourceMirrored && s.mirrors[ref.Subscription] == nil:
		return mirrorDeleted
	}
	return entryDeleted
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// jobs returns the wanted jobs about entries that a caller may see, ordered by priority and id.
func (s *space) jobs(by sluice.Caller, wanted func(*task) bool) ([]sluice.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sees := s.eyes(by)
	all := []sluice.Job{}
	for _, t := range s.tasks {
		if wanted(t) && sees.entry(s.items[t.entry]) && (t.pair == nil || sees.pair(t.pair)) {
			all = append(all, s.job(t))
		}
	}
	if sees.undecided {
		return nil, model.PermissionsUnknown()
	}
	slices.SortFunc(all, func(a, b sluice.Job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}
