package loopguard

import (
	"context"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// MarkRecords stores the marks of unsafe producers.
type MarkRecords interface {
	Store
	// All returns all marks.
	All(ctx context.Context) ([]sluice.Unsafe, error)
	// DeleteMark removes a mark. Code Conflict unless the stored revision is the given one.
	DeleteMark(ctx context.Context, producer string, revision uint64) error
}

// Producers implements the API's operations on unsafe producers.
type Producers struct {
	Marks  MarkRecords
	Guard  *Guard
	Ledger *ledger.Ledger
}

// UnsafeProducers returns all marks.
func (p Producers) UnsafeProducers(ctx context.Context) ([]sluice.Unsafe, error) {
	return p.Marks.All(ctx)
}

// ClearProducer removes a mark after recording that in the ledger. Code Conflict if another loop is
// detected in the meantime.
func (p Producers) ClearProducer(ctx context.Context, producer, by string) error {
	is, revision, err := p.Marks.Mark(ctx, producer)
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Errorf(sluice.NotFound, "producer %q is not marked unsafe", producer)
	}
	if err != nil {
		return err
	}
	intent, err := p.Ledger.Intend(ctx, nil, ledger.Change{Actor: by, Action: sluice.ActionProducerClear, Resource: producer, Old: is})
	if err != nil {
		return err
	}
	if err := p.Marks.DeleteMark(ctx, producer, revision); err != nil {
		intent.Fail(ctx, err)
		return err
	}
	p.Guard.ForgetMark(producer, revision)
	return nil
}
