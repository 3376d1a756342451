package host

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// stands returns a function with code Conflict if an approval of a module is not the stored one any
// more: a later one decides about the subscriptions. nil stands for no approval.
func (s *Service) stands(ctx context.Context, name string, a *Approval) func() error {
	return func() error {
		now, err := s.stored(ctx, name)
		if err == nil && now.revision() != a.revision() {
			err = sluice.Errorf(sluice.Conflict, "module %q was approved, stopped or removed meanwhile; look at it, and try again if needed", name)
		}
		return err
	}
}

// lastLimit bounds giving way, which goes on if the caller is gone.
const lastLimit = 30 * time.Second

// giveWay makes the subscriptions that an approval lists agree with the record that is stored now,
// which may be later or missing: it deletes those that the record does not list, and stops the others
// of a stopped module. That may have come before the approval created or resumed one of them.
func (s *Service) giveWay(ctx context.Context, name string, a *Approval) error {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), lastLimit)
	defer cancel()
	for {
		err := s.agree(ctx, name, a)
		if sluice.CodeOf(err) != sluice.Conflict || ctx.Err() != nil {
			return err
		}
	}
}

// agree is a try of giveWay. Code Conflict if the record was changed meanwhile.
func (s *Service) agree(ctx context.Context, name string, a *Approval) error {
	now, err := s.stored(ctx, name)
	if err != nil {
		return err
	}
	if err := s.end(ctx, name, a.By, now, a.dropped(now)); err != nil {
		return err
	}
	switch {
	case now == nil:
		return nil
	case now.Disabled:
		return s.pause(ctx, name, now, a.By)
	case now.Unsafe != nil:
		return s.suspend(ctx, name, now, now.Unsafe.Reason)
	}
	return nil
}

// dropped returns the subscriptions of an approval that a later one does not list; nil stands for
// none.
func (a *Approval) dropped(later *Approval) []string {
	if later == nil {
		return a.Subscriptions
	}
	return slices.DeleteFunc(slices.Clone(a.Subscriptions), func(id string) bool { return slices.Contains(later.Subscriptions, id) })
}
