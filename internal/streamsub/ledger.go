package streamsub

import (
	"cmp"
	"context"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Book records the creation and removal of subscriptions in the ledger. The resource is "<root>
// <id>", with "/" for no root.
type Book struct{ Ledger *ledger.Ledger }

var _ Accountant = Book{}

// Made records that a subscription is about to be created. The returned function records that this
// failed.
func (b Book) Made(ctx context.Context, s *Subscription) (func(error), error) {
	return b.intend(ctx, s, ledger.Change{Actor: string(s.Principal), Action: sluice.ActionStreamWakeCreate, New: s.Config})
}

// Removed records that a subscription is about to be removed. The returned function records that
// this failed.
func (b Book) Removed(ctx context.Context, s *Subscription, by sluice.Principal) (func(error), error) {
	return b.intend(ctx, s, ledger.Change{Actor: string(by), Action: sluice.ActionStreamWakeDelete, Old: s.Config})
}

func (b Book) intend(ctx context.Context, s *Subscription, c ledger.Change) (func(error), error) {
	c.Namespace, c.Resource = s.Namespace, cmp.Or(s.Root, "/")+" "+s.ID
	intent, err := b.Ledger.Intend(ctx, nil, c)
	return func(cause error) { intent.Fail(ctx, cause) }, err
}
